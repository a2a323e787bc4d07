"""A WebSocket: its opening handshake and its messages, over wsproto.

wsproto implements frames: masks, lengths, fragments, UTF-8, control frames, and close codes for
protocol errors. This module adds limits, pings, and turns for the other connections. No extension
is negotiated, so nothing is inflated. Source: RFC 6455, sections 4.2, 5 to 7, and 10.2.
"""

import asyncio
import base64
import binascii
import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease
from ie_serving.core.values.errors import Forbidden, InvalidRequest
from ie_serving.server.transport.http1.channel import Channel
from ie_serving.server.transport.http1.messages import Headers, RequestHead

VERSION: Final = b"13"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16

PING_S: Final = 20.0
"""Seconds without received data after which the client gets a ping; after as many more without data
the connection is closed."""
STEP: Final = 4 * 1024
"""Bytes that are parsed at a time: 700 frames without content, which take some milliseconds."""
TURN_S: Final = 0.001
"""Seconds of work after which other connections get their turn."""
LONGEST_REASON: Final = 123
"""Most bytes of a reason; section 5.5: a control frame holds 125, of these 2 for the code."""
TOO_BIG: Final = 1009
COPIES: Final = 2
"""Copies of a large reply that the budget counts until it is read: its frame, and TLS's copy of
that."""


class UpgradeRequired(InvalidRequest):
    """The request asks for no WebSocket, or for another version of the protocol."""


def accepted(head: RequestHead, *, any_origin: bool) -> Headers:
    """Return the headers that accept a handshake.

    Args:
        head: head of the request.
        any_origin: pages of other origins may open a WebSocket, too.

    Raises:
        UpgradeRequired: not a handshake, or not of version 13.
        InvalidRequest: the key is invalid, or the request has a body.
        Forbidden: the browser names a page of another origin.
    """
    fields = head.fields
    offered = [each.strip() for each in head.upgrade.lower().split(b",")]
    if head.method != "GET" or head.version != "1.1" or b"websocket" not in offered:
        raise UpgradeRequired("a stream is a WebSocket: ask for it by Upgrade: websocket")
    if fields.get(b"sec-websocket-version", b"") != VERSION:
        raise UpgradeRequired("expected Sec-WebSocket-Version: 13, the one version that is spoken")
    # Data behind the head belongs to the WebSocket.
    if head.length != 0:
        raise InvalidRequest("the request for a WebSocket has no body: leave it out")
    if not any_origin:
        _check_origin(fields.get(b"origin"), fields.get(b"host", b""))
    return (
        (b"upgrade", b"websocket"),
        (b"connection", b"upgrade"),
        (b"sec-websocket-accept", _accept(fields.get(b"sec-websocket-key", b""))),
    )


def _accept(key: bytes) -> bytes:
    try:
        size = len(base64.b64decode(key, validate=True))
    except binascii.Error:
        size = 0
    if size != _KEY_BYTES:
        raise InvalidRequest("Sec-WebSocket-Key is not 16 bytes in base64: send 24 such characters")
    # The protocol demands SHA-1, which proves knowledge of WebSockets and protects nothing.
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _check_origin(origin: bytes | None, host: bytes) -> None:
    """Refuse pages of other origins: unlike with a request, a browser lets them read a WebSocket.

    The browser sends the user's certificate or password along for any page.
    """
    if origin is not None and origin.lower().partition(b"://")[2] != host.lower():
        raise Forbidden(
            f'a page of "{origin[:100].decode("latin-1")}" may open no stream of this server: let'
            " browsers ask from other origins by enabling CORS"
        )


class WebSocketSession:
    """One WebSocket after its handshake.

    Args of the constructor:
        channel: carries its bytes.
        limit: bytes of the largest message.
        over: called when the client has closed it, or broken the protocol.
    """

    def __init__(self, channel: Channel, limit: int, over: Callable[[], object]) -> None:
        self._channel = channel
        self._limit = limit
        self._over = over
        self._frames = Connection(ConnectionType.SERVER)
        self._parts: list[bytes] = []
        self._size = 0
        self._lease = Lease(BUDGET)
        self._asked = False  # a ping was sent, and no data has come since
        self._since = time.perf_counter()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Yield each complete message, text or binary. Never ends: see `over`.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent.
        """
        while True:
            data = await self._more()
            for start in range(0, len(data), STEP):
                self._frames.receive_data(data[start : start + STEP])
                for event in self._frames.events():
                    if await self._is_end_of_message(event):
                        message, self._parts, self._size = b"".join(self._parts), [], 0
                        yield message
                        self._lease.release()
                await self._let_others()

    async def send(self, text: bytes) -> None:
        """Send a text message; wait while the client does not read.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent; nothing is sent.
        """
        if self._frames.state is ConnectionState.OPEN:
            lease = BUDGET.lease(COPIES * len(text) if len(text) >= SMALL else 0)
            frame = self._frames.send(TextMessage(data=text.decode()))
            del text
            await self._channel.write(frame)
            lease.release()

    async def close(self, code: int, reason: str = "") -> None:
        """Send the reason of the end, unless the client has closed already."""
        if self._frames.state is ConnectionState.OPEN:
            cut = reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
            await self._write(CloseConnection(code=code, reason=cut))

    def release(self) -> None:
        """Return to the budget the bytes of an incomplete message."""
        self._parts, self._size = [], 0
        self._lease.release()

    async def _more(self) -> bytes:
        while True:
            data = await self._channel.read(PING_S)
            if not data:
                self._ask()
                continue
            self._asked = False
            self._since = time.perf_counter()
            return data

    def _ask(self) -> None:
        if self._asked:
            self._channel.abort()
            return
        self._asked = True
        # Does not wait: a client that is gone would never read the ping.
        self._channel.put(self._frames.send(Ping()))

    async def _is_end_of_message(self, event: Event) -> bool:
        """Handle an event; return whether it completes a message."""
        if isinstance(event, (TextMessage, BytesMessage)):
            return await self._gather(event.data, event.message_finished)
        if isinstance(event, Ping):
            await self._write(event.response())
        elif isinstance(event, CloseConnection):
            await self._end(event)
        return False

    async def _gather(self, data: Any, finished: bool) -> bool:  # noqa: ANN401  text or bytes
        part = data.encode() if isinstance(data, str) else bytes(data)
        self._size += len(part)
        if self._size > self._limit:
            await self._end(
                CloseConnection(code=TOO_BIG, reason=f"a message is over {self._limit} bytes")
            )
        self._lease.take(len(part))
        if part:
            self._parts.append(part)
        return finished

    async def _end(self, event: CloseConnection) -> None:
        """Answer the client's close, or close after a protocol error; read nothing any more."""
        if self._frames.state is ConnectionState.REMOTE_CLOSING:
            await self._write(event.response())
        elif self._frames.state is ConnectionState.OPEN:
            await self.close(event.code, event.reason or "")
        self._over()
        await asyncio.get_running_loop().create_future()  # until the code behind `over` cancels it

    async def _write(self, event: Event) -> None:
        await self._channel.write(self._frames.send(event))

    async def _let_others(self) -> None:
        if time.perf_counter() - self._since > TURN_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
