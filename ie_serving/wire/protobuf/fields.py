"""The protocol buffer wire format: finds the offsets of a message's fields, and writes fields.

protobuf itself copies every byte that it parses. Where a request is large, or equals an earlier one
except for its numbers, only the offsets of its fields are needed; this module finds them without
reading the values. All callers use `scan`, with offsets inside the same payload, so a field of a
field needs no other walker.

The walker raises `UnusualField` for bytes that it does not understand completely, and callers then
let protobuf parse them: so protobuf alone refuses malformed messages.

The functions that write give varints, tags and length-delimited fields.

Source: the encoding specification of protocol buffers.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

Encoded: TypeAlias = bytes | memoryview

# Wire types, the lowest three bits of a tag.
VARINT: Final = 0
FIXED64: Final = 1
DELIMITED: Final = 2
GROUP: Final = 3
"""Begins a group, which has no length: it ends at the `GROUP_END` of the same number."""
GROUP_END: Final = 4
FIXED32: Final = 5

MOST_FIELDS: Final = 4096
"""Fields of one message that are walked. Python takes about a microsecond for each; beyond this
many small ones protobuf is faster, copies and all."""

LONGEST_LENGTH: Final = 5
"""Bytes of a tag or a length, 35 bits. protobuf refuses longer ones."""

LONGEST_VALUE: Final = 10
"""Bytes of a value, 64 bits: negative ones, such as an unknown size of -1, take all ten."""

LEAST_TAG: Final = 1 << 3
_MOST_TAG: Final = (1 << 32) - 1
"""Field numbers begin at 1, and a tag has 32 bits."""


class UnusualField(Exception):
    """These bytes are for protobuf to parse, or to refuse."""


class Field(NamedTuple):
    """One field of a message; all offsets are in the payload that was walked.

    Attributes:
        number: field number.
        kind: wire type.
        start: index at which its tag begins.
        value: index at which its value begins; for DELIMITED, after the length.
        end: index at which the next field begins.
    """

    number: int
    kind: int
    start: int
    value: int
    end: int


def read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """Read one unsigned varint and where it ends.

    Raises:
        UnusualField: it is longer than `LONGEST_LENGTH`, or cut short.
    """
    # `zip` ends at the end of the view too: a varint that is cut short is unclear like a long one.
    value = 0
    for shift, byte in zip(range(0, 35, 7), view[at : at + LONGEST_LENGTH], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    raise UnusualField


def scan(
    payload: memoryview, start: int = 0, end: int | None = None, most: int = MOST_FIELDS
) -> list[Field]:
    """List the fields of one message, in their order, without looking into them.

    Args:
        payload: buffer with the message.
        start: index at which it begins.
        end: index at which it ends; None for the end of the payload.
        most: fields that it may have.

    Raises:
        UnusualField: a group, an impossible tag or length, or more than `most` fields.
    """
    found: list[Field] = []
    at, stop = start, len(payload) if end is None else end
    while at < stop:
        if len(found) == most:
            raise UnusualField
        tag, value = payload[at], at + 1
        if tag >= 0x80:  # field numbers up to 15 take one byte
            tag, value = read_varint(payload, at)
        # A length that reaches beyond the message leads to an `after` beyond `stop`, and is caught.
        value, after = extent(payload, tag & 7, value)
        if after > stop or not LEAST_TAG <= tag <= _MOST_TAG:
            raise UnusualField
        found.append(Field(tag >> 3, tag & 7, at, value, after))
        at = after
    return found


def extent(view: memoryview, kind: int, at: int) -> tuple[int, int]:
    """Tell where the value of a field of wire type `kind` begins and ends.

    Raises:
        UnusualField: a group, or a varint that is too long or cut short.
    """
    if kind == DELIMITED:
        length, at = read_varint(view, at)
        return at, at + length
    if kind == FIXED32:
        return at, at + 4
    if kind == FIXED64:
        return at, at + 8
    if kind == VARINT:
        return at, _end_of_varint(view, at)
    raise UnusualField


def _end_of_varint(view: memoryview, at: int) -> int:
    """Tell where a value ends, however large it is."""
    for end, byte in enumerate(view[at : at + LONGEST_VALUE], at + 1):
        if byte < 0x80:
            return end
    raise UnusualField


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
