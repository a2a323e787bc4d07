"""Heads of requests of HTTP/1: reads, checks and caches them.

Parsed heads of requests are cached by their bytes. A client sends the same head with every request,
except for the length of the body, and parsing it takes longer than all else that the transport does
for a small request. The same bytes between two requests always mean the same head, so the first
result of the parser stays valid.

Beyond its syntax, the version, host and transfer encoding of a request's head are checked, before
it is cached. Source: RFC 9112 sections 2.3, 3.2 and 6.1; RFC 9110 section 7.2.
"""

import re
from collections.abc import Mapping
from typing import Final

import httptools

from ie_serving.core.runtime.budget import Lease
from ie_serving.server.transport.http1.faults import RequestRefused
from ie_serving.server.transport.http1.messages import Headers, RequestHead

HeadFields = list[tuple[bytes, bytes]]

SEPARATORS: Final = 4
"""Bytes between and behind name and value of a header."""

_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:._~!$&'()*+,;=%-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
)
"""A name, an IPv4 or an IPv6 address, and a port; empty if the target has no authority."""
BLANK_LINE: Final = b"\r\n\r\n"
LONGEST: Final = 1024
"""Longest head in bytes that is cached; longer ones are parsed each time. Clients and proxies send
150 to 600."""
MOST: Final = 1024
"""Most cached heads, with their parsed form: 2 MB, or 10 MB if each has `holding.FREE_FIELDS`
headers; a head with more is not cached. A further one empties the cache, which learns the heads in
use again. Finding the oldest would cost time at every request; this costs time only when clients
keep sending new heads."""


def size_of(headers: HeadFields) -> int:
    """Return the bytes that headers took in their head."""
    return sum(len(name) + len(value) + SEPARATORS for name, value in headers)


def request_head(
    parser: "httptools.HttpRequestParser",
    url: bytes,
    headers: HeadFields,
    lease: Lease | None,
    upgrade: bytes,
) -> RequestHead:
    """Make the head that the parser has just completed.

    Raises:
        RequestRefused: the head lacks a required header, or has a forbidden one.
    """
    version = spoken(parser.get_http_version())
    check_host(version, headers)
    fields = by_name(headers)
    chunked = is_chunked(version, fields)
    path, query = target(url)
    return RequestHead(
        method=parser.get_method().decode(),
        path=path,
        query=query,
        version=version,
        headers=tuple(headers),
        fields=fields,
        length=None if chunked else int(fields.get(b"content-length", 0)),
        keep_alive=parser.should_keep_alive(),
        # RFC 9110 section 10.1.1: HTTP/1.0 has no status 100.
        expects=version == "1.1" and fields.get(b"expect", b"").lower() == b"100-continue",
        lease=lease,
        upgrade=upgrade,
    )


def offered(headers: HeadFields) -> bytes:
    """Return the protocols in the header `upgrade`, which `without_upgrade` leaves out."""
    return by_name(headers).get(b"upgrade", b"")


def without_upgrade(
    parser: "httptools.HttpRequestParser", url: bytes, headers: HeadFields
) -> bytes:
    """Return the bytes of a head without its offer of another protocol."""
    version = parser.get_http_version().encode()
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), url, version)]
    lines += [b"%b: %b" % pair for pair in headers if pair[0] != b"upgrade"]
    return b"\r\n".join((*lines, b"\r\n"))


def target(url: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request's target, as sent.

    Raises:
        httptools.HttpParserInvalidURLError: neither a path nor a URL, or a URL with a user.
        UnicodeDecodeError: the path is not ASCII.
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        if parsed.userinfo is not None:  # RFC 9110 section 4.2.4
            raise httptools.HttpParserInvalidURLError("a user before the host")
        path, query = parsed.path or b"/", parsed.query or b""
    path.decode("ascii")
    return path, query


def spoken(version: str) -> str:
    """Return the version used with a client of this version: 1.2 and above understand 1.1.

    Raises:
        RequestRefused: not a version of HTTP/1.
    """
    major, _, minor = version.partition(".")
    if major != "1":
        raise RequestRefused(505, f"HTTP version {version} is not supported: speak HTTP/1.1.")
    return "1.0" if minor == "0" else "1.1"


def by_name(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the value of each header, or a list if it occurs several times. RFC 9110 section 5.3.

    The time is proportional to the number of headers, also if all have one name.
    """
    fields = dict(headers)
    if len(fields) == len(headers):
        return fields
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: b",".join(each) for name, each in values.items()}


def check_host(version: str, headers: Headers | list[tuple[bytes, bytes]]) -> None:
    """Refuse requests that proxies could route differently from our reading.

    Raises:
        RequestRefused: there is no Host, more than one, or an invalid one.
    """
    # Section 3.2: with two of them a proxy may use one, and we the other.
    hosts = [value for name, value in headers if name == b"host"]
    if not hosts and version == "1.0":
        return
    if len(hosts) != 1:
        raise RequestRefused(400, f"A request must have one Host header, not {len(hosts)}.")
    if not _HOST.fullmatch(hosts[0]):
        raise RequestRefused(400, "The Host header must hold a name or an address.")


def is_chunked(version: str, fields: Mapping[bytes, bytes]) -> bool:
    """Return whether the body comes in chunks.

    Raises:
        RequestRefused: the transfer encoding leaves the end of the body, or its content, undefined.
    """
    encoding = fields.get(b"transfer-encoding")
    if encoding is None:
        return False
    # Section 6.1: a proxy of HTTP/1.0 may have passed the header on without understanding it, and
    # then sees the end of the body elsewhere.
    if version == "1.0":
        raise RequestRefused(400, "HTTP/1.0 knows no Transfer-Encoding: speak HTTP/1.1.")
    # Section 6.3: unless chunked is the last coding, the end of the body is undefined. Data behind
    # it could be smuggled in as a separate request.
    codings = [coding.strip() for coding in encoding.lower().split(b",")]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise RequestRefused(400, "A Transfer-Encoding must end with chunked, named once.")
    if len(codings) > 1:
        raise RequestRefused(
            501, "No Transfer-Encoding but chunked is supported; use Content-Encoding."
        )
    return True


class KnownHeads:
    """The cache of one server. Holds only heads that leave the parser's state unchanged."""

    def __init__(self) -> None:
        self._heads: dict[bytes, RequestHead] = {}
        self.get = self._heads.get
        """Return the parsed head for its bytes; None if it is not cached."""

    def learn(self, text: bytes, head: RequestHead) -> None:
        """Cache a head, if its bytes alone show where it ends."""
        if not text or head.expects or not head.keep_alive or head.length is None:
            return
        lines = text.count(b"\n")
        if text[0] in b"\r\n" or lines != text.count(b"\r\n") or lines != len(head.headers) + 2:
            # The bytes are not exactly one head: empty lines precede it, a line ends in a line feed
            # alone, or the numbers of lines and headers differ.
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[text] = head
