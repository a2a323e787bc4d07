"""Reads a field, the values, or all features of many serialized Examples at once with numpy.

protobuf and Python take about 10 us for each feature of each Example. Here numpy walks the bytes of
all Examples at once, entry after entry of their maps, as protobuf writes them, and then finds the
keys. For other encodings, such as a repeated field or numbers that are not packed, the functions
raise `UnusualField`: protobuf reads these, and alone refuses malformed messages.

Source: example.proto, feature.proto; the encoding specification of protocol buffers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.wire.protobuf.fields import UnusualField, read_varint

LONGEST_VARINT = 10
"""Bytes of a value; protobuf refuses longer ones."""

FIRST, SECOND = 0x0A, 0x12
"""Tags of fields 1 and 2, length-delimited."""

TAG_OF: Final[Mapping[DataType, int]] = {
    DataType.STRING: 0x0A,
    DataType.FP32: 0x12,
    DataType.INT64: 0x1A,
}
"""Tag of the list in a Feature that holds values of a dtype."""

_FLOAT, _INTEGER = np.dtype("<f4"), np.dtype("<u8")
WORD = _INTEGER.itemsize
"""Bytes that are compared or decoded together."""
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
_GOES_ON = _HIGH_BITS & np.append(np.uint64(0), _LOW_BYTES[:WORD])
"""Masks by the size of a varint: its bytes of a word, and the bits that tell of all but its last
byte that it goes on."""


@dataclass(frozen=True)
class Column:
    """One feature of all Examples.

    Attributes:
        values: values of all Examples, one after the other.
        lengths: number of values of each Example.
        present: whether it has the feature, with a kind.
        every: number of values of every Example, where all have as many; None where that is not
            known.
    """

    values: Array
    lengths: Array
    present: Array
    every: int | None = None


class SerializedExamples:
    """Serialized Examples, one behind the other.

    Attributes:
        bytes: all of them.
        words: eight bytes from each byte on.
        rows: number of Examples.
        starts: index at which each Example begins.
        ends: index at which each Example ends.

    The methods raise:
        UnusualField: protobuf has to read them.
    """

    def __init__(self, serialized: Sequence[bytes]) -> None:
        # Keys are compared by the eight bytes before their end, which may begin before the first
        # Example. Reads may go past the last one by a varint; zeros end it there.
        self._joined = b"".join([bytes(WORD), *serialized, bytes(2 * LONGEST_VARINT)])
        self.bytes = np.frombuffer(self._joined, np.uint8)
        self._floats, self.words = self.each_byte(_FLOAT), self.each_byte(_INTEGER)
        self.rows = len(serialized)
        ends = np.cumsum([WORD, *map(len, serialized)], dtype=np.int64)
        self.starts, self.ends = ends[:-1], ends[1:]

    def each_byte(self, dtype: "np.dtype[Any]") -> Array:
        """View the bytes as elements that begin at each byte, and overlap."""
        count = max(len(self._joined) - dtype.itemsize + 1, 0)
        elements: Array = np.ndarray((count,), dtype, self._joined, strides=(1,))
        return elements

    def view(self) -> memoryview:
        """View the bytes for a walk without numpy."""
        return memoryview(self._joined)

    def field(self, at: Array, tag: int, end: Array) -> tuple[Array, Array]:
        """Read a tag and a length; gives where the value begins and ends."""
        length = self.bytes[at + 1]
        # Lengths of one byte, as nearly all are.
        if ((self.bytes[at] == tag) & (length < 0x80)).all():
            start = at + 2
            stop = start + length
        else:
            start, stop = self._long_field(at, tag, end)
        self.require(stop <= end)
        return start, stop

    def _long_field(self, at: Array, tag: int, end: Array) -> tuple[Array, Array]:
        self.require(at < end)
        self.require(self.bytes[at] == tag)
        length = np.zeros(len(at), np.int64)
        at = at + 1
        going = np.ones(len(at), bool)
        for shift in range(0, 35, 7):
            byte = self.bytes[at].astype(np.int64)
            length |= np.where(going, (byte & 0x7F) << shift, 0)
            at = at + going
            going &= byte >= 0x80
            if not going.any():
                break
        self.require(~going)
        return at, at + length

    @staticmethod
    def require(condition: Array) -> None:
        """Leave all to protobuf where the condition does not hold for each Example."""
        if not condition.all():
            raise UnusualField

    def numbers(self, packed: Array, sizes: Array, dtype: DataType) -> tuple[Array, Array]:
        """Read packed lists of numbers, none empty; gives all values, and how many are in each."""
        if dtype is DataType.FP32:
            self.require(sizes % 4 == 0)
            return self._read_floats(packed, sizes), sizes // 4
        self.require(sizes > 0)
        single = self._single_integers(packed, sizes)
        if single is not None:
            return single, np.ones(len(packed), np.int64)
        data = self.bytes[_element_indices(packed, sizes, 1)]
        last = data < 0x80
        ends = np.cumsum(sizes)
        self.require(last[ends - 1])  # else a value would end in the list of another Example
        through = np.cumsum(last)
        return _varints(data, last), np.diff(through[ends - 1], prepend=0)

    def _read_floats(self, packed: Array, sizes: Array) -> Array:
        if not sizes.size or (sizes != sizes[0]).any():
            return self._floats[_element_indices(packed, sizes, 4)]
        lists = self.each_byte(np.dtype((np.void, int(sizes[0]) or 4)))[packed]
        return lists.view(_FLOAT) if sizes[0] else np.empty(0, _FLOAT)

    def _single_integers(self, packed: Array, sizes: Array) -> Array | None:
        """Decode lists of one varint of up to eight bytes; None where some list is another."""
        longest = int(sizes.max(initial=0))
        if longest > WORD:
            return None
        words = self.words[packed] & _LOW_BYTES[sizes]
        if (words & _HIGH_BITS != _GOES_ON[sizes]).any():
            return None
        values: Array = words & np.uint64(0x7F)
        for index in range(1, longest):
            values |= ((words >> np.uint64(8 * index)) & np.uint64(0x7F)) << np.uint64(7 * index)
        return values.view(np.int64)

    def strings(self, start: Array, end: Array) -> tuple[Array, Array]:
        """Read lists of strings; gives all values, and how many are in each list."""
        length = self.bytes[start + 1]
        single = (self.bytes[start] == FIRST) & (length < 0x80) & (start + 2 + length == end)
        if not single.all():
            return self._string_lists(start, end)
        joined = self._joined
        texts = [joined[a:b] for a, b in zip((start + 2).tolist(), end.tolist(), strict=True)]
        return _objects(texts), np.ones(len(texts), np.int64)

    def _string_lists(self, start: Array, end: Array) -> tuple[Array, Array]:
        view, joined = self.view(), self._joined
        texts: list[bytes] = []
        counts = []
        for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
            before, at = len(texts), begin
            while at < stop:
                if joined[at] != FIRST:
                    raise UnusualField
                length, at = joined[at + 1], at + 2
                if length >= 0x80:
                    length, at = read_varint(view, at - 1)
                after = at + length
                if after > stop:
                    raise UnusualField
                texts.append(joined[at:after])
                at = after
            counts.append(len(texts) - before)
        return _objects(texts), np.array(counts, np.int64)


def _objects(texts: Sequence[bytes]) -> Array:
    return np.fromiter(texts, np.object_, len(texts))


def _element_indices(start: Array, sizes: Array, step: int) -> Array:
    """List the indices of all elements of `step` bytes, from `start` on for `sizes` bytes."""
    if sizes.size and (sizes == sizes[0]).all():
        steps = np.arange(0, sizes[0], step)
        return start if len(steps) == 1 else (start[:, np.newaxis] + steps).ravel()
    counts = sizes // step
    before = np.repeat(np.cumsum(counts) - counts, counts)
    indices: Array = np.repeat(start, counts) + step * (np.arange(len(before)) - before)
    return indices


def tail(words: Array, sizes: Array) -> Array:
    """Keep as many of the last bytes of little-endian words as `sizes` says; the others become 0.

    The last ones are the high ones.
    """
    drop = (8 * (WORD - np.minimum(sizes, WORD))).astype(np.uint64)
    return (words >> drop) << drop


def _varints(data: Array, last: Array) -> Array:
    """Decode varints that lie one after the other; `last` marks the last byte of each."""
    if not data.size:
        return np.empty(0, np.int64)
    starts = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    sizes = np.diff(starts, append=len(data))
    if sizes.max() > LONGEST_VARINT:
        raise UnusualField
    index = np.arange(len(data)) - np.repeat(starts, sizes)
    parts = (data & 0x7F).astype(np.uint64) << (7 * index).astype(np.uint64)
    return np.add.reduceat(parts, starts).view(np.int64)


class ExampleBatch(SerializedExamples):
    """Serialized Examples whose features have been found.

    Raises (the constructor, too):
        UnusualField: protobuf has to read them.
    """

    def __init__(self, serialized: Sequence[bytes]) -> None:
        super().__init__(serialized)
        self._find(self.starts, self.ends)

    def _find(self, at: Array, ends: Array) -> None:
        """Find the entries of all maps: row, key, and the value's list."""
        rows = np.flatnonzero(at < ends)  # an Example of no bytes has no features
        at, features = self.field(at[rows], FIRST, ends[rows])
        self.require(features == ends[rows])
        found: list[tuple[Array, ...]] = []
        while True:
            more = at < features
            if not more.all():
                rows, at, features = rows[more], at[more], features[more]
            if not rows.size:
                break
            entry, at = self.field(at, FIRST, features)
            key, key_end = self.field(entry, FIRST, at)
            value, value_end = self.field(key_end, SECOND, at)
            self.require(value_end == at)
            found.append((rows, key, key_end, value, value_end))
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        empty = np.empty(0, np.int64)
        self._row, key, self._key_end, self._value, self._value_end = parts or [empty] * 5
        self._key_size = self._key_end - key
        self._key_tail = tail(self.words[self._key_end - WORD], self._key_size)

    def column(self, name: str, dtype: DataType) -> Column:
        """Read one feature."""
        at = self._entries(name.encode())
        rows, value, value_end = self._row[at], self._value[at], self._value_end[at]
        with_kind = value < value_end
        if not with_kind.all():
            rows, value, value_end = rows[with_kind], value[with_kind], value_end[with_kind]
        steps = np.diff(rows)
        if not (steps > 0).all():
            order = np.argsort(rows, kind="stable")
            rows, value, value_end = rows[order], value[order], value_end[order]
            self.require(np.diff(rows) > 0)  # a key twice: the last one counts
        start, end = self.field(value, TAG_OF[dtype], value_end)
        self.require(end == value_end)
        if dtype is DataType.STRING:
            values, counts = self.strings(start, end)
        else:
            values, counts = self._numbers(start, end, dtype)
        return self._column(rows, values, counts)

    def _column(self, rows: Array, values: Array, counts: Array) -> Column:
        if len(rows) == self.rows:
            return Column(values, counts, np.ones(self.rows, bool))
        lengths = np.zeros(self.rows, np.int64)
        lengths[rows] = counts
        present = np.zeros(self.rows, bool)
        present[rows] = True
        return Column(values, lengths, present)

    def _entries(self, name: bytes) -> Array:
        """Find the entries with a key: by its length and last bytes, then by the bytes before."""
        ending = np.frombuffer(name.rjust(WORD, b"\0")[-WORD:], np.dtype("<u8"))
        at: Array = np.flatnonzero(self._key_tail == ending)
        at = at[self._key_size[at] == len(name)]
        for before in range(WORD, len(name)):
            at = at[self.bytes[self._key_end[at] - before - 1] == name[-before - 1]]
        return at

    def _numbers(self, start: Array, end: Array, dtype: DataType) -> tuple[Array, Array]:
        filled = start < end
        counts = np.zeros(len(start), np.int64)
        packed, packed_end = self.field(start[filled], FIRST, end[filled])
        self.require(packed_end == end[filled])
        values, counts[filled] = self.numbers(packed, packed_end - packed, dtype)
        return values, counts
