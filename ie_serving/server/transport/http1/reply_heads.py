"""Heads of replies of HTTP/1: status line and headers, checked.

Only `plain` reads the clock. Source: RFC 9110 sections 5.5, 5.6.2 and 6.6.1; RFC 9112 sections 4
and 6.
"""

import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

from ie_serving.server.transport.http1.messages import Headers

CONTINUE_HEAD: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE: Final = b"connection: close\r\n"
KEEP_ALIVE: Final = b"connection: keep-alive\r\n"
"""Sent to clients of HTTP/1.0, where keeping the connection is not the default."""
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class ReplyHead(NamedTuple):
    """The head of a reply, as far as the application determines it.

    Attributes:
        text: status line and headers, without the empty line that ends a head.
        closes: the application wants the connection closed after this reply.
        length: announced length of the body in bytes, if any.
    """

    text: bytes
    closes: bool
    length: int | None


@lru_cache(maxsize=1024)
def head(status: int, headers: Headers) -> ReplyHead:
    """Write a head. Cached, since replies have few different heads.

    Raises:
        ValueError: a name or value would break out of its line, or frames the body otherwise than
            by its length.
    """
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, "").encode())]
    closes, length = False, None
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"header {name!r} cannot be sent with the value {value[:100]!r}")
        if name == b"transfer-encoding":
            raise ValueError("replies are framed by their length, not by a transfer encoding")
        if name == b"content-length":
            length = int(value)
        closes = closes or (name == b"connection" and b"close" in value.lower())
        lines.append(b"%b: %b\r\n" % (name, value))
    return ReplyHead(b"".join(lines), closes, length)


def switching(status: int, headers: Headers, lines: bytes) -> bytes:
    """Write the reply that ends HTTP on a connection: without body, and without its length.

    Raises:
        ValueError: as `head`.
    """
    return b"%b%b\r\n" % (head(status, headers).text, lines)


def plain(status: int, text: str) -> bytes:
    """Write a complete reply that refuses a request and ends the connection."""
    body = f"{text}\n".encode()
    headers = (
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    )
    now = date(int(time.time()))
    return b"%b%b%b\r\n%b" % (head(status, headers).text, now, CLOSE, body)


@lru_cache(maxsize=2)
def date(second: int) -> bytes:
    """Return the line of the `date` header for a second of the Unix time; written once a second."""
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()
