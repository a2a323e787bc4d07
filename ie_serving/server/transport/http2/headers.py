"""The header blocks of requests: HPACK, and what HTTP/2 allows in them.

Clients compress the headers of their requests to the same few bytes once their table holds them:
such a block is decoded once and found by its bytes from then on, as long as the table stays as it
is. What the requests mean is found by `interpret`, once for each such block.

Sources: RFC 9113 section 8, RFC 7541.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from hpack import Decoder, HPACKError, OversizedHeaderListError

from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode

LARGEST_HEADERS = 64 * 1024
"""Bytes of one request's headers that we announce to take. Each header counts as its name, its
value and 32 bytes (section 6.5.2). A request with more is refused and the connection goes on; what
the refusal says is up to `Interpret`. Proxies allow 8 to 64 KB."""
LARGEST_BLOCK = 2 * LARGEST_HEADERS
"""Bytes of headers, or of the block that holds them, beyond which the connection ends with
ENHANCE_YOUR_CALM: to keep the table, a block must be decoded to its end, and that costs up to 3 us
a byte."""
MOST_KNOWN = 256
"""Header blocks that are remembered for one connection, with what they mean: at most 256 KB of
blocks. For one more all are forgotten, which costs less than to find the oldest."""
LONGEST_KNOWN = 1024
"""Bytes of the longest header block that is remembered. A longer one is decoded each time."""
MOST_FIELDS = 64
"""Fields of a block that is remembered. One byte of a block may stand for a field of 4 KB, so the
length of the block alone would not bound the memory. Calls have about ten."""

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]

Interpret: TypeAlias = Callable[[Fields, bool], Any]
"""Gives what a request means to whoever serves it; the second argument tells that its headers are
larger than announced."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE = re.compile(rb"[\0\r\n]|^[ \t]|[ \t]$")
_LENGTH = re.compile(rb"\d{1,18}")
_PSEUDO = {b":method", b":scheme", b":path", b":authority"}
_REQUIRED = {b":method", b":scheme", b":path"}
_OF_CONNECTIONS = {
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
}
_OVERHEAD = 32
"""What RFC 9113 section 6.5.2 counts for each field beside its name and value."""


class Head(NamedTuple):
    """One header block.

    Attributes:
        fields: all of it, as it came.
        malformed: HTTP/2 forbids it as the headers of a request; section 8.1.1.
        content_length: bytes of DATA that it announces; None without.
        request: what `interpret` made of it; None where it is malformed.
    """

    fields: Fields
    malformed: bool
    content_length: int | None
    request: Any


class HeaderReader:
    """Reads the header blocks of one connection, in their order.

    Args of the constructor:
        interpret: see `Interpret`.

    Attributes:
        known: blocks that were decoded before, and mean the same again. Look here first.
    """

    def __init__(self, interpret: Interpret) -> None:
        self._interpret = interpret
        self._decoder = Decoder(LARGEST_BLOCK)
        self.known: dict[bytes, Head] = {}

    def decode(self, block: bytes) -> Head:
        """Decode a block that is not known.

        Raises:
            ConnectionFault: it cannot be decoded, and so no later one can.
        """
        before = self._table()
        try:
            decoded = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError as error:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"headers above {LARGEST_BLOCK} bytes"
            ) from error
        except (HPACKError, IndexError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "undecodable headers") from error
        # hpack may give views of the block, which would keep all of it in memory.
        fields = tuple((bytes(name), bytes(value)) for name, value in decoded)
        head = self._head(fields)
        # A block that changed the table means something else when it comes again.
        if _differ(before, self._table()):
            self.known.clear()
        elif len(block) <= LONGEST_KNOWN and len(fields) <= MOST_FIELDS:
            self._remember(block, head)
        return head

    def _head(self, fields: Fields) -> Head:
        if malformed(fields):
            return Head(fields, malformed=True, content_length=None, request=None)
        size = sum(len(name) + len(value) + _OVERHEAD for name, value in fields)
        return Head(
            fields,
            malformed=False,
            content_length=_content_length(fields),
            request=self._interpret(fields, size > LARGEST_HEADERS),
        )

    def _table(self) -> tuple[int, int, object]:
        """Give what tells states of the decoder's table apart: additions put a new entry first."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return table.maxsize, len(entries), entries[0] if entries else None

    def _remember(self, block: bytes, head: Head) -> None:
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[block] = head


def _differ(before: tuple[int, int, object], after: tuple[int, int, object]) -> bool:
    return before[:2] != after[:2] or before[2] is not after[2]


def malformed(fields: Fields) -> bool:
    """Apply section 8.2 and 8.3 to the headers of a request."""
    names = [name for name, _ in fields]
    pseudo = [name for name in names if name[:1] == b":"]
    return (
        not _REQUIRED.issubset(pseudo)
        or not _PSEUDO.issuperset(pseudo)
        or len(set(pseudo)) != len(pseudo)
        or pseudo != names[: len(pseudo)]
        or not dict(fields)[b":path"]
        or malformed_fields(fields[len(pseudo) :])
        or any(_BAD_VALUE.search(value) for _, value in fields[: len(pseudo)])
        or len({value for name, value in fields if name == b"content-length"}) > 1
    )


def malformed_fields(fields: Fields) -> bool:
    """Apply section 8.1 and 8.2 to trailers, or to headers behind the pseudo-headers."""
    names = [name for name, _ in fields]
    return (
        not _OF_CONNECTIONS.isdisjoint(names)
        or not all(_NAME.fullmatch(name) for name in names)
        or any(_BAD_VALUE.search(value) for _, value in fields)
        or any(name == b"te" and value != b"trailers" for name, value in fields)
        or any(n == b"content-length" and not _LENGTH.fullmatch(v) for n, v in fields)
    )


def _content_length(fields: Fields) -> int | None:
    value = dict(fields).get(b"content-length")
    return None if value is None else int(value)
