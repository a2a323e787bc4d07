"""Writes the protocol buffer wire format: varints, tags, length-delimited fields.

Source: the encoding specification of protocol buffers.
"""

from collections.abc import Iterable

from ie_serving.wire.protobuf.fields import DELIMITED


def varint(value: int) -> bytes:
    """Encode one integer; a negative one as its 64-bit two's complement."""
    # Python's integers have no width: without the mask a negative one would never come to its end.
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    """Encode the tag of a field."""
    return varint(number << 3 | kind)


def head(number: int, length: int) -> bytes:
    """Encode the tag and the length before `length` bytes of a length-delimited field."""
    return tag(number, DELIMITED) + varint(length)


def delimited(number: int, value: bytes) -> bytes:
    """Encode a whole length-delimited field."""
    return head(number, len(value)) + value


def strings(number: int, values: Iterable[bytes]) -> bytes:
    """Encode a repeated field of bytes."""
    # Strings are never packed: each has a tag of its own, and it is the same for all.
    prefix = tag(number, DELIMITED)
    return b"".join([prefix + varint(len(value)) + value for value in values])
