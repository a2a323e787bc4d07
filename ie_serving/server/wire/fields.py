"""Protocol buffer encoding itself: tags, varints, length-delimited fields; whole arrays at a time.

The scanner reads only what it understands completely and raises `Unclear` for the rest, upon which
callers let protobuf parse the bytes: so there is one authority on what is malformed, and it is not
this module. Source: the encoding specification of protocol buffers.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Buffer: TypeAlias = bytes | memoryview

VARINT = 0
FIXED64 = 1
DELIMITED = 2
FIXED32 = 5

LONGEST_VARINT = 10
MOST_FIELDS = 4096
"""Fields that one message may have to be scanned here. Python walks them one by one; protobuf is
faster when there are many small ones."""

_BLOCK = 1 << 18
"""Bytes of packed varints decoded at a time, which bounds the temporary arrays."""


class Unclear(Exception):
    """These bytes are for protobuf to parse, or to refuse."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: field number.
        kind: wire type.
        start: where its tag begins.
        value: where its value begins; for DELIMITED, after the length.
        end: where the next field begins.
    """

    number: int
    kind: int
    start: int
    value: int
    end: int


def read_varint(view: memoryview, at: int) -> tuple[int, int]:
    """Read one unsigned varint and where it ends.

    Raises:
        Unclear: it is longer than five bytes, or cut short.
    """
    value = 0
    for shift, byte in zip(range(0, 35, 7), view[at : at + 5], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    raise Unclear


def scan(view: memoryview) -> list[Field]:
    """List the fields of one message, in their order, without looking into them.

    Raises:
        Unclear: a group, an impossible tag or length, or more than `MOST_FIELDS` fields.
    """
    fields: list[Field] = []
    at, size = 0, len(view)
    while at < size:
        if len(fields) == MOST_FIELDS:
            raise Unclear
        tag, value = read_varint(view, at)
        value, end = _extent(view, tag & 7, value)
        if end > size or tag < 8:
            raise Unclear
        fields.append(Field(tag >> 3, tag & 7, at, value, end))
        at = end
    return fields


def _extent(view: memoryview, kind: int, at: int) -> tuple[int, int]:
    """Tell where the value of a field of wire type `kind` begins and ends."""
    if kind == DELIMITED:
        length, at = read_varint(view, at)
        return at, at + length
    if kind == FIXED32:
        return at, at + 4
    if kind == FIXED64:
        return at, at + 8
    if kind == VARINT:
        return at, read_varint(view, at)[1]
    raise Unclear


def decode_varints(raw: Buffer, most: int, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Decode packed varints.

    Args:
        raw: the packed values.
        most: how many values are wanted; further ones are checked and dropped.
        dtype: integer type that values wrap to, or bool.

    Returns:
        New array of `dtype`, at most `most` long.

    Raises:
        ValueError: cut short, or a varint of more than ten bytes.
    """
    source = np.frombuffer(raw, np.uint8)
    parts: list[npt.NDArray[np.generic]] = []
    at = taken = 0
    while at < len(source):
        block = _whole(source[at : at + _BLOCK])
        values = _decode_block(block)[: most - taken]
        if len(values):
            parts.append(values.astype(dtype))
        at += len(block)
        taken += len(values)
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _whole(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Cut off a varint at the end that goes on beyond the block."""
    for cut in range(len(block), max(len(block) - LONGEST_VARINT, 0), -1):
        if block[cut - 1] < 0x80:
            return block[:cut]
    raise ValueError("a packed varint is cut short or longer than ten bytes")


def _decode_block(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.generic]:
    last = np.flatnonzero(block < 0x80)
    if len(last) == len(block):
        return block
    first = np.empty_like(last)
    first[0] = 0
    first[1:] = last[:-1] + 1
    length = last - first + 1
    longest = int(length.max())
    if longest > LONGEST_VARINT:
        raise ValueError("a packed varint is longer than ten bytes")
    values = (block[first] & 0x7F).astype(np.uint64)
    for place in range(1, longest):
        more = np.flatnonzero(length > place)
        septets = (block[first[more] + place] & 0x7F).astype(np.uint64)
        values[more] |= septets << np.uint64(7 * place)
    return values


def encode_varints(values: npt.NDArray[np.generic]) -> Buffer:
    """Encode integers or booleans as packed varints; negative ones take ten bytes each.

    Args:
        values: contiguous, any shape.
    """
    flat = values.reshape(-1)
    if flat.dtype == np.bool_:
        return flat.tobytes()
    wide = flat.astype(np.int64).view(np.uint64) if flat.dtype.kind == "i" else flat
    if not wide.size or wide.max() < 0x80:
        return wide.astype(np.uint8).tobytes()
    return _encode_wide(wide.astype(np.uint64))


def _encode_wide(values: npt.NDArray[np.uint64]) -> bytes:
    length = np.ones(len(values), np.int64)
    for place in range(1, LONGEST_VARINT):
        length += values >= np.uint64(1 << (7 * place))
    ends = np.cumsum(length)
    starts = ends - length
    out = np.empty(int(ends[-1]), np.uint8)
    for place in range(int(length.max())):
        here = np.flatnonzero(length > place)
        septets = (values[here] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        out[starts[here] + place] = septets | ((length[here] > place + 1) << 7).astype(np.uint8)
    return out.tobytes()


def varint(value: int) -> bytes:
    """Encode one integer; a negative one as its 64-bit two's complement."""
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
    """Encode what precedes `length` bytes of a length-delimited field."""
    return tag(number, DELIMITED) + varint(length)


def delimited(number: int, value: bytes) -> bytes:
    """Encode a whole length-delimited field."""
    return head(number, len(value)) + value


def strings(number: int, values: Iterable[bytes]) -> bytes:
    """Encode a repeated field of bytes."""
    prefix = tag(number, DELIMITED)
    return b"".join([prefix + varint(len(value)) + value for value in values])
