"""A client of HTTP/1.1 that sends any bytes, and says in one line what they came to."""

import re
import socket
from contextlib import closing
from typing import NamedTuple

from tests.process import PATIENCE_S

DIGITS = "/v1/models/digits"
_PROBE = b"GET /v1/models/probe HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"
"""Sent behind everything: a server that answers it has kept the connection."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Case(NamedTuple):
    """One row of a table.

    Attributes:
        section: of RFC 9112, or of RFC 9110 where it says so.
        name: what is sent.
        outcome: the codes of the replies, then `close` if the server closed by itself.
        sent: all that is sent.
    """

    section: str
    name: str
    outcome: str
    sent: bytes


class Reply(NamedTuple):
    """One reply."""

    status: str
    head: bytes
    body: bytes


def raw(text: str) -> bytes:
    """Text that is sent as it is, a byte for a character."""
    return text.encode("latin-1")


def get(target: str = DIGITS, *lines: str, version: str = "1.1") -> bytes:
    """A request without a body, and further header lines."""
    return _head(f"GET {target} HTTP/{version}", *lines)


def post(body: bytes, *lines: str) -> bytes:
    """A prediction, with further header lines."""
    first = f"POST {DIGITS}:predict HTTP/1.1"
    return _head(first, f"Content-Length: {len(body)}", *lines) + body


def chunked(body: bytes, *lines: str) -> bytes:
    """The same with a body that is written in chunks already."""
    first = f"POST {DIGITS}:predict HTTP/1.1"
    return _head(first, "Transfer-Encoding: chunked", *lines) + body


def _head(first: str, *lines: str) -> bytes:
    return raw("\r\n".join((first, "Host: localhost", *lines, "\r\n")))


def talk(port: int, sent: bytes, *, then_end: bool = False) -> list[Reply]:
    """Send bytes, and read until the server closes.

    Args:
        port: of the server.
        sent: all that is sent.
        then_end: close the sending side behind it.
    """
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) as client:
        client.sendall(sent)
        if then_end:
            client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answered:
            return replies(answered.read())


def outcome(port: int, sent: bytes) -> str:
    """Send bytes and a probe; give the codes of the replies, then whether the server closed."""
    found = talk(port, sent + _PROBE)
    kept = bool(found) and b"probe" in found[-1].body
    codes = [reply.status for reply in (found[:-1] if kept else found)]
    return " ".join(codes if kept else [*codes, "close"])


def replies(data: bytes) -> list[Reply]:
    """Split what a server has sent on one connection. A reply to HEAD has no body."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        bodiless = length is None or data.startswith(b"HTTP/1.1 ")
        size = 0 if bodiless else int(length[1]) if length else 0
        found.append(Reply(head[9:12].decode(), head, data[:size]))
        data = data[size:]
    return found
