"""An HTTP/1.1 server on sockets that are bound already: listen, look after connections, drain.

`connection.py` speaks the protocol, `exchange.py` is what the ASGI application sees of it.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Final

from ie_serving.server.busy_poll import BusyPoll
from ie_serving.server.http1.connection import App, Connection
from ie_serving.server.http1.outbox import Outbox
from ie_serving.server.ports import BACKLOG

KEEP_ALIVE_S: Final = 75.0
"""How long a client may keep the server waiting, above all between requests; longer than the 60 s
of common load balancers, which must be the ones that close."""
LINGER_S: Final = 0.5
"""How long connections stay open when the server drains, so that their clients close them."""
_SWEEP_S: Final = 5.0
_CANCELLED_S: Final = 1.0
"""How long cancelled requests may take to answer."""


class HttpServer:
    """Serves one ASGI application.

    Attributes:
        app: the application.
        draining: every connection ends with its next reply.
        outbox: takes small replies.
        busy_poll: waits for the next request.
    """

    def __init__(
        self, app: App, *, busy_poll_s: float = 0.0, keep_alive_s: float = KEEP_ALIVE_S
    ) -> None:
        self.app = app
        self.draining = False
        self.outbox = Outbox()
        self.busy_poll = BusyPoll(busy_poll_s)
        self._keep_alive_s = keep_alive_s
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._listening: list[tuple[asyncio.Server, socket.socket]] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections.

        Raises:
            OSError: a socket cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        for bound in sockets:
            accepting = await loop.create_server(
                lambda: Connection(self), sock=bound, backlog=BACKLOG
            )
            self._listening.append((accepting, bound))
        self._sweeper = loop.call_later(min(_SWEEP_S, self._keep_alive_s / 2), self._sweep)

    async def drain(self, timeout_s: float) -> None:
        """Refuse connections at once; return when all have ended, or were cut after `timeout_s`."""
        self.draining = True
        for accepting, bound in self._listening:
            accepting.close()
            bound.close()
        # To close a connection that seems idle loses the request that is already on its way.
        await self._emptied(LINGER_S)
        for connection in tuple(self._connections):
            connection.end_if_idle()
        if not await self._emptied(timeout_s):
            await self._cut()
        if self._sweeper:
            self._sweeper.cancel()

    def joined(self, connection: Connection) -> None:
        """See `connection.Server`."""
        self._connections.add(connection)
        self._empty.clear()

    def left(self, connection: Connection) -> None:
        """See `connection.Server`."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def _emptied(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._empty.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    async def _cut(self) -> None:
        for connection in tuple(self._connections):
            connection.cancel()
        if not await self._emptied(_CANCELLED_S):
            for connection in tuple(self._connections):
                connection.abort()

    def _sweep(self) -> None:
        """Look for clients that keep the server waiting: cheaper than a timer for each."""
        loop = asyncio.get_running_loop()
        for connection in tuple(self._connections):
            connection.end_if_late(loop.time(), self._keep_alive_s)
        self._sweeper = loop.call_later(min(_SWEEP_S, self._keep_alive_s / 2), self._sweep)
