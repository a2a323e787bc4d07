"""A batch of serialized Examples, read feature by feature: all rows take each step together.

protobuf and Python take about 10 us for each feature of each Example. Here numpy walks the bytes of
all Examples at once, entry after entry of their maps, as protobuf writes them. Whatever is written
in another way, such as a field twice or numbers that are not packed, is left to protobuf: these
functions raise `Unclear` then, and never judge what is malformed.

Source: example.proto, feature.proto; the encoding specification of protocol buffers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ie_serving.core.tensors import Array, DataType
from ie_serving.wire.protobuf.fields import Unclear, read_varint

LONGEST_VARINT = 10
"""Bytes of a value; protobuf refuses longer ones."""

_FIRST, _SECOND = 0x0A, 0x12
"""Tags of fields 1 and 2, length-delimited."""

_TAG_OF: Mapping[DataType, int] = MappingProxyType(
    {DataType.STRING: 0x0A, DataType.FP32: 0x12, DataType.INT64: 0x1A}
)
"""Tag of the list in a Feature that holds values of a dtype."""


@dataclass(frozen=True)
class Column:
    """One feature of all Examples.

    Attributes:
        values: of all Examples, one after the other.
        lengths: how many each Example has.
        present: whether it has the feature, with a kind.
    """

    values: Array
    lengths: Array
    present: Array


class Batch:
    """Serialized Examples whose features have been found.

    Raises (the constructor, too):
        Unclear: protobuf has to read them.
    """

    def __init__(self, serialized: Sequence[bytes]) -> None:
        self._joined = b"".join(serialized)
        # Reads may go past the last Example by a varint; zeros end it there.
        self._bytes = np.frombuffer(self._joined + bytes(2 * LONGEST_VARINT), np.uint8)
        self._rows = len(serialized)
        ends = np.cumsum([len(data) for data in serialized], dtype=np.int64)
        self._find(np.concatenate([[0], ends[:-1]]), ends)

    def _field(self, at: Array, tag: int, end: Array) -> tuple[Array, Array]:
        """Read a tag and a length; gives where the value begins and ends."""
        self._require(at < end)
        self._require(self._bytes[at] == tag)
        length = np.zeros(len(at), np.int64)
        at = at + 1
        going = np.ones(len(at), bool)
        for shift in range(0, 35, 7):
            byte = self._bytes[at].astype(np.int64)
            length |= np.where(going, (byte & 0x7F) << shift, 0)
            at = at + going
            going &= byte >= 0x80
            if not going.any():
                break
        self._require(~going)
        self._require(at + length <= end)
        return at, at + length

    @staticmethod
    def _require(condition: Array) -> None:
        if not condition.all():
            raise Unclear

    def _find(self, at: Array, ends: Array) -> None:
        """Find the entries of all maps: row, key, and the value's list."""
        rows = np.flatnonzero(at < ends)  # an Example of no bytes has no features
        at, features = self._field(at[rows], _FIRST, ends[rows])
        self._require(features == ends[rows])
        found: list[tuple[Array, ...]] = []
        while True:
            more = np.flatnonzero(at < features)
            if not more.size:
                break
            rows, at, features = rows[more], at[more], features[more]
            entry, at = self._field(at, _FIRST, features)
            key, key_end = self._field(entry, _FIRST, at)
            value, value_end = self._field(key_end, _SECOND, at)
            self._require(value_end == at)
            found.append((rows, key, key_end, value, value_end))
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        empty = np.empty(0, np.int64)
        self._row, self._key, self._key_end, self._value, self._value_end = parts or [empty] * 5

    def column(self, name: str, dtype: DataType) -> Column:
        """Read one feature."""
        at = self._entries(name.encode())
        rows = self._row[at]
        if np.bincount(rows, minlength=1).max() > 1:
            raise Unclear  # a key twice: the last one counts
        with_kind = self._value[at] < self._value_end[at]
        at, rows = at[with_kind], rows[with_kind]
        order = np.argsort(rows, kind="stable")
        at, rows = at[order], rows[order]
        start, end = self._field(self._value[at], _TAG_OF[dtype], self._value_end[at])
        self._require(end == self._value_end[at])
        if dtype is DataType.STRING:
            values, counts = self._strings(start, end)
        else:
            values, counts = self._numbers(start, end, dtype)
        lengths = np.zeros(self._rows, np.int64)
        lengths[rows] = counts
        present = np.zeros(self._rows, bool)
        present[rows] = True
        return Column(values, lengths, present)

    def _entries(self, name: bytes) -> Array:
        at = np.flatnonzero(self._key_end - self._key == len(name))
        for place in reversed(range(len(name))):  # names differ at their end more than elsewhere
            if not at.size:
                break
            at = at[self._bytes[self._key[at] + place] == name[place]]
        return at

    def _numbers(self, start: Array, end: Array, dtype: DataType) -> tuple[Array, Array]:
        filled = np.flatnonzero(start < end)
        packed, packed_end = self._field(start[filled], _FIRST, end[filled])
        self._require(packed_end == end[filled])
        sizes = packed_end - packed
        counts = np.zeros(len(start), np.int64)
        steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        data = self._bytes[np.repeat(packed, sizes) + steps]
        if dtype is DataType.FP32:
            self._require(sizes % 4 == 0)
            counts[filled] = sizes // 4
            return data.view("<f4"), counts
        last = data < 0x80
        ends = np.cumsum(sizes)
        self._require(sizes > 0)
        self._require(last[ends - 1])  # else a value would end in the list of another Example
        through = np.cumsum(last)
        counts[filled] = np.diff(through[ends - 1], prepend=0)
        return _varints(data, last), counts

    def _strings(self, start: Array, end: Array) -> tuple[Array, Array]:
        view = memoryview(self._joined)
        texts: list[bytes] = []
        counts = []
        for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
            before, at = len(texts), begin
            while at < stop:
                if view[at] != _FIRST:
                    raise Unclear
                length, at = read_varint(view, at + 1)
                if at + length > stop:
                    raise Unclear
                texts.append(self._joined[at : at + length])
                at += length
            counts.append(len(texts) - before)
        values = np.empty(len(texts), np.object_)
        values[:] = texts
        return values, np.array(counts, np.int64)


def _varints(data: Array, last: Array) -> Array:
    """Decode varints that lie one after the other; `last` marks the last byte of each."""
    if not data.size:
        return np.empty(0, np.int64)
    starts = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    sizes = np.diff(starts, append=len(data))
    if sizes.max() > LONGEST_VARINT:
        raise Unclear
    place = np.arange(len(data)) - np.repeat(starts, sizes)
    parts = (data & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts).view(np.int64)
