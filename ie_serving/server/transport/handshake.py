"""A connection during its TLS handshake; afterwards the protocol of the port takes it over."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ie_serving.core.runtime import eager
from ie_serving.core.runtime.threads import let_go
from ie_serving.server.transport.failed_handshakes import FailedHandshakes
from ie_serving.server.transport.peer import client_address
from ie_serving.server.transport.tls import ServerContext

HANDSHAKE_S: Final = 10.0
"""Seconds that a client may take for the TLS handshake; then its connection is cut. It takes two
round trips, so this leaves seconds for each on a slow network."""
LINGER_S: Final = 1.0
"""Seconds that a refused client may take to read the TLS alert. If we closed while the client is
sending, the kernel would reset the connection, and the client might never read the alert."""

_NOT_TLS = b"this port is encrypted, and the request was not: use https://\n"
PLAIN_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_NOT_TLS), _NOT_TLS)
)
"""Reply to a client of plain HTTP, which does not know TLS alerts; as in nginx and Go."""


class Secure(NamedTuple):
    """The TLS of a port.

    Attributes:
        context: returns the TLS context of the next connection.
        failed: called for handshakes that fail.
    """

    context: Callable[[], ServerContext]
    failed: FailedHandshakes


class Opening(asyncio.Protocol):
    """A connection until another protocol takes it over. See `connection_limit.Limited`.

    Args of the constructor:
        opened: called when the connection exists.
        closed: called when it is lost or has been handed over.
    """

    def __init__(self, opened: Callable[[Any], None], closed: Callable[[Any], None]) -> None:
        self._opened = opened
        self._closed = closed
        self._began = time.monotonic()
        self._transport: asyncio.Transport | None = None

    def idle_since(self) -> float | None:
        """See `connection_limit.Limited`."""
        return self._began

    def address(self) -> str | None:
        """See `connection_limit.Limited`."""
        return client_address(self._transport)

    def end_idle(self) -> None:
        """See `connection_limit.Limited`."""
        self.abort()

    def abort(self) -> None:
        """See `connection_limit.Limited`."""
        if self._transport:
            self._transport.abort()


def hand_over(transport: asyncio.Transport, protocol: asyncio.Protocol, early: bytes) -> None:
    """Give a connection to a protocol, with the bytes that have come before."""
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if early and not transport.is_closing():
        protocol.data_received(early)


class Handshake(Opening):
    """One connection during its handshake.

    Args of the constructor:
        secure: the TLS of the port.
        connect: makes the protocol of the port.
        opened, closed: see `Opening`.
        limit_s: see `HANDSHAKE_S`.
    """

    def __init__(
        self,
        secure: Secure,
        connect: Callable[[], asyncio.Protocol],
        opened: "Callable[[Handshake], None]",
        closed: "Callable[[Handshake], None]",
        limit_s: float = HANDSHAKE_S,
    ) -> None:
        super().__init__(opened, closed)
        self._context = secure.context()
        self._failed = secure.failed
        self._connect = connect
        self._limit_s = limit_s
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        # Data that the client has sent right behind its last message of the handshake.
        self._early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the handshake."""
        self._transport = transport
        self._opened(self)
        if transport.is_closing():  # beyond the limit of connections
            self._closed(self)
            return
        # Begun eagerly: else the client's first message could arrive before TLS can take it.
        self._task = eager.begin(self._agree(transport))

    def data_received(self, data: bytes) -> None:
        """Keep data that arrives before the protocol of the port has taken over."""
        self._early += data

    def abort(self) -> None:
        """See `connection_limit.Limited`."""
        super().abort()
        if self._task:
            self._task.cancel()

    async def _agree(self, plain: asyncio.Transport) -> None:
        try:
            secured = await self._secured(plain)
        finally:
            if self._ending:
                self._ending.cancel()
            self._closed(self)
        if secured is None:
            plain.abort()
            return
        hand_over(secured, self._connect(), self._early)

    async def _secured(self, plain: asyncio.Transport) -> asyncio.Transport | None:
        """Do the TLS handshake; None if it fails for any reason."""
        loop, limit_s = asyncio.get_running_loop(), self._limit_s
        try:
            with self._context.expected(self._refuse):
                secured = await loop.start_tls(
                    plain, self, self._context, server_side=True, ssl_handshake_timeout=limit_s
                )
            # If the client has left before the handshake began, the loop also returns here, as if
            # it had succeeded, and will not report the end of that connection to any protocol.
            if secured is None or secured.is_closing():
                raise ConnectionResetError
            return secured
        except asyncio.CancelledError as error:  # closed for another one, or after an alert
            let_go(error)
        except OSError as error:
            if not self._ending:
                self._note_end()
            let_go(error)
        return None

    def _refuse(self, error: ssl.SSLError) -> bytes:
        """Record why the handshake fails, and leave the client time to read the alert."""
        self._failed.refused(error, self.address())
        self._ending = asyncio.get_running_loop().call_later(LINGER_S, self.abort)
        asyncio.get_running_loop().call_soon(self._send_end)
        return PLAIN_REFUSAL if error.reason == "HTTP_REQUEST" else b""

    def _send_end(self) -> None:
        """Close the sending side; called when the transport has been given the alert."""
        if self._transport and not self._transport.is_closing():
            self._transport.write_eof()

    def _note_end(self) -> None:
        if time.monotonic() - self._began < self._limit_s:
            self._failed.left()
        else:
            self._failed.too_slow(self.address())
