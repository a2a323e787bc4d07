"""The messages of one WebSocket, over wsproto. Source: RFC 6455 sections 5 to 7.

wsproto knows frames: masks, lengths, fragments, UTF-8, control frames, and the close codes of what
breaks the protocol. Here are the limits, the pings, and turns for the other connections. No
extension is agreed upon, so nothing is inflated.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import (
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    TextMessage,
)

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease
from ie_serving.server.transport.http1.channel import Channel

PING_S: Final = 20.0
"""Seconds in which nothing comes after which the client is asked whether it is there; after as many
more without a word the connection is ended."""
STEP: Final = 4 * 1024
"""Bytes that are looked at in a row: 700 frames without content, which take some milliseconds."""
TURN_S: Final = 0.001
"""Seconds after which other connections have their turn."""
LONGEST_REASON: Final = 123
"""Bytes of a reason; section 5.5: a control frame holds 125, and 2 are the code."""
TOO_BIG: Final = 1009
COPIES: Final = 2
"""How often a large reply is counted until it is read: its frame, and what TLS makes of that."""


class Session:
    """One WebSocket, whose handshake is done.

    Args of the constructor:
        channel: carries it.
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
        self._asked = False  # whether it is there; nothing has come since
        self._since = time.perf_counter()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Give each message, text or binary, when it is whole. Never ends: see `over`.

        Raises:
            QueueFull, RequestTooLarge: the budget of bytes has no room for it.
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
        """Send a text message; wait as long as the client does not read.

        Raises:
            QueueFull, RequestTooLarge: the budget of bytes has no room for it; nothing is sent.
        """
        if self._frames.state is ConnectionState.OPEN:
            lease = BUDGET.lease(COPIES * len(text) if len(text) >= SMALL else 0)
            frame = self._frames.send(TextMessage(data=text.decode()))
            del text
            await self._channel.write(frame)
            lease.release()

    async def close(self, code: int, reason: str = "") -> None:
        """Say why it ends, unless the client knows."""
        if self._frames.state is ConnectionState.OPEN:
            cut = reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
            await self._write(CloseConnection(code=code, reason=cut))

    def release(self) -> None:
        """Give back what was gathered of a message that will not be whole any more."""
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
        # Without a wait: a client that is gone reads nothing, and would be waited for.
        self._channel.put(self._frames.send(Ping()))

    async def _is_end_of_message(self, event: Event) -> bool:
        """Act on an event; whether a message is whole with it."""
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
        """Answer the client's close, or close for what it has broken; nothing is read any more."""
        if self._frames.state is ConnectionState.REMOTE_CLOSING:
            await self._write(event.response())
        elif self._frames.state is ConnectionState.OPEN:
            await self.close(event.code, event.reason or "")
        self._over()
        await asyncio.get_running_loop().create_future()  # until whoever is told cancels this

    async def _write(self, event: Event) -> None:
        await self._channel.write(self._frames.send(event))

    async def _let_others(self) -> None:
        if time.perf_counter() - self._since > TURN_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
