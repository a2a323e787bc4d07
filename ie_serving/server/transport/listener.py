"""Sockets that accept connections, the connections that are open, and how both end.

Both transports use it; a transport's own part of a drain is a list of steps. A socket arrives bound
but not listening (`server/process/ports.py` says why), and listens from `listen` on.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ie_serving.core.runtime.waits import set_within
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.handshake import Handshake, Secure

BACKLOG: Final = 2048
"""Connections that the kernel queues until the event loop accepts them. Beyond it a client's SYN is
dropped and sent again after a second. The kernel cuts the value to `net.core.somaxconn` (4096)."""

AGREEING_S: Final = 1.0
"""Seconds that a drain leaves to handshakes that are under way: their clients were accepted, and
would otherwise see a connection fail. Two round trips take less on all but the worst lines."""

LATE_S: Final = 0.5
"""Seconds between two looks, during a step, at connections that have come since it began: of a
handshake, or from another process. One that was just accepted has so long for its first bytes."""

C = TypeVar("C", bound=asyncio.Protocol)


class Sharing(Protocol):
    """Shares the connections of a socket with other processes that have it, too."""

    def listen(self, bound: socket.socket, connect: Callable[[], asyncio.Protocol], /) -> None:
        """Accept connections; those that are for this process get their protocol by `connect`."""

    def may_shed(self, shed: Callable[[int], None], /) -> None:
        """Know what lets go of so many without a failed request: their clients connect anew."""

    def stop(self, bound: socket.socket, /) -> None:
        """Accept no more."""

    async def arrived(self) -> None:
        """Wait, for a limited time, for connections that others have handed over before `stop`."""


class Step(NamedTuple, Generic[C]):
    """One step of a drain: what is done to every open connection, then how long to wait.

    Attributes:
        act: called with each connection that is open when the step begins; with one that comes
            later a moment after.
        wait_s: seconds until the next step; a drain ends sooner when no connection is left.
    """

    act: Callable[[C], object]
    wait_s: float


class Listener(Generic[C]):
    """Accepts connections, and knows those that are open. Belongs to one event loop.

    Args of the constructor:
        connect: makes the protocol of one new connection; `opened` and `closed` tell of its life.
        limit: counts connections whose handshake is under way, or strangers could open any number.
        secure: see `Secure`; None: connections are plain.
        sharing: see `Sharing`; None: no other process accepts on the sockets.
        let_go: lets go of a connection without a failed request; None: nothing does.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        limit: ConnectionLimit,
        secure: Secure | None = None,
        sharing: Sharing | None = None,
        let_go: Callable[[C], object] | None = None,
    ) -> None:
        self._sharing = sharing
        self._let_go = let_go
        self._shared: list[socket.socket] = []
        self._connect = connect
        self._limit = limit
        self._secure = secure
        self._handshakes: set[Handshake] = set()
        self._none_agreeing = asyncio.Event()
        self._none_agreeing.set()
        self._accepting: list[tuple[asyncio.Server, socket.socket]] = []
        self._open: set[C] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    @property
    def connections(self) -> Sequence[C]:
        """The connections that are open now, in no order; a copy."""
        return tuple(self._open)

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections on sockets that are bound.

        Raises:
            OSError: a socket cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        accept = self._greet if self._secure else self._connect
        if self._sharing and self._let_go:
            self._sharing.may_shed(self._shed)
        for bound in sockets:
            allow_listening(bound)
            if self._sharing:
                self._sharing.listen(bound, accept)
                self._shared.append(bound)
                continue
            unix = bound.family == socket.AF_UNIX
            create = loop.create_unix_server if unix else loop.create_server
            server = await create(accept, sock=bound, backlog=BACKLOG)
            self._accepting.append((server, bound))

    def opened(self, connection: C) -> None:
        """Take note of a connection.

        Not when its protocol is made: a client may have left before it has a transport, and then
        nothing would ever close it.
        """
        self._open.add(connection)
        self._none_open.clear()

    def closed(self, connection: C) -> None:
        """Take note that a connection is lost."""
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()

    async def drain(self, steps: Sequence[Step[C]]) -> None:
        """Accept nothing more; when handshakes have ended, go from step to step until none is open.

        It may be called again, to go on with further steps.
        """
        while self._sharing and self._shared:
            bound = self._shared.pop()
            self._sharing.stop(bound)
            bound.close()
        while self._accepting:
            server, bound = self._accepting.pop()
            server.close()
            bound.close()  # uvloop leaves a socket that it was given open
        await set_within(self._none_agreeing, AGREEING_S)
        for handshake in tuple(self._handshakes):
            handshake.abort()
        if self._sharing:
            await self._sharing.arrived()
        for step in steps:
            if await self._done(step):
                return

    async def _done(self, step: Step[C]) -> bool:
        """Make one step; tell whether no connection is open any more."""
        loop = asyncio.get_running_loop()
        end = loop.time() + step.wait_s
        due, told = set(self._open), set[C]()
        while True:
            for connection in due & self._open:
                step.act(connection)
            told |= due
            due = self._open - told
            left_s = max(0.0, end - loop.time())
            if await set_within(self._none_open, min(left_s, LATE_S)):
                return True
            if left_s <= LATE_S:
                return False

    def _shed(self, number: int) -> None:
        assert self._let_go  # else nobody knows of this method
        for connection in self.connections[:number]:
            self._let_go(connection)

    def _greet(self) -> Handshake:
        assert self._secure
        return Handshake(self._secure, self._connect, self._begun, self._over)

    def _begun(self, handshake: Handshake) -> None:
        self._handshakes.add(handshake)
        self._none_agreeing.clear()
        self._limit.opened(handshake)

    def _over(self, handshake: Handshake) -> None:
        self._limit.closed(handshake)
        self._handshakes.discard(handshake)
        if not self._handshakes:
            self._none_agreeing.set()


def allow_listening(bound: socket.socket) -> None:
    """Prepare a socket that was bound early for `listen()`.

    Connections inherit SO_KEEPALIVE, so that one whose client has vanished ends some time although
    nothing is sent on it.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    bound.setblocking(False)
