"""How many pieces a file consists of, counted before Pillow reads them one by one in Python.

It takes some microseconds for each, with the interpreter held, and joins all pieces of EXIF anew
for each further one: 4 MB of them took 40 s. Encoders make some dozen.
"""

from collections.abc import Iterator
from typing import Final

from ie_serving.core.values.errors import InvalidTensor

MOST_SEGMENTS: Final = 2000
"""Segments and filling bytes in front of a JPEG's picture. A profile of 16 MB and an XMP of that
size are 256 segments each."""
MOST_CHUNKS: Final = 50_000
"""Chunks of a PNG: encoders write 8 KB each, which are 400 MB."""
MOST_BETWEEN: Final = 1 << 16
"""Bytes between a JPEG's segments that belong to none; Pillow skips them one by one."""

_JPEG: Final = b"\xff\xd8\xff"
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_FRAME: Final = 12
"""Length, type and checksum of a chunk."""
_SCAN: Final = 0xDA
"""Marker in front of the picture. Source: ITU-T T.81, table B.1."""
_BARE: Final = frozenset({0x00, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)})
"""Markers that Pillow takes without a length."""


def check_pieces(data: bytes) -> None:
    """Refuse a file of very many pieces.

    Raises:
        InvalidTensor: the text goes on where "image N" stands before it.
    """
    if data.startswith(_JPEG):
        _count(_segments(data), MOST_SEGMENTS, "JPEG", "segments")
    elif data.startswith(_PNG):
        _count(_chunks(data), MOST_CHUNKS, "PNG", "chunks")


def _count(pieces: Iterator[None], most: int, form: str, words: str) -> None:
    for count, _ in enumerate(pieces):
        if count >= most:
            raise InvalidTensor(
                f"is a {form} of more than {most} {words}; no more are read: encode it again"
            )


def _segments(data: bytes) -> Iterator[None]:
    at, between = 2, 0
    while 0 <= (begin := data.find(b"\xff", at)) < len(data) - 1 and data[begin + 1] != _SCAN:
        yield None
        between += begin - at
        if between > MOST_BETWEEN:
            raise InvalidTensor(
                f"is a JPEG with more than {MOST_BETWEEN} bytes between its segments: send the"
                " whole file, and nothing else"
            )
        kind = data[begin + 1]
        if kind == 0xFF:  # filling
            at = begin + 1
        elif kind in _BARE:
            at = begin + 2
        else:
            # A length counts its own two bytes; a smaller one must not keep the loop in place.
            at = begin + 2 + max(2, int.from_bytes(data[begin + 2 : begin + 4], "big"))


def _chunks(data: bytes) -> Iterator[None]:
    at = len(_PNG)
    while at < len(data):
        yield None
        at += _PNG_FRAME + int.from_bytes(data[at : at + 4], "big")
