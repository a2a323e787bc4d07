"""Files of very many pieces, each of which costs Pillow some microseconds, are refused at once."""

import struct
import zlib

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.wire.image import (
    MOST_BETWEEN,
    MOST_CHUNKS,
    MOST_SCANNED,
    MOST_SEGMENTS,
    decode,
)
from tests.unit.wire.image.pictures import encoded, smooth

RGB = 3
JPEG = encoded(smooth(8, 8), "JPEG")
PNG = encoded(smooth(8, 8))
HEADER = 33
"""Bytes of a PNG in front of its second chunk."""


def segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">HH", marker, len(content) + 2) + content


def jpeg(*pieces: bytes) -> bytes:
    return JPEG[:2] + b"".join(pieces) + JPEG[2:]


def png(*pieces: bytes) -> bytes:
    return PNG[:HEADER] + b"".join(pieces) + PNG[HEADER:]


def chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


EXIF = segment(0xFFE1, b"Exif\0\0" + bytes(40))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(jpeg(EXIF * MOST_SEGMENTS), "segments", id="EXIF, joined one by one"),
        pytest.param(jpeg(segment(0xFFFE, b"") * MOST_SEGMENTS), "segments", id="comments"),
        pytest.param(jpeg(b"\xff" * MOST_SEGMENTS), "segments", id="filling"),
        pytest.param(jpeg(b"\xff\xd0" * MOST_SEGMENTS), "segments", id="restarts"),
        pytest.param(jpeg(EXIF, bytes(MOST_BETWEEN + 1)), "between", id="what belongs to none"),
        pytest.param(jpeg(b"\xff\xfe\0\0" * MOST_SEGMENTS), "segments", id="no length"),
        pytest.param(png(chunk(b"abCd", b"") * MOST_CHUNKS), "chunks", id="chunks"),
    ],
)
def test_a_file_of_very_many_pieces_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(InvalidTensor, match=text):
        decode(data, RGB)


@pytest.mark.parametrize(
    ("plain", "data"),
    [
        pytest.param(JPEG, jpeg(EXIF * 300), id="EXIF"),
        pytest.param(JPEG, jpeg(segment(0xFFE2, bytes(60_000)) * 300), id="18 MB of a profile"),
        pytest.param(JPEG, jpeg(b"\xff" * 100, EXIF, bytes(100)), id="filling"),
        pytest.param(JPEG, JPEG[:2] + EXIF + JPEG[2:] + bytes(10**6), id="what follows the end"),
        pytest.param(PNG, png(chunk(b"abCd", bytes(50)) * 1000), id="chunks"),
    ],
)
def test_a_picture_that_encoders_write_is_decoded(plain: bytes, data: bytes) -> None:
    np.testing.assert_array_equal(decode(data, RGB), decode(plain, RGB))


def test_many_passes_over_a_large_picture_are_refused() -> None:
    """0.4 MB of a picture of 64 million pixels took 13 s."""
    data = encoded(np.zeros((6000, 6000, RGB), np.uint8), "JPEG", progressive=True)
    at = data.rindex(b"\xff\xda")
    scans = MOST_SCANNED // 6000**2 - data.count(b"\xff\xda")
    last = data[at:-2]
    with pytest.raises(InvalidTensor, match="pixels of all"):
        decode(data[:-2] + last * (scans + 1) + data[-2:], RGB)
