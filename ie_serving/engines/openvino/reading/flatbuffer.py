"""Reads FlatBuffers and FlexBuffers as far as the signatures of a TFLite model need it.

A *table* begins with the distance back to its vtable, which has each field's offset in the table; 0
where the field is absent. Strings, vectors and tables are found by a forward distance, counted from
the position of that number. A FlexBuffer is read from its end: its last byte is the width in bytes
of its root, the byte before it the root's type. Everything is little-endian.

Source: the internals pages of FlatBuffers and FlexBuffers.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ie_serving.core.values.errors import LoadFailed

_VTABLE_HEAD = 4
"""Bytes in front of the first field in a vtable: its own size, and that of its table."""
_WIDTHS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_FLEX_MAP = 9
"""Type of a map; the two lowest bits of a type's byte hold a width."""


@contextmanager
def checked(file: str) -> Iterator[None]:
    """Turn the exceptions that a damaged file causes into LoadFailed."""
    try:
        yield
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise LoadFailed(f"{file} is damaged or cut short") from error


@dataclass(frozen=True)
class Table:
    """A table at a position of a buffer; fields by the number that their schema gives them."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> "Table":
        """Give the table that a buffer holds."""
        return cls(data, _number(data, 0))

    def place(self, field: int) -> int:
        """Find where a field lies; 0 where it is absent."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = self.at - back
        entry = _VTABLE_HEAD + 2 * field
        if vtable < 0 or entry >= _number(self.data, vtable, 2):
            return 0
        distance = _number(self.data, vtable + entry, 2)
        return self.at + distance if distance else 0

    def number(self, field: int) -> int:
        """Read an unsigned 32-bit number; 0 where it is absent."""
        place = self.place(field)
        return _number(self.data, place) if place else 0

    def byte(self, field: int) -> int:
        """Read a byte; 0 where it is absent."""
        place = self.place(field)
        return self.data[place] if place else 0

    def text(self, field: int) -> str:
        """Read a string; empty where it is absent."""
        return self.bytes(field).decode()

    def bytes(self, field: int) -> bytes:
        """Read a vector of bytes; empty where it is absent."""
        at, count = self.vector(field)
        if at + count > len(self.data):
            raise IndexError(at)
        return self.data[at : at + count]

    def numbers(self, field: int) -> list[int]:
        """Read a vector of signed 32-bit numbers; empty where it is absent."""
        at, count = self.vector(field)
        return list(struct.unpack_from(f"<{count}i", self.data, at))

    def tables(self, field: int) -> list["Table"]:
        """Read a vector of tables; empty where it is absent."""
        at, count = self.vector(field)
        return [Table(self.data, _follow(self.data, at + 4 * i)) for i in range(count)]

    def vector(self, field: int) -> tuple[int, int]:
        """Find a vector: where its first element lies, and how many it has."""
        place = self.place(field)
        if not place:
            return 0, 0
        start = _follow(self.data, place)
        return start + 4, _number(self.data, start)


def _number(data: bytes, at: int, width: int = 4) -> int:
    number: int = struct.unpack_from(_WIDTHS[width], data, at)[0]
    return number


def _follow(data: bytes, at: int) -> int:
    return at + _number(data, at)


def flex_map(data: bytes) -> dict[str, bytes]:
    """Read a FlexBuffer that is a map from texts to strings of bytes."""
    root_width = data[-1]
    at = len(data) - 2 - root_width
    if data[-2] >> 2 != _FLEX_MAP:
        raise KeyError("no map")
    width = 1 << (data[-2] & 3)
    values = at - _number(data, at, root_width)
    count = _number(data, values - width, width)
    # In front of a map's values lie its keys: the distance back to their vector, and its width.
    keys_width = _number(data, values - 2 * width, width)
    keys = values - 3 * width - _number(data, values - 3 * width, width)
    found = {}
    for i in range(count):
        key = keys + i * keys_width
        name = data[key - _number(data, key, keys_width) :].split(b"\0", 1)[0]
        kind = data[values + count * width + i]
        found[name.decode()] = _flex_string(data, values + i * width, width, 1 << (kind & 3))
    return found


def _flex_string(data: bytes, at: int, width: int, length_width: int) -> bytes:
    start = at - _number(data, at, width)
    length = _number(data, start - length_width, length_width)
    if start + length > len(data):
        raise IndexError(start)
    return data[start : start + length]
