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


_PAIR, _FLOAT, _INTEGER = np.dtype("<u2"), np.dtype("<f4"), np.dtype("<u8")
_WORD = _INTEGER.itemsize
"""Bytes that are compared or decoded together."""
_HIGH_BITS = np.uint64(0x8080808080808080)


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
        # Keys are compared by the eight bytes before their end, which may begin before the first
        # Example. Reads may go past the last one by a varint; zeros end it there.
        self._joined = b"".join([bytes(_WORD), *serialized, bytes(2 * LONGEST_VARINT)])
        self._bytes = np.frombuffer(self._joined, np.uint8)
        self._pairs, self._floats, self._words = (
            np.ndarray((len(self._joined) - dtype.itemsize + 1,), dtype, self._joined, strides=(1,))
            for dtype in (_PAIR, _FLOAT, _INTEGER)
        )
        self._rows = len(serialized)
        ends = np.cumsum([_WORD, *map(len, serialized)], dtype=np.int64)
        self._find(ends[:-1], ends[1:])

    def _field(self, at: Array, tag: int, end: Array) -> tuple[Array, Array]:
        """Read a tag and a length; gives where the value begins and ends."""
        pairs = self._pairs[at]
        if ((pairs & 0x80FF) == tag).all():  # lengths of one byte, as nearly all are
            start = at + 2
            stop = start + (pairs >> 8)
        else:
            start, stop = self._long_field(at, tag, end)
        self._require(stop <= end)
        return start, stop

    def _long_field(self, at: Array, tag: int, end: Array) -> tuple[Array, Array]:
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
            more = at < features
            if not more.all():
                rows, at, features = rows[more], at[more], features[more]
            if not rows.size:
                break
            entry, at = self._field(at, _FIRST, features)
            key, key_end = self._field(entry, _FIRST, at)
            value, value_end = self._field(key_end, _SECOND, at)
            self._require(value_end == at)
            found.append((rows, key, key_end, value, value_end))
        parts = [np.concatenate(part) for part in zip(*found, strict=True)]
        empty = np.empty(0, np.int64)
        self._row, key, self._key_end, self._value, self._value_end = parts or [empty] * 5
        self._key_size = self._key_end - key
        self._key_tail = _tail(self._words[self._key_end - _WORD], self._key_size)

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
            self._require(np.diff(rows) > 0)  # a key twice: the last one counts
        start, end = self._field(value, _TAG_OF[dtype], value_end)
        self._require(end == value_end)
        if dtype is DataType.STRING:
            values, counts = self._strings(start, end)
        else:
            values, counts = self._numbers(start, end, dtype)
        if len(rows) == self._rows:
            return Column(values, counts, np.ones(self._rows, bool))
        lengths = np.zeros(self._rows, np.int64)
        lengths[rows] = counts
        present = np.zeros(self._rows, bool)
        present[rows] = True
        return Column(values, lengths, present)

    def _entries(self, name: bytes) -> Array:
        """Find the entries with a key: by its length and last bytes, then by the bytes before."""
        tail = np.frombuffer(name.rjust(_WORD, b"\0")[-_WORD:], _INTEGER)
        at: Array = np.flatnonzero(self._key_tail == tail)
        at = at[self._key_size[at] == len(name)]
        for before in range(_WORD, len(name)):
            at = at[self._bytes[self._key_end[at] - before - 1] == name[-before - 1]]
        return at

    def _numbers(self, start: Array, end: Array, dtype: DataType) -> tuple[Array, Array]:
        filled = start < end
        counts = np.zeros(len(start), np.int64)
        packed, packed_end = self._field(start[filled], _FIRST, end[filled])
        self._require(packed_end == end[filled])
        sizes = packed_end - packed
        if dtype is DataType.FP32:
            self._require(sizes % 4 == 0)
            counts[filled] = sizes // 4
            return self._floats[_each(packed, sizes, 4)], counts
        self._require(sizes > 0)
        single = self._single_integers(packed, sizes)
        if single is not None:
            counts[filled] = 1
            return single, counts
        data = self._bytes[_each(packed, sizes, 1)]
        last = data < 0x80
        ends = np.cumsum(sizes)
        self._require(last[ends - 1])  # else a value would end in the list of another Example
        through = np.cumsum(last)
        counts[filled] = np.diff(through[ends - 1], prepend=0)
        return _varints(data, last), counts

    def _single_integers(self, packed: Array, sizes: Array) -> Array | None:
        """Decode lists of one varint of up to eight bytes; None where some list is another."""
        longest = int(sizes.max(initial=0))
        if longest > _WORD:
            return None
        words = _tail(self._words[packed], sizes, low=True)
        # All bytes of a varint but its last have their highest bit set.
        expected = _HIGH_BITS >> (8 * (_WORD + 1 - sizes)).astype(np.uint64)
        expected[sizes == 1] = 0
        if ((words & _HIGH_BITS) != expected).any():
            return None
        values = np.zeros(len(words), _INTEGER)
        for place in range(longest):
            values |= ((words >> np.uint64(8 * place)) & np.uint64(0x7F)) << np.uint64(7 * place)
        return values.view(np.int64)

    def _strings(self, start: Array, end: Array) -> tuple[Array, Array]:
        pairs = self._pairs[start]
        single = ((pairs & 0x80FF) == _FIRST) & (start + 2 + (pairs >> 8) == end)
        if not single.all():
            return self._string_lists(start, end)
        joined = self._joined
        texts = [joined[a:b] for a, b in zip((start + 2).tolist(), end.tolist(), strict=True)]
        return _objects(texts), np.ones(len(texts), np.int64)

    def _string_lists(self, start: Array, end: Array) -> tuple[Array, Array]:
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
        return _objects(texts), np.array(counts, np.int64)


def _objects(texts: Sequence[bytes]) -> Array:
    values = np.empty(len(texts), np.object_)
    values[:] = texts
    return values


def _each(start: Array, sizes: Array, step: int) -> Array:
    """List the places of all elements of `step` bytes, from `start` on for `sizes` bytes."""
    if sizes.size and (sizes == sizes[0]).all():
        steps = np.arange(0, sizes[0], step)
        return start if len(steps) == 1 else (start[:, np.newaxis] + steps).ravel()
    counts = sizes // step
    before = np.repeat(np.cumsum(counts) - counts, counts)
    places: Array = np.repeat(start, counts) + step * (np.arange(len(before)) - before)
    return places


def _tail(words: Array, sizes: Array, *, low: bool = False) -> Array:
    """Keep as many bytes of little-endian words as `sizes` says, in place; the others become zero.

    The last bytes are kept, which are the high ones; with `low` the first.
    """
    drop = (8 * (_WORD - np.minimum(sizes, _WORD))).astype(np.uint64)
    if low:
        return (words << drop) >> drop
    return (words >> drop) << drop


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
