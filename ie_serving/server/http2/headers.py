"""The header blocks of requests: HPACK, HTTP/2's rules, and what gRPC says with them.

Clients compress the headers of their calls to the same few bytes once their table holds them: such
a block is decoded once and found by its bytes from then on, as long as the table stays as it is.

Sources: RFC 9113 section 8, RFC 7541, and "gRPC over HTTP2" for the names and values of gRPC.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from hpack import Decoder, HPACKError, OversizedHeaderListError

from ie_serving.server.http2 import replies
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.status import Code

LARGEST_HEADERS = 64 * 1024
"""Bytes of one request's headers, counted as HTTP/2 counts them."""
MOST_KNOWN = 256
"""Header blocks of a connection that are remembered."""
LONGEST_KNOWN = 1024
"""Bytes of the longest header block that is remembered."""
MOST_FIELDS = 64
"""Fields of the longest one: a byte may stand for a field."""

GRPC = b"application/grpc"
IDENTITY = b"identity"
INFLATERS = {b"gzip": zlib.MAX_WBITS | 16, b"deflate": zlib.MAX_WBITS}
"""Window bits for zlib, by `grpc-encoding`."""

Pairs = tuple[tuple[bytes, bytes], ...]

_CONTENT_TYPE = re.compile(GRPC + rb"(?:[+;].*)?")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_NAME = re.compile(rb":?[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE = re.compile(rb"[\0\r\n]|^[ \t]|[ \t]$")
_PSEUDO = {b":method", b":scheme", b":path", b":authority"}
_REQUIRED = {b":method", b":scheme", b":path"}
_OF_CONNECTIONS = {
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The headers of one request.

    Attributes:
        malformed: HTTP/2 forbids them; nothing else is set then.
        method: of HTTP.
        path: `/package.Service/Method`.
        content_type: as it came.
        encoding: `grpc-encoding`, of messages that are marked as compressed.
        timeout_s: `grpc-timeout` in seconds; None without.
        metadata: all that are no pseudo-headers.
        refusal: the headers of the reply to a request that is no gRPC call; None for a call.
    """

    malformed: bool = False
    method: bytes = b""
    path: bytes = b""
    content_type: bytes = b""
    encoding: bytes = IDENTITY
    timeout_s: float | None = None
    metadata: Pairs = ()
    refusal: bytes | None = None


class HeaderReader:
    """Reads the header blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._decoder = Decoder(LARGEST_HEADERS)
        self._known: dict[bytes, RequestHead] = {}

    def read(self, block: bytes) -> RequestHead:
        """Decode one block.

        Raises:
            ConnectionFault: it cannot be decoded, and so no later one can.
        """
        return self._known.get(block) or self._decode(block)

    def _decode(self, block: bytes) -> RequestHead:
        before = self._table()
        try:
            pairs = tuple((bytes(n), bytes(v)) for n, v in self._decoder.decode(block, raw=True))
        except OversizedHeaderListError as error:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"headers above {LARGEST_HEADERS} bytes"
            ) from error
        except (HPACKError, IndexError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "undecodable headers") from error
        head = request_head(pairs)
        if _differ(before, self._table()):
            self._known.clear()
        elif len(block) <= LONGEST_KNOWN and len(pairs) <= MOST_FIELDS:
            self._remember(block, head)
        return head

    def _table(self) -> tuple[int, int, object]:
        """Give what tells states of the decoder's table apart: additions put a new entry first."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return table.maxsize, len(entries), entries[0] if entries else None

    def _remember(self, block: bytes, head: RequestHead) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[block] = head


def _differ(before: tuple[int, int, object], after: tuple[int, int, object]) -> bool:
    return before[:2] != after[:2] or before[2] is not after[2]


def request_head(pairs: Pairs) -> RequestHead:
    """Check the headers of a request and read those that matter."""
    if _malformed(pairs):
        return RequestHead(malformed=True)
    values = dict(pairs)
    return RequestHead(
        method=values[b":method"],
        path=values[b":path"],
        content_type=values.get(b"content-type", b""),
        encoding=values.get(b"grpc-encoding", IDENTITY),
        timeout_s=_timeout(values.get(b"grpc-timeout")),
        metadata=tuple((name, value) for name, value in pairs if name[:1] != b":"),
        refusal=_refusal(values),
    )


def _malformed(pairs: Pairs) -> bool:
    """Apply RFC 9113 section 8.2 and 8.3."""
    names = [name for name, _ in pairs]
    pseudo = [name for name in names if name[:1] == b":"]
    return (
        not _REQUIRED.issubset(pseudo)
        or not _PSEUDO.issuperset(pseudo)
        or len(set(pseudo)) != len(pseudo)
        or pseudo != names[: len(pseudo)]
        or not _OF_CONNECTIONS.isdisjoint(names)
        or not all(_NAME.fullmatch(name) for name in names)
        or any(_BAD_VALUE.search(value) for _, value in pairs)
        or any(name == b"te" and value != b"trailers" for name, value in pairs)
    )


def _timeout(value: bytes | None) -> float | None:
    found = _TIMEOUT.fullmatch(value or b"")
    return int(found[1]) * _SECONDS[found[2]] if found else None


def _refusal(values: Mapping[bytes, bytes]) -> bytes | None:
    """Refuse what is no gRPC call: by HTTP's means, or gRPC's where the client speaks it."""
    if values[b":method"] != b"POST":
        return replies.refusal(405, ("allow", "POST"))
    if not _CONTENT_TYPE.fullmatch(values.get(b"content-type", b"")):
        return replies.refusal(415, ("accept", GRPC.decode()))
    encoding = values.get(b"grpc-encoding", IDENTITY)
    if encoding != IDENTITY and encoding not in INFLATERS:
        known = ", ".join(name.decode() for name in (IDENTITY, *INFLATERS))
        text = f'grpc-encoding "{encoding.decode("latin-1")}" is not known; use one of {known}'
        return replies.failure(Code.UNIMPLEMENTED, text, alone=True)
    timeout = values.get(b"grpc-timeout")
    if timeout is not None and not _TIMEOUT.fullmatch(timeout):
        text = "grpc-timeout cannot be read; send up to 8 digits and one of H, M, S, m, u, n"
        return replies.failure(Code.INVALID_ARGUMENT, text, alone=True)
    return None
