"""Checksums that stores give for objects, and the check of a file against them.

Sources: Amazon S3 User Guide, "Checking object integrity"; Cloud Storage, "Hashes and ETags".
"""

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ie_serving.core.values.errors import Corrupted

_BLOCK_BYTES = 1 << 20
"""Bytes of a file that are read at a time, so that a file of any size takes this much memory. From
16 KB on the size makes no difference to the time: the digest takes nearly all of it."""
_MD5_TAG = re.compile(r"[0-9a-f]{32}")
_PARTS_TAG = re.compile(r"([0-9a-f]{32})-([0-9]+)")
_S3_HEADERS = {
    "x-amz-checksum-crc32": "crc32",
    "x-amz-checksum-crc32c": "crc32c",
    "x-amz-checksum-sha1": "sha1",
    "x-amz-checksum-sha256": "sha256",
}
"""Cheapest first. CRC64NVME is left out: no library for it without a C compiler of AWS's own."""


class Digest(Protocol):
    """The part of hashlib's objects that is used."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""

    def digest(self) -> bytes:
        """Give the result of all bytes so far."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksum that a store gives for an object.

    Attributes:
        algorithm: a key of `DIGESTS`.
        value: the digest; for a composite one, the digest of the parts' digests.
        part_bytes: size of the upload's parts (the last may be shorter); 0 when `value` covers
            the whole object.
    """

    algorithm: str
    value: bytes
    part_bytes: int = 0


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """See `Digest`."""
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        """Give the sum in four bytes."""
        # Stores write the sum with the highest byte first.
        return struct.pack(">I", self._value)


def _crc32c() -> Digest:
    import google_crc32c

    digest: Digest = google_crc32c.Checksum()  # type: ignore[no-untyped-call]
    return digest


DIGESTS: Mapping[str, Callable[[], Digest]] = {
    "crc32": _Crc32,
    "crc32c": _crc32c,
    "md5": lambda: hashlib.md5(usedforsecurity=False),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}


def verify(file: Path, expected: Checksum, name: str) -> None:
    """Read `file` once and compare.

    Raises:
        Corrupted: naming the object `name` and the algorithm.
    """
    with file.open("rb") as stream:
        if expected.part_bytes:
            actual = _composite(stream, file.stat().st_size, expected)
        else:
            actual = _digest(expected.algorithm, _blocks(stream))
    if actual != expected.value:
        raise Corrupted(
            f"{name}: the bytes that arrived have {expected.algorithm} {actual.hex()}, "
            f"the store promises {expected.value.hex()}: look for a faulty proxy, network or disk"
        )


def from_s3_headers(
    tag: str, size: int, headers: Mapping[str, str], part_bytes: Callable[[], int]
) -> Checksum | None:
    """Choose the checksum to check an S3 object with.

    Args:
        tag: ETag without quotes.
        size: bytes of the object.
        headers: headers of HeadObject, names in lower case.
        part_bytes: requests the size of the first part; called only for a multipart upload
            without a checksum of the whole object.
    """
    offered = [(name, headers[key]) for key, name in _S3_HEADERS.items() if key in headers]
    # A checksum of the whole first: one over the parts needs another request, for their size.
    for name, value in offered:
        if "-" not in value:
            return Checksum(name, base64.b64decode(value))
    # The ETag of an object under SSE-KMS or a customer's key is no MD5, though it looks like one.
    by_tag = headers.get("x-amz-server-side-encryption", "AES256") == "AES256" and (
        "x-amz-server-side-encryption-customer-algorithm" not in headers
    )
    if by_tag and _MD5_TAG.fullmatch(tag):
        return Checksum("md5", bytes.fromhex(tag))
    parts = _PARTS_TAG.fullmatch(tag) if by_tag else None
    if offered:
        value, _, count = offered[0][1].partition("-")
        return _of_parts(offered[0][0], base64.b64decode(value), int(count), size, part_bytes())
    if parts:
        return _of_parts("md5", bytes.fromhex(parts[1]), int(parts[2]), size, part_bytes())
    return None


def _of_parts(
    algorithm: str, value: bytes, count: int, size: int, part_bytes: int
) -> Checksum | None:
    """A composite checksum, unless the parts are of several sizes."""
    # The store tells the first part's size alone; when the count does not follow from it, the
    # others differ, and the composite cannot be computed.
    if part_bytes <= 0 or -(-size // part_bytes) != count:
        return None
    return Checksum(algorithm, value, part_bytes)


def _digest(algorithm: str, blocks: Iterator[bytes]) -> bytes:
    digest = DIGESTS[algorithm]()
    for block in blocks:
        digest.update(block)
    return digest.digest()


def _composite(stream: BinaryIO, size: int, expected: Checksum) -> bytes:
    parts = range(-(-size // expected.part_bytes))
    digests = (_digest(expected.algorithm, _blocks(stream, expected.part_bytes)) for _ in parts)
    return _digest(expected.algorithm, digests)


def _blocks(stream: BinaryIO, limit: int | None = None) -> Iterator[bytes]:
    left = limit
    while block := stream.read(_BLOCK_BYTES if left is None else min(left, _BLOCK_BYTES)):
        yield block
        left = None if left is None else left - len(block)
