"""Reads Examples that have the same features in the same order, as one program writes them.

The bytes before the values of a feature are then equal in all Examples except for lengths. This
*head* is read from the first Example and compared with those of all others at once, so that no key
has to be searched. `example_columns.py` reads Examples that differ.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.examples.example_columns import (
    FIRST,
    SECOND,
    TAG_OF,
    Column,
    SerializedExamples,
)
from ie_serving.wire.examples.example_spec import FeatureSpec
from ie_serving.wire.protobuf.fields import UnusualField, read_varint

_STRINGS: Final = TAG_OF[DataType.STRING]
_DTYPE_OF: Final = {tag: dtype for dtype, tag in TAG_OF.items()}


def read_alike(features: Sequence[FeatureSpec], serialized: Sequence[bytes]) -> dict[str, Column]:
    """Read features of Examples that are alike, at least one; gives columns by key.

    Raises:
        UnusualField: they are not, or protobuf has to read them.
    """
    try:
        found = _UniformExamples(serialized).columns({feature.key.encode() for feature in features})
    except IndexError:  # a length leads beyond the end
        raise UnusualField from None
    count = len(serialized)
    nothing = np.zeros(count, np.int64), np.zeros(count, bool)
    columns = {}
    for feature in features:
        dtype, column = found.get(feature.key.encode(), (feature.dtype, None))
        if dtype is not feature.dtype:
            raise UnusualField
        columns[feature.key] = column or Column(np.empty(0, dtype.numpy), *nothing)
    return columns


class _Length(NamedTuple):
    """A length of a head: its offset, where the bytes begin that it counts, and its value."""

    offset: int
    end: int
    value: int


@dataclass(frozen=True)
class _Head:
    """The bytes before the values of a feature: for strings, those before the list.

    Attributes:
        data: its bytes in the first Example.
        key: key of the feature.
        dtype: dtype of the values.
        lengths: nothing follows the values, so each counts up to the end of the entry.
    """

    data: bytes
    key: bytes
    dtype: DataType
    lengths: Sequence[_Length]

    @property
    def mask(self) -> bytes:
        """Of each byte the bits that must be equal: of a length, whether it goes on."""
        mask = b"\xff" * len(self.data)
        for length in self.lengths:
            mask = (
                mask[: length.offset] + b"\x80" * (length.end - length.offset) + mask[length.end :]
            )
        return mask


def _head(view: memoryview, start: int) -> _Head:
    """Read the head that begins at `start`."""
    view = view[start:]
    entry = _length(view, 0, (FIRST,))
    key = _length(view, entry.end, (FIRST,))
    value = _length(view, key.end + key.value, (SECOND,))
    values = _length(view, value.end, _DTYPE_OF)
    dtype = _DTYPE_OF[view[value.end]]
    lengths = [entry, value, values]
    if dtype is not DataType.STRING:
        lengths.append(_length(view, values.end, (FIRST,)))
    data = bytes(view[: lengths[-1].end])
    behind = len(data) + lengths[-1].value
    if any(length.end + length.value != behind for length in lengths):
        raise UnusualField
    return _Head(data, data[key.end : key.end + key.value], dtype, lengths)


def _length(view: memoryview, at: int, tags: Collection[int]) -> _Length:
    if view[at] not in tags:
        raise UnusualField
    value, end = view[at + 1], at + 2
    if value >= 0x80:
        value, end = read_varint(view, at + 1)
    return _Length(at + 1, end, value)


class _UniformExamples(SerializedExamples):
    """Serialized Examples that are alike."""

    def columns(self, keys: Collection[bytes]) -> Mapping[bytes, tuple[DataType, Column]]:
        """Read the features that have `keys`."""
        at, ends = self.field(self.starts, FIRST, self.ends)
        self.require(ends == self.ends)
        found: dict[bytes, tuple[DataType, Column]] = {}
        present = np.ones(self.rows, bool)
        while at[0] < ends[0]:
            head = _head(self.view(), int(at[0]))
            if head.key in found:  # twice: the last one counts
                raise UnusualField
            # A length beyond its Example would have the next ones copied.
            self.require(at + len(head.data) <= ends)
            sizes = self._compared(head, at)
            at = at + len(head.data)
            self.require(at + sizes <= ends)
            if head.key in keys:
                values, lengths = self._values(head.dtype, at, sizes)
                every = int(lengths[0]) if (lengths == lengths[0]).all() else None
                found[head.key] = head.dtype, Column(values, lengths, present, every)
            at = at + sizes
        self.require(at == ends)
        return found

    def _compared(self, head: _Head, at: Array) -> Array:
        """Compare a head with that of each Example; gives how many bytes follow in each."""
        heads = self.each_byte(np.dtype((np.void, len(head.data))))[at]
        if heads.tobytes() == self.rows * head.data:
            return np.full(self.rows, head.lengths[-1].value)
        heads = heads.view(np.uint8)
        mask = np.frombuffer(self.rows * head.mask, np.uint8)
        differing = (heads ^ np.frombuffer(self.rows * head.data, np.uint8)) & mask
        if differing.any():
            raise UnusualField
        return self._sizes(head, heads.reshape(-1, len(head.data)))

    def _sizes(self, head: _Head, heads: Array) -> Array:
        sizes = _read(head.lengths[-1], heads)
        for length in head.lengths[:-1]:
            self.require(_read(length, heads) == sizes + (len(head.data) - length.end))
        return sizes

    def _values(self, dtype: DataType, start: Array, sizes: Array) -> tuple[Array, Array]:
        if dtype is DataType.STRING:
            return self.strings(start, start + sizes)
        return self.numbers(start, sizes, dtype)


def _read(length: _Length, heads: Array) -> Array:
    """Read a length from each head."""
    value = (heads[:, length.offset] & 0x7F).astype(np.int64)
    for i, offset in enumerate(range(length.offset + 1, length.end), 1):
        value |= (heads[:, offset] & 0x7F).astype(np.int64) << (7 * i)
    return value
