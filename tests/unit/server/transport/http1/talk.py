"""One connection without a socket: what a test says to it, and what it hears."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from ie_serving.server.fronts.tfs.rest_pages import scope_of
from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.http1 import messages
from ie_serving.server.transport.http1.connection import Http1Connection
from ie_serving.server.transport.http1.connection_states import Body
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.outbox import Outbox
from ie_serving.server.transport.http1.server import MakeConnection

PATIENCE_S = 10
App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]
DATE = re.compile(rb"date: [^\r]*\r\n")


class Asgi:
    """Passes requests to an ASGI application: its events are how these tests read and reply."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, request: messages.Request) -> messages.Reply:
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope_of(request), events(request).__anext__, send)
        start, *bodies = sent
        body = b"".join(each.get("body", b"") for each in bodies)
        return messages.Reply(start["status"], tuple(start["headers"]), body)


async def events(request: messages.Request) -> AsyncIterator[dict[str, Any]]:
    """Give the body; of one that is still arriving first nothing, so that it can be refused."""
    stream = request.stream
    yield {"type": "http.request", "body": request.body or b"", "more_body": stream is not None}
    more = stream is not None
    while stream and more:
        piece = await stream.piece()
        more = stream.state is not Body.WHOLE
        yield {"type": "http.request", "body": piece, "more_body": more}
    await asyncio.get_running_loop().create_future()  # cancelled when the client leaves


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and of which the test says when it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: asyncio.BaseProtocol | None = None
        self.sent = b""
        self.closed = False
        self.aborted = False
        self.reading = True
        self.unsent = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 5), "sockname": ("192.0.2.2", 8000)}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written after the end"
        self.sent += data

    def writelines(self, lines: Any) -> None:
        self.write(b"".join(lines))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The client reads the end and closes."""
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Host:
    """Stands for the server. Its time stands still."""

    def __init__(self, app: messages.App) -> None:
        self.app = app
        self.draining = False
        self.outbox = Outbox()
        self.time = 1000.0
        self.busy_poll = BusyPoll(0.0, lambda: self.time)
        self.known_heads = KnownHeads()
        self.connections: list[Http1Connection] = []

    def opened(self, connection: Http1Connection) -> None:
        self.connections.append(connection)

    def closed(self, connection: Http1Connection) -> None:
        self.connections.remove(connection)


class Talk:
    """One connection, and a client that says what the test wants.

    Args of the constructor:
        app: an ASGI application that answers.
        told: gives what stands before it, and what carries its requests.
    """

    def __init__(
        self,
        app: App,
        told: Callable[[messages.App], tuple[messages.App, MakeConnection]] | None = None,
    ) -> None:
        answers, carrier = told(Asgi(app)) if told else (Asgi(app), Http1Connection)
        self.host = Host(answers)
        self.wire = Wire()
        self.connection = carrier(self.host)
        self.connection.connection_made(self.wire)

    async def say(self, *parts: bytes) -> bytes:
        """Send `parts` and give what was answered by all up to now, dates left out."""
        for part in parts:
            if not self.wire.closed:
                self.connection.data_received(part)
        await self.settle()
        return self.heard

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def heard(self) -> bytes:
        return DATE.sub(b"", self.wire.sent)

    def hang_up(self) -> None:
        self.wire.closed = True
        self.connection.connection_lost(None)


async def reply(send: Any, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body})


async def read(receive: Any) -> bytes | None:
    """Read a body as ASGI has it; None when the client has gone."""
    body = b""
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event["body"]
        if not event["more_body"]:
            return body


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Tell what was asked."""
    body = await read(receive)
    assert body is not None
    text = f"{scope['method']} {scope['path']} {scope['http_version']} ".encode() + body
    await reply(send, text)


def answered(text: bytes, extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%b\r\n%b" % (len(text), extra, text)


CLOSE = b"connection: close\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
GET = b"GET /b?c=1 HTTP/1.1\r\nHost: x\r\n\r\n"


class Gate:
    """An application that answers when the test lets it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        self.began.append(scope["path"])
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(scope["path"])
            raise
        await reply(send, f"{scope['method']} {scope['path']}".encode())


class Reader(Gate):
    """Reads only when the test lets it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.open.wait()
        await reply(send, b"%d" % len(await read(receive) or b""))


async def failing(scope: Any, receive: Any, send: Any) -> None:
    raise ZeroDivisionError("a defect")
