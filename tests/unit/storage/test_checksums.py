"""What is checked by what, and that the check is the store's own."""

import base64
import hashlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import Corrupted
from ie_serving.storage.checksums import Checksum, from_s3_headers, verify
from tests.tables import named_by

MD5 = "900150983cd24fb0d6963f7d28e17f72"  # of b"abc", RFC 1321
CRC32 = base64.b64encode((0x352441C2).to_bytes(4, "big")).decode()  # of b"abc"
KMS = {"x-amz-server-side-encryption": "aws:kms"}
OWN_KEY = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}


@named_by(
    "algorithm",
    ("algorithm", "value"),
    [
        ("md5", MD5),
        ("crc32", "352441c2"),
        ("crc32c", "364b3fb7"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
)
def test_the_published_digests_of_abc_are_computed(
    tmp_path: Path, algorithm: str, value: str
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    verify(tmp_path / "file", Checksum(algorithm, bytes.fromhex(value)), "abc")
    (tmp_path / "file").write_bytes(b"abd")
    with pytest.raises(Corrupted, match=f"s3://b/abc: .* have {algorithm} "):
        verify(tmp_path / "file", Checksum(algorithm, bytes.fromhex(value)), "s3://b/abc")


@given(data=st.binary(min_size=1, max_size=300), part_bytes=st.integers(1, 300))
def test_a_composite_is_the_digest_of_the_parts_digests(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, part_bytes: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "composite"
    file.write_bytes(data)
    parts = [data[start : start + part_bytes] for start in range(0, len(data), part_bytes)]
    joined = b"".join(hashlib.md5(part).digest() for part in parts)
    verify(file, Checksum("md5", hashlib.md5(joined).digest(), part_bytes), "composite")
    joined = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    value = zlib.crc32(joined).to_bytes(4, "big")
    verify(file, Checksum("crc32", value, part_bytes), "composite")


@pytest.mark.parametrize(
    ("tag", "headers", "expected"),
    [
        pytest.param(MD5, {}, ("md5", 0), id="the ETag of a simple upload is its MD5"),
        pytest.param(
            MD5, {"x-amz-checksum-crc32": CRC32}, ("crc32", 0), id="a whole checksum goes first"
        ),
        pytest.param(MD5, KMS, None, id="under SSE-KMS the ETag is no MD5"),
        pytest.param(MD5, OWN_KEY, None, id="under a customer's key the ETag is no MD5"),
        pytest.param(
            MD5,
            {**KMS, "x-amz-checksum-crc32": CRC32},
            ("crc32", 0),
            id="a checksum holds under SSE-KMS",
        ),
        pytest.param(f"{MD5}-3", {}, ("md5", 10), id="a multipart ETag, by the parts' size"),
        pytest.param(
            f"{MD5}-3",
            {"x-amz-checksum-crc32": f"{CRC32}-3"},
            ("crc32", 10),
            id="a composite checksum",
        ),
        pytest.param(f"{MD5}-2", {}, None, id="parts of several sizes cannot be checked"),
        pytest.param(f"{MD5}-3", KMS, None, id="nor a multipart ETag under SSE-KMS"),
        pytest.param(
            MD5,
            {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="},
            ("md5", 0),
            id="CRC64NVME is not known, the ETag is",
        ),
        pytest.param("weird", {}, None, id="another ETag says nothing"),
    ],
)
def test_an_s3_object_is_checked_by_the_best_sum_that_it_has(
    tag: str, headers: dict[str, str], expected: tuple[str, int] | None
) -> None:
    chosen = from_s3_headers(tag, 25, headers, lambda: 10)
    assert (chosen and (chosen.algorithm, chosen.part_bytes)) == expected
