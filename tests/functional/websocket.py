"""A client of WebSockets over a plain socket: wsproto in the other role, or bytes as they are."""

import base64
import os
import socket
from collections.abc import Iterable
from typing import Any

from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Message, Ping, Pong, TextMessage

from tests.process import PATIENCE_S


class Refused(Exception):
    """The server has answered by something else than 101.

    Attributes:
        status: of the reply.
        body: of it.
    """

    def __init__(self, status: int, head: str, body: str) -> None:
        super().__init__(status, head, body)
        self.status, self.head, self.body = status, head, body


class WebSocket:
    """One connection. Raises Refused where the upgrade is."""

    def __init__(self, port: int, target: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        given = {
            "host": f"127.0.0.1:{port}",
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-version": "13",
            "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
            **dict(headers),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
        body = "." * int(given.get("content-length", 0))
        self._socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        head, rest = self._head()
        status = int(head.split(" ", 2)[1])
        if status != 101:
            raise Refused(status, head.lower(), self._body(head, rest).decode())
        self.head = head.lower()
        self._frames = Connection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._frames.receive_data(rest) if rest else None

    def __enter__(self) -> "WebSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, event: Event) -> None:
        self._socket.sendall(self._frames.send(event))

    def text(self, text: str) -> None:
        self.send(TextMessage(data=text))

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def event(self) -> Event:
        """Give the next event; whole messages alone."""
        parts: list[Any] = []
        while True:
            while not self._events:
                self._events = list(self._frames.events())
                if not self._events:
                    data = self._socket.recv(65536)
                    assert data, "the connection has ended without a close"
                    self._frames.receive_data(data)
            event = self._events.pop(0)
            if not isinstance(event, Message):
                return event
            parts.append(event.data)
            if event.message_finished:
                return type(event)(data=type(event.data)().join(parts))

    def answer(self) -> str:
        """Give the next text; pings are answered meanwhile."""
        while True:
            event = self.event()
            if isinstance(event, Ping):
                self.send(event.response())
            elif not isinstance(event, Pong):
                assert isinstance(event, TextMessage), event
                return event.data

    def closed(self) -> tuple[int, str]:
        """Give code and reason of the server's close; then the connection has to end."""
        event = self.event()
        assert isinstance(event, CloseConnection), event
        self._socket.settimeout(PATIENCE_S)
        while self._socket.recv(65536):
            pass
        return event.code, event.reason or ""

    def _head(self) -> tuple[str, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            more = self._socket.recv(65536)
            assert more, data
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        return head.decode(), rest

    def _body(self, head: str, rest: bytes) -> bytes:
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        while len(rest) < length:
            rest += self._socket.recv(65536)
        return rest
