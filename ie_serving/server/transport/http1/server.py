"""An HTTP/1.1 server on sockets that are already bound: listens, watches connections, drains.

`protocol.py` implements HTTP, `connection.py` drives it, and the application gets each request as a
value (`messages.py`).
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.handshake import TlsSettings
from ie_serving.server.transport.http1.connection import ConnectionServer, Http1Connection
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.messages import App
from ie_serving.server.transport.http1.outbox import Outbox
from ie_serving.server.transport.listener import DrainStep, Listener, SocketSharing

MakeConnection: TypeAlias = Callable[[ConnectionServer], Http1Connection]
"""Makes the object that carries the requests of one connection."""
KEEP_ALIVE_S: Final = 75.0
"""Seconds that a client may keep the server waiting, mostly between requests; then its connection
is closed. Longer than the 60 s of common load balancers, which have to be the ones that close."""
LINGER_S: Final = 0.5
"""Seconds that idle connections stay open when the server drains, so that their clients can close
them or finish sending a request; then they are closed."""
_SWEEP_S: Final = 5.0
"""Seconds between two checks for clients that keep the server waiting; a limit may be exceeded by
this much."""
_CANCELLED_S: Final = 1.0
"""Seconds that cancelled requests may take to answer; then their connections are cut."""


class HttpServer:
    """Serves one application.

    Args of the constructor, beside the attributes:
        carrier: makes the object that carries a connection's requests.
        busy_poll_s: seconds of a `BusyPoll`.
        keep_alive_s: seconds, `KEEP_ALIVE_S` by default.
        limit: limit of connections.
        secure: the TLS of the port; None: plain connections.
        sharing: sharing of accepted connections between workers.

    Attributes:
        app: the application.
        draining: every connection ends with its next reply.
        outbox: takes small replies.
        busy_poll: polls for the next request.
        known_heads: cache of parsed heads of requests.
    """

    def __init__(
        self,
        app: App,
        carrier: MakeConnection = Http1Connection,
        *,
        busy_poll_s: float = 0.0,
        keep_alive_s: float = KEEP_ALIVE_S,
        limit: ConnectionLimit | None = None,
        secure: TlsSettings | None = None,
        sharing: SocketSharing | None = None,
    ) -> None:
        self.app = app
        self.draining = False
        self.outbox = Outbox()
        self.busy_poll = BusyPoll(busy_poll_s)
        self.known_heads = KnownHeads()
        self._carrier = carrier
        self._keep_alive_s = keep_alive_s
        self._limit = limit or ConnectionLimit()
        self._listener = Listener(self.connect, self._limit, secure, sharing)
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections.

        Raises:
            OSError: a socket cannot be listened on.
        """
        await self._listener.listen(sockets)
        self._sweep()

    @property
    def in_flight(self) -> int:
        """See `lifecycle.PortServer`."""
        return sum(connection.in_flight for connection in self._listener.connections)

    async def drain(self, timeout_s: float) -> int:
        """See `lifecycle.PortServer`."""
        self.draining = True
        await self._listener.drain(
            (
                # Closing an idle connection at once would lose a request in transit.
                DrainStep(lambda _: None, LINGER_S),
                DrainStep(Http1Connection.end_if_idle, timeout_s),
            )
        )
        cut = self.in_flight
        await self._listener.drain(
            (DrainStep(Http1Connection.cancel, _CANCELLED_S), DrainStep(Http1Connection.abort, 0.0))
        )
        if self._sweeper:
            self._sweeper.cancel()
        return cut

    def opened(self, connection: Http1Connection) -> None:
        """See `connection.ConnectionServer`."""
        self._listener.opened(connection)
        self._limit.opened(connection)

    def closed(self, connection: Http1Connection) -> None:
        """See `connection.ConnectionServer`."""
        self._limit.closed(connection)
        self._listener.closed(connection)

    def connect(self) -> Http1Connection:
        """Make the protocol of one connection."""
        return self._carrier(self)

    def _sweep(self) -> None:
        """Check for clients that keep the server waiting: cheaper than a timer for each."""
        now = self.busy_poll.now()
        for connection in self._listener.connections:
            connection.end_if_late(now, self._keep_alive_s)
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(min(_SWEEP_S, self._keep_alive_s / 2), self._sweep)
