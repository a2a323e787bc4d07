"""Converts packed varints, a TensorProto's lists of integers, to and from numpy arrays.

protobuf's own conversion makes a Python object for each value. Source: the encoding specification
of protocol buffers.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from ie_serving.wire.protobuf.fields import Encoded

LONGEST_VARINT: Final = 10
"""Bytes of a varint of 64 bits; a longer one is malformed."""

BLOCK: Final = 1 << 18
"""Bytes of packed varints decoded at a time. It bounds the temporary arrays, which take some thirty
bytes for each byte of a block; a longer list is decoded block by block."""


def decode_varints(raw: Encoded, most: int, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """Decode packed varints.

    Args:
        raw: the packed values.
        most: number of wanted values; further ones are checked and dropped.
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
        block = _complete_varints(source[at : at + BLOCK])
        values = _decode_block(block)[: most - taken]
        if len(values):
            parts.append(values.astype(dtype))
        at += len(block)
        taken += len(values)
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _complete_varints(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Cut off a varint at the end that goes on beyond the block."""
    for cut in range(len(block), max(len(block) - LONGEST_VARINT, 0), -1):
        if block[cut - 1] < 0x80:
            return block[:cut]
    raise ValueError("a packed varint is cut short or longer than ten bytes")


def _decode_block(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.generic]:
    last = np.flatnonzero(block < 0x80)  # the byte that ends a varint has no continuation bit
    if len(last) == len(block):
        return block  # all below 128, as class numbers and token masks are: a byte is its value
    first = np.concatenate(([0], last[:-1] + 1))
    length = last - first + 1
    longest = int(length.max())
    if longest > LONGEST_VARINT:
        raise ValueError("a packed varint is longer than ten bytes")
    # One pass for each index of a byte, over all varints that are so long: ten passes at most,
    # whatever the number of values.
    values = (block[first] & 0x7F).astype(np.uint64)
    for index in range(1, longest):
        more = np.flatnonzero(length > index)
        septets = (block[first[more] + index] & 0x7F).astype(np.uint64)
        values[more] |= septets << np.uint64(7 * index)
    return values


def encode_varints(values: npt.NDArray[np.generic]) -> Encoded:
    """Encode integers or booleans as packed varints; negative ones take ten bytes each.

    Args:
        values: contiguous, any shape.
    """
    # Signed values are written as their two's complement of 64 bits, whatever their own width.
    flat = values.reshape(-1)
    if flat.dtype == np.bool_:
        return flat.tobytes()
    wide = flat.astype(np.int64).view(np.uint64) if flat.dtype.kind == "i" else flat
    if not wide.size or wide.max() < 0x80:
        return wide.astype(np.uint8).tobytes()
    return _encode_wide(wide.astype(np.uint64))


def _encode_wide(values: npt.NDArray[np.uint64]) -> bytes:
    # The lengths first: they say where each varint begins, and then all are written index by index.
    length = np.ones(len(values), np.int64)
    for index in range(1, LONGEST_VARINT):
        length += values >= np.uint64(1 << (7 * index))
    ends = np.cumsum(length)
    starts = ends - length
    out = np.empty(int(ends[-1]), np.uint8)
    for index in range(int(length.max())):
        here = np.flatnonzero(length > index)
        septets = (values[here] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        out[starts[here] + index] = septets | ((length[here] > index + 1) << 7).astype(np.uint8)
    return out.tobytes()
