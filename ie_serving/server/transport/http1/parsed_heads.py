"""Makes a `RequestHead` from the parser's results, and checks it."""

from typing import Final

import httptools

from ie_serving.core.runtime.budget import Lease
from ie_serving.server.transport.http1.head_rules import by_name, check_host, is_chunked, spoken
from ie_serving.server.transport.http1.messages import RequestHead

Fields = list[tuple[bytes, bytes]]

SEPARATORS: Final = 4
"""Bytes between and behind name and value of a header."""


def size_of(headers: Fields) -> int:
    """Return the bytes that headers took in their head."""
    return sum(len(name) + len(value) + SEPARATORS for name, value in headers)


def request_head(
    parser: "httptools.HttpRequestParser",
    url: bytes,
    headers: Fields,
    lease: Lease | None,
    upgrade: bytes,
) -> RequestHead:
    """Make the head that the parser has just completed.

    Raises:
        Refused: the head lacks a required header, or has a forbidden one.
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


def offered(headers: Fields) -> bytes:
    """Return the protocols in the header `upgrade`, which `without_upgrade` leaves out."""
    return by_name(headers).get(b"upgrade", b"")


def without_upgrade(parser: "httptools.HttpRequestParser", url: bytes, headers: Fields) -> bytes:
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
