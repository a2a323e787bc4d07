"""Listens on sockets, tracks the open connections, and drains them.

Both transports use it; a transport describes its own part of a drain as a list of steps. A socket
arrives bound but not listening (`server/process/ports.py` says why); `listen` starts to listen.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ie_serving.core.runtime.accepted_connection import serve_accepted
from ie_serving.core.runtime.waits import set_within
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.handshake import Handshake, TlsSettings

BACKLOG: Final = 2048
"""Connections that the kernel queues until the event loop accepts them. Beyond it a client's SYN is
dropped and sent again after a second. The kernel caps the value at `net.core.somaxconn` (4096)."""

AGREEING_S: Final = 1.0
"""Seconds that a drain leaves to running handshakes: their clients were accepted, and would
otherwise see a connection fail. Two round trips take less on all but the worst networks."""

LATE_S: Final = 0.5
"""Seconds between two checks, during a step, for connections that have come since it began: from a
handshake, or from another process. A new connection has that long for its first bytes."""

C = TypeVar("C", bound=asyncio.Protocol)


class SocketSharing(Protocol):
    """Shares the connections of a socket with other processes that listen on it."""

    def listen(self, bound: socket.socket, connect: Callable[[], asyncio.Protocol], /) -> None:
        """Accept connections; those for this process get their protocol from `connect`."""

    def may_shed(self, shed: Callable[[int], None], /) -> None:
        """Register `shed`, which closes that many connections without failing a request."""

    def stop(self, bound: socket.socket, /) -> None:
        """Stop accepting."""

    async def arrived(self) -> None:
        """Wait, for a limited time, for connections that others have handed over before `stop`."""


class DrainStep(NamedTuple, Generic[C]):
    """One step of a drain: an action for every open connection, then a wait.

    Attributes:
        act: called with each connection that is open when the step begins; with one that comes
            later, a moment after it has come.
        wait_s: seconds until the next step; a drain ends sooner when no connection is left.
    """

    act: Callable[[C], object]
    wait_s: float


class Listener(Generic[C]):
    """Accepts connections, and tracks the open ones. Belongs to one event loop.

    Args of the constructor:
        connect: makes the protocol of one new connection, which calls `opened` and `closed`.
        limit: limit of connections; it also counts those during their handshake, so that their
            number is bounded.
        secure: TLS of the port; None: connections are plain.
        sharing: connections shared with other processes; None: no other process accepts on the
            sockets.
        let_go: closes a connection without failing a request; None: connections are not shed.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        limit: ConnectionLimit,
        secure: TlsSettings | None = None,
        sharing: SocketSharing | None = None,
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
        """Record a connection.

        Not called when its protocol is made: a client may have left before the connection has a
        transport, and then `closed` would never be called.
        """
        self._open.add(connection)
        self._none_open.clear()

    def closed(self, connection: C) -> None:
        """Record that a connection is lost."""
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()

    async def drain(self, steps: Sequence[DrainStep[C]]) -> None:
        """Stop accepting; when handshakes have ended, do the steps until no connection is open.

        It may be called again, with further steps.
        """
        while self._sharing and self._shared:
            bound = self._shared.pop()
            self._sharing.stop(bound)
            bound.close()
        if self._accepting:
            await self._stop_accepting()
        if self._sharing:
            await self._sharing.arrived()
        await set_within(self._none_agreeing, AGREEING_S)
        for handshake in tuple(self._handshakes):
            handshake.abort()
        for step in steps:
            if await self._done(step):
                return

    async def _stop_accepting(self) -> None:
        """Close the listening sockets; take the connections that the kernel has queued on them.

        The kernel resets queued connections when their socket closes, though their clients count
        as connected and may have sent a request.
        """
        accept, queued = self._greet if self._secure else self._connect, list[socket.socket]()
        while self._accepting:
            server, bound = self._accepting.pop()
            with suppress(OSError):  # there are no more
                while len(queued) < BACKLOG:
                    queued.append(bound.accept()[0])
            server.close()
            bound.close()  # uvloop does not close a socket that was passed to it
        await asyncio.gather(*(serve_accepted(each, accept) for each in queued))
        # One that the loop accepted in this turn calls `opened` in the next.
        await asyncio.sleep(0)

    async def _done(self, step: DrainStep[C]) -> bool:
        """Do one step; return whether no connection is open any more."""
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
        assert self._let_go  # without it this method is not registered
        for connection in self.connections[:number]:
            self._let_go(connection)

    def _greet(self) -> Handshake:
        assert self._secure
        return Handshake(self._secure, self._connect, self._handshake_begun, self._over)

    def _handshake_begun(self, handshake: Handshake) -> None:
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

    Connections inherit SO_KEEPALIVE, so that one whose client has vanished ends eventually although
    nothing is sent on it.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    bound.setblocking(False)
