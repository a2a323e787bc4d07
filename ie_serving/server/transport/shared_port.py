"""gRPC and REST on one port: each connection goes to the server of its client's protocol.

With TLS the handshake negotiates the protocol (ALPN, RFC 7301). Otherwise the first bytes show it:
HTTP/2 begins with a preface that cannot begin an HTTP/1.1 request (RFC 9113, section 3.4), and a
client sends it without waiting for the server.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.handshake import OpeningConnection, TlsSettings, hand_over
from ie_serving.server.transport.listener import DrainStep, Listener, SocketSharing
from ie_serving.server.transport.peer import agreed_protocol

PREFACE_BEGINS: Final = b"PRI"
"""Enough bytes of HTTP/2's preface to recognise it: the method PRI is reserved for it."""
HTTP2_NAME: Final = "h2"
"""HTTP/2 in ALPN. Source: IANA's registry of RFC 7301."""
SILENT_S: Final = 75.0
"""Seconds that a client may send nothing; then its connection is closed. As on a REST port alone,
since REST clients open connections before they have a request for them."""
LINGER_S: Final = 0.5
"""Seconds that a drain waits for data of such a client in transit."""


class ProtocolServer(Protocol):
    """The server of one of the two protocols. See `lifecycle.PortServer`."""

    def connect(self) -> asyncio.Protocol:
        """Make the protocol of one connection."""

    async def listen(self, bound: Sequence[socket.socket], /) -> None:
        """See `lifecycle.PortServer`."""

    @property
    def in_flight(self) -> int:
        """See `lifecycle.PortServer`."""

    async def drain(self, timeout_s: float, /) -> int:
        """See `lifecycle.PortServer`."""


class SharedPort:
    """Two servers on the same sockets. See `lifecycle.PortServer`.

    Args of the constructor:
        rest: serves HTTP/1.1, and refuses clients that speak neither protocol.
        grpc: serves HTTP/2.
        limit: limit of the connections of all ports.
        secure: TLS of the port, a `handshake.TlsSettings`.
        sharing: connections shared with other processes, a `listener.SocketSharing`.
    """

    def __init__(
        self,
        rest: ProtocolServer,
        grpc: ProtocolServer,
        limit: ConnectionLimit,
        secure: TlsSettings | None = None,
        sharing: SocketSharing | None = None,
    ) -> None:
        self._rest = rest
        self._grpc = grpc
        self._limit = limit
        self._listener: Listener[UndecidedConnection] = Listener(
            self._connect, limit, secure, sharing
        )

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `lifecycle.PortServer`."""
        for server in (self._rest, self._grpc):
            await server.listen(())
        await self._listener.listen(bound)

    @property
    def in_flight(self) -> int:
        """See `lifecycle.PortServer`."""
        return self._rest.in_flight + self._grpc.in_flight

    async def drain(self, timeout_s: float) -> int:
        """See `lifecycle.PortServer`."""
        # First, so that each server knows its open connections when its own drain begins.
        await self._listener.drain(
            (DrainStep(lambda _: None, LINGER_S), DrainStep(UndecidedConnection.abort, 0.0)),
        )
        drains = (server.drain(timeout_s) for server in (self._rest, self._grpc))
        return sum(await asyncio.gather(*drains))

    def _connect(self) -> "UndecidedConnection":
        return UndecidedConnection(
            self._rest.connect, self._grpc.connect, self._opened, self._closed
        )

    def _opened(self, connection: "UndecidedConnection") -> None:
        self._listener.opened(connection)
        self._limit.opened(connection)

    def _closed(self, connection: "UndecidedConnection") -> None:
        self._limit.closed(connection)
        self._listener.closed(connection)


class UndecidedConnection(OpeningConnection):
    """A connection until its client's protocol is known.

    Args of the constructor:
        rest, grpc: make the protocol that takes the connection over.
        opened, closed: see `OpeningConnection`.
        silent_s: limit in seconds, `SILENT_S` by default.
    """

    def __init__(
        self,
        rest: Callable[[], asyncio.Protocol],
        grpc: Callable[[], asyncio.Protocol],
        opened: "Callable[[UndecidedConnection], None]",
        closed: "Callable[[UndecidedConnection], None]",
        silent_s: float = SILENT_S,
    ) -> None:
        super().__init__(opened, closed)
        self._rest = rest
        self._grpc = grpc
        self._silent_s = silent_s
        self._timer: asyncio.TimerHandle | None = None
        self._came = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Use the protocol that TLS negotiated; without TLS, wait for the client's first bytes."""
        self._transport = transport
        self._opened(self)
        agreed = agreed_protocol(transport)
        if agreed:
            self._hand_over(self._grpc if agreed == HTTP2_NAME else self._rest)
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._silent_s, self.abort)

    def data_received(self, data: bytes) -> None:
        """Decide as soon as the bytes distinguish HTTP/2 from any other protocol."""
        self._came += data
        begin = self._came[: len(PREFACE_BEGINS)]
        if begin == PREFACE_BEGINS:
            self._hand_over(self._grpc)
        elif not PREFACE_BEGINS.startswith(begin):
            self._hand_over(self._rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the connection is lost."""
        self._leave()

    def _hand_over(self, connect: Callable[[], asyncio.Protocol]) -> None:
        transport = self._transport
        assert transport
        if transport.is_closing():  # beyond the limit of connections
            return
        self._leave()
        hand_over(transport, connect(), self._came)

    def _leave(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._closed(self)
