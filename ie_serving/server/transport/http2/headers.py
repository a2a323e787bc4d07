"""Reads the header blocks of requests: HPACK, and HTTP/2's rules for headers.

Clients compress the headers of their requests to the same few bytes once their table holds them.
Such a block is decoded once and then looked up by its bytes, as long as the table does not change.
`interpret` is called once for each such block.

Sources: RFC 9113 section 8, RFC 7541.

`HpackReader` decodes the blocks of one connection, with the tables of the library `hpack`. Behind a
proxy the headers of each call differ: request ids, trace contexts, deadlines. The decoder of the
library takes four times as long for such a block: for each field it checks whether to log, for each
literal it copies the rest of the block, and it decodes Huffman codes by half bytes.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode

LARGEST_HEADERS = 64 * 1024
"""Bytes of one request's headers that we announce to accept. Each header counts as its name, its
value and 32 bytes (section 6.5.2). A request with more is refused, in the words of `Interpret`, and
the connection goes on. Proxies permit 8 to 64 KB."""
LARGEST_BLOCK = LARGEST_HEADERS * 3 // 2
"""Bytes of headers, or of the block that holds them, beyond which the connection ends with
ENHANCE_YOUR_CALM: to keep the table, a block must be decoded to its end, which costs up to 0.2 us a
byte, or 5 us a field: 20 ms of the event loop."""
MOST_KNOWN = 256
"""Header blocks, with their meaning, in the cache of one connection: at most 256 KB of blocks. One
more empties the cache, which costs less than finding the oldest."""
LONGEST_KNOWN = 1024
"""Longest header block in bytes that is cached. Longer ones are decoded each time."""
MOST_FIELDS = 64
"""Most fields of a cached block. One byte of a block may stand for a field of 4 KB: the length of
the block alone would not bound the memory. Calls have about ten."""

HeaderFields: TypeAlias = tuple[tuple[bytes, bytes], ...]

Interpret: TypeAlias = Callable[[HeaderFields, str], Any]
"""Interprets a request for the code that serves it; the second argument says why the headers are
refused, and is empty if they are not."""
HELD_FOR_EACH = 4
"""Bytes of memory for each counted byte of large headers: a field is a pair of two strings, and
takes 130 bytes where it counts as 36."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_IN_VALUES: Final = (b"\0", b"\r", b"\n ", b"\n\t", b" \n", b"\t\n")
"""Sequences that must not occur in values that are joined by line feeds; section 8.2.1."""
_NO_USER: Final = re.compile(rb"[^@]*")
"""Rule of an authority; nothing more is asked of it, since some clients name the path of a UNIX
socket."""
_VALUES: Final[Mapping[bytes, re.Pattern[bytes]]] = {
    b":authority": _NO_USER,
    b"host": _NO_USER,
    b":path": re.compile(b".+", re.DOTALL),
    b"content-length": re.compile(rb"\d{1,18}"),
    b"te": re.compile(b"trailers"),
}
"""Permitted values of some fields; section 8.3.1, 8.1.1 and 8.2.2."""
_AUTHORITIES: Final = (b":authority", b"host")
_PSEUDO = {b":method", b":scheme", b":path", b":authority"}
_REQUIRED = {b":method", b":scheme", b":path"}
_OF_CONNECTIONS = {
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
}

HeaderField: TypeAlias = tuple[bytes, bytes]
OVERHEAD: Final = 32
"""Bytes that an entry counts beside its name and value; section 4.1."""
MOST_TABLE: Final = 4096
"""Bytes of the table: the default of SETTINGS_HEADER_TABLE_SIZE, which we do not change."""
_NONE: Final = (b"", b"")
_STATIC: Final = (_NONE, *HeaderTable.STATIC_TABLE)  # indices begin with 1
_FIRST: Final = len(_STATIC)
"""Index of the newest entry; section 2.3.3."""


class HeaderBlock(NamedTuple):
    """One header block.

    Attributes:
        fields: all headers, as sent; the budget counts large ones.
        malformed: HTTP/2 forbids these headers in a request; section 8.1.1.
        content_length: announced bytes of DATA; None without.
        request: result of `interpret`; None if malformed.
    """

    fields: HeaderFields
    malformed: bool
    content_length: int | None
    request: Any


class HeaderReader:
    """Reads the header blocks of one connection, in their order.

    Args of the constructor:
        interpret: function that interprets a request, an `Interpret`.

    Attributes:
        known: cache of decoded blocks with an unchanged meaning; callers look here first.
    """

    def __init__(self, interpret: Interpret) -> None:
        self._interpret = interpret
        self._reader = HpackReader(LARGEST_BLOCK // OVERHEAD)
        self.known: dict[bytes, HeaderBlock] = {}

    def decode(self, block: bytes) -> HeaderBlock:
        """Decode a block that is not cached.

        Raises:
            ConnectionFault: the block cannot be decoded, and so no later one can.
        """
        before = self._reader.version
        try:
            fields = tuple(self._reader.decode(block))
        except TooManyFields as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"headers: {error}") from error
        except UndecodableBlock as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"headers: {error}") from error
        head = self._head(fields, is_large=len(block) > LONGEST_KNOWN)
        # A block that changed the table has another meaning when it comes again.
        if before != self._reader.version:
            self.known.clear()
        elif len(block) <= LONGEST_KNOWN and len(fields) <= MOST_FIELDS:
            self._remember(block, head)
        return head

    def _head(self, fields: HeaderFields, *, is_large: bool) -> HeaderBlock:
        size = OVERHEAD * len(fields) + sum(map(len, chain.from_iterable(fields)))
        if size > LARGEST_BLOCK:
            text = f"headers above {LARGEST_BLOCK} bytes"
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, text)
        if malformed(fields):
            return HeaderBlock(fields, malformed=True, content_length=None, request=None)
        length, refused = _content_length(fields), ""
        if size > LARGEST_HEADERS:
            refused = f"the metadata is larger than {LARGEST_HEADERS} bytes; send less of it"
        elif is_large:
            fields, refused = _counted(fields, HELD_FOR_EACH * size)
        request = self._interpret(fields, refused)
        return HeaderBlock(fields, malformed=False, content_length=length, request=request)

    def _remember(self, block: bytes, head: HeaderBlock) -> None:
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[block] = head


class _LeasedFields(tuple[tuple[bytes, bytes], ...]):
    """Fields with a lease, which ends with them."""

    lease: Lease


def _counted(fields: HeaderFields, size: int) -> tuple[HeaderFields, str]:
    """Count large headers, which a call keeps until it ends; return why the budget refuses them."""
    try:
        lease = BUDGET.lease(size)
    except ServingError as error:
        return fields, str(error)
    counted = _LeasedFields(fields)
    counted.lease = lease
    return counted, ""


def malformed(fields: HeaderFields) -> bool:
    """Apply section 8.2 and 8.3 to the headers of a request."""
    names = tuple([name for name, _ in fields])
    return not (_names_of_request(names) and _values_allowed(names, fields))


def malformed_fields(fields: HeaderFields) -> bool:
    """Apply section 8.1 and 8.2 to trailers."""
    names = tuple([name for name, _ in fields])
    return not (_names_of_fields(names) and _values_allowed(names, fields))


# Requests often have the same names, and differ in values only.
@lru_cache(maxsize=64)
def _names_of_request(names: tuple[bytes, ...]) -> bool:
    pseudo = [name for name in names if name[:1] == b":"]
    return (
        _REQUIRED.issubset(pseudo)
        and _PSEUDO.issuperset(pseudo)
        and len(set(pseudo)) == len(pseudo)
        and tuple(pseudo) == names[: len(pseudo)]
        and _names_of_fields(names[len(pseudo) :])
    )


def _names_of_fields(names: tuple[bytes, ...]) -> bool:
    return _OF_CONNECTIONS.isdisjoint(names) and all(_NAME.fullmatch(name) for name in names)


def _values_allowed(names: tuple[bytes, ...], fields: HeaderFields) -> bool:
    # One search in all values takes a tenth of the time of one search in each.
    joined = b"\n".join((b"", *[value for _, value in fields], b""))
    return (
        joined.count(b"\n") == len(fields) + 1
        and not any(part in joined for part in _BAD_IN_VALUES)
        and all(_VALUES[name].fullmatch(value) for name, value in fields if name in _VALUES)
        and not (_may_contradict(names) and _contradict(fields))
    )


@lru_cache(maxsize=64)
def _may_contradict(names: tuple[bytes, ...]) -> bool:
    return b"host" in names or names.count(b"content-length") > 1


def _contradict(fields: HeaderFields) -> bool:
    """Return whether lengths differ, or `host` names another authority than `:authority`; 8.3.1."""
    port = {b"http": b":80", b"https": b":443"}.get(dict(fields).get(b":scheme", b""), b"")
    authorities = {
        value.lower().removesuffix(port) for name, value in fields if name in _AUTHORITIES
    }
    return len(authorities) > 1 or len({v for name, v in fields if name == b"content-length"}) > 1


def _content_length(fields: HeaderFields) -> int | None:
    value = dict(fields).get(b"content-length")
    return None if value is None else int(value)


class UndecodableBlock(Exception):
    """A block that cannot be decoded; no later one can be, since the tables differ from now on."""


class TooManyFields(UndecodableBlock):
    """A block that is not decoded to its end, because it has more fields than permitted."""


class HpackReader:
    """Decodes the blocks of one connection, in their order.

    Args of the constructor:
        most_fields: largest number of fields in one block.

    Attributes:
        version: grows whenever the table changes, after which a block may have another meaning.
    """

    __slots__ = ("_most", "_most_fields", "_size", "_table", "version")

    def __init__(self, most_fields: int) -> None:
        self.version = 0
        self._most_fields = most_fields
        self._table: list[HeaderField] = list(_STATIC)
        self._size = 0
        self._most = MOST_TABLE

    def decode(self, block: bytes) -> list[HeaderField]:
        """Return the fields of a block. Raises: UndecodableBlock, TooManyFields."""
        try:
            return self._decode(block)
        except IndexError:
            raise UndecodableBlock(
                "an index beyond the table, or a block that is cut off"
            ) from None

    def _decode(self, block: bytes) -> list[HeaderField]:
        fields: list[HeaderField] = []
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

    def _field(self, block: bytes, position: int, first: int) -> tuple[HeaderField, int]:
        """Section 6.1 and 6.2."""
        if first >= 0x80:
            return self._entry(block, position, 0x7F)
        if first & 0xE0 == 0x20:
            raise UndecodableBlock("a change of the table's size behind a field")
        added = first >= 0x40
        if first & (0x3F if added else 0x0F):
            (name, _), position = self._entry(block, position, 0x3F if added else 0x0F)
        else:
            name, position = _string(block, position + 1)
        value, position = _string(block, position)
        if added:
            self._add(name, value)
        return (name, value), position

    def _entry(self, block: bytes, position: int, most: int) -> tuple[HeaderField, int]:
        index, position = _number(block, position, most)
        if not index:
            raise UndecodableBlock("index 0")
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
            raise UndecodableBlock(f"a table above {MOST_TABLE} bytes")
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
    raise UndecodableBlock("a number above 35 bits")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    """Read a string; return it and its end. Section 5.2."""
    coded = block[position] & 0x80
    length, start = _number(block, position, 0x7F)
    stop = start + length
    if stop > len(block):
        raise UndecodableBlock("a string that is cut off")
    text = block[start:stop]
    return (_huffman(text) if coded else text), stop


class _HuffmanSteps(dict[int, tuple[int, bytes, int]]):
    """Transitions of the Huffman decoder by state and byte: next state, output, whether it may end.

    Computed when first needed: of 65,536 some thousand are.
    """

    def __missing__(self, key: int) -> tuple[int, bytes, int]:
        state, flags, ended = key >> 8, 0, b""
        for half in (key >> 4 & 0xF, key & 0xF):
            state, flags, symbol = HUFFMAN_TABLE[state << 4 | half]
            if flags & HUFFMAN_FAIL:
                raise UndecodableBlock("no Huffman code")
            ended += bytes([symbol]) if flags & HUFFMAN_EMIT_SYMBOL else b""
        found = self[key] = (state << 8, ended, flags & HUFFMAN_COMPLETE)
        return found


_STEPS: Final = _HuffmanSteps()


def _huffman(coded: bytes) -> bytes:
    state, complete = 0, HUFFMAN_COMPLETE
    ended = []
    for byte in coded:
        state, symbols, complete = _STEPS[state | byte]
        ended.append(symbols)
    if not complete:
        raise UndecodableBlock("Huffman code that is cut off")
    return b"".join(ended)
