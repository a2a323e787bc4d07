"""HPACK decoder for one connection. Source: RFC 7541; the tables are those of the library `hpack`.

Behind a proxy the headers of each call differ: request ids, trace contexts, deadlines. The decoder
of the library takes four times as long for such a block: for each field it checks whether to log,
for each literal it copies the rest of the block, and it decodes Huffman codes by half bytes.
"""

from typing import Final, TypeAlias

from hpack.huffman_table import (
    HUFFMAN_COMPLETE,
    HUFFMAN_EMIT_SYMBOL,
    HUFFMAN_FAIL,
    HUFFMAN_TABLE,
)
from hpack.table import HeaderTable

Field: TypeAlias = tuple[bytes, bytes]

OVERHEAD: Final = 32
"""Bytes that an entry counts beside its name and value; section 4.1."""
MOST_TABLE: Final = 4096
"""Bytes of the table: the default of SETTINGS_HEADER_TABLE_SIZE, which we do not change."""

_NONE: Final = (b"", b"")
_STATIC: Final = (_NONE, *HeaderTable.STATIC_TABLE)  # indices begin with 1
_FIRST: Final = len(_STATIC)
"""Index of the newest entry; section 2.3.3."""


class Undecodable(Exception):
    """A block that cannot be decoded; no later one can be, since the tables differ from now on."""


class TooManyFields(Undecodable):
    """A block that is not decoded to its end, because it has more fields than permitted."""


class HpackReader:
    """Decodes the blocks of one connection, in their order.

    Args of the constructor:
        most_fields: of one block.

    Attributes:
        version: grows whenever the table changes, after which a block may have another meaning.
    """

    __slots__ = ("_most", "_most_fields", "_size", "_table", "version")

    def __init__(self, most_fields: int) -> None:
        self.version = 0
        self._most_fields = most_fields
        self._table: list[Field] = list(_STATIC)
        self._size = 0
        self._most = MOST_TABLE

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of a block. Raises: Undecodable, TooManyFields."""
        try:
            return self._decode(block)
        except IndexError:
            raise Undecodable("an index beyond the table, or a block that is cut off") from None

    def _decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        table, position, end = self._table, 0, len(block)
        # One iteration more than the permitted fields, which finds the end of a block of that many.
        for _ in range(self._most_fields + 1):
            if position >= end:
                return fields
            first = block[position]
            if 0x80 < first < 0xFF:  # an index of one byte, as most fields are
                fields.append(table[first & 0x7F])
                position += 1
            elif first & 0xE0 == 0x20 and not fields:
                position = self._resize(block, position)
            else:
                field, position = self._field(block, position, first)
                fields.append(field)
        raise TooManyFields(f"more than {self._most_fields} fields")

    def _field(self, block: bytes, position: int, first: int) -> tuple[Field, int]:
        """Section 6.1 and 6.2."""
        if first >= 0x80:
            return self._entry(block, position, 0x7F)
        if first & 0xE0 == 0x20:
            raise Undecodable("a change of the table's size behind a field")
        added = first >= 0x40
        if first & (0x3F if added else 0x0F):
            (name, _), position = self._entry(block, position, 0x3F if added else 0x0F)
        else:
            name, position = _string(block, position + 1)
        value, position = _string(block, position)
        if added:
            self._add(name, value)
        return (name, value), position

    def _entry(self, block: bytes, position: int, most: int) -> tuple[Field, int]:
        index, position = _number(block, position, most)
        if not index:
            raise Undecodable("index 0")
        return self._table[index], position

    def _add(self, name: bytes, value: bytes) -> None:
        """Section 4.4: an entry larger than the table empties it."""
        self._table.insert(_FIRST, (name, value))
        self._size += len(name) + len(value) + OVERHEAD
        self.version += 1
        self._evict()

    def _resize(self, block: bytes, position: int) -> int:
        """Section 6.3."""
        most, position = _number(block, position, 0x1F)
        if most > MOST_TABLE:
            raise Undecodable(f"a table above {MOST_TABLE} bytes")
        if most != self._most:
            self.version += 1
            self._most = most
            self._evict()
        return position

    def _evict(self) -> None:
        while self._size > self._most:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + OVERHEAD


def _number(block: bytes, position: int, most: int) -> tuple[int, int]:
    """Read a number; return it and its end; `most` is its prefix with all bits set. Section 5.1."""
    number = block[position] & most
    position += 1
    if number < most:
        return number, position
    for shift in (0, 7, 14, 21, 28):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise Undecodable("a number above 35 bits")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    """Read a string; return it and its end. Section 5.2."""
    coded = block[position] & 0x80
    length, start = _number(block, position, 0x7F)
    stop = start + length
    if stop > len(block):
        raise Undecodable("a string that is cut off")
    text = block[start:stop]
    return (_huffman(text) if coded else text), stop


class _Steps(dict[int, tuple[int, bytes, int]]):
    """Transitions of the Huffman decoder by state and byte: next state, output, whether it may end.

    Computed when first needed: of 65,536 some thousand are.
    """

    def __missing__(self, key: int) -> tuple[int, bytes, int]:
        state, flags, ended = key >> 8, 0, b""
        for half in (key >> 4 & 0xF, key & 0xF):
            state, flags, symbol = HUFFMAN_TABLE[state << 4 | half]
            if flags & HUFFMAN_FAIL:
                raise Undecodable("no Huffman code")
            ended += bytes([symbol]) if flags & HUFFMAN_EMIT_SYMBOL else b""
        found = self[key] = (state << 8, ended, flags & HUFFMAN_COMPLETE)
        return found


_STEPS: Final = _Steps()


def _huffman(coded: bytes) -> bytes:
    state, complete = 0, HUFFMAN_COMPLETE
    ended = []
    for byte in coded:
        state, symbols, complete = _STEPS[state | byte]
        ended.append(symbols)
    if not complete:
        raise Undecodable("Huffman code that is cut off")
    return b"".join(ended)
