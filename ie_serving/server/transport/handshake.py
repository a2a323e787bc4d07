"""A connection until TLS is agreed upon, when the protocol of the port takes it over."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ie_serving.core.runtime import eager
from ie_serving.core.runtime.threads import let_go
from ie_serving.server.transport.failed_handshakes import FailedHandshakes
from ie_serving.server.transport.peer import client_address
from ie_serving.server.transport.tls import ServerContext

HANDSHAKE_S: Final = 10.0
"""Seconds that a client may take to agree upon TLS; then its connection is cut. It takes two round
trips, so this leaves seconds for each on a bad line."""
LINGER_S: Final = 1.0
"""Seconds that a client may take to read why it was refused. If we closed while it is still
sending, the kernel would reset the connection, and the client might never read the alert."""

_NOT_TLS = b"this port is encrypted, and the request was not: use https://\n"
PLAIN_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_NOT_TLS), _NOT_TLS)
)
"""What a client of plain HTTP is told, which does not know an alert; nginx and Go do the same."""


class Secure(NamedTuple):
    """What the connections of a port agree upon TLS with.

    Attributes:
        context: gives that of the next connection.
        failed: told of the handshakes that fail.
    """

    context: Callable[[], ServerContext]
    failed: FailedHandshakes


class Handshake(asyncio.Protocol):
    """One connection that is being agreed upon. See `connection_limit.Limited`.

    Args of the constructor:
        secure: what is agreed upon with.
        connect: makes the protocol of the port.
        opened: called when the connection is there.
        closed: called when it is lost or has been handed to the protocol of the port.
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
        self._context = secure.context()
        self._failed = secure.failed
        self._connect = connect
        self._opened = opened
        self._closed = closed
        self._limit_s = limit_s
        self._began = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        # What the client has sent right behind its last message of the handshake.
        self._early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport
        self._opened(self)
        if transport.is_closing():  # one too many
            self._closed(self)
            return
        # At once: else the client's first message could come before there is TLS to take it.
        self._task = eager.begin(self._agree(transport))

    def data_received(self, data: bytes) -> None:
        """Keep what comes before the protocol of the port has taken over."""
        self._early += data

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
        protocol = self._connect()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early and not secured.is_closing():
            protocol.data_received(self._early)

    async def _secured(self, plain: asyncio.Transport) -> asyncio.Transport | None:
        """Agree upon TLS; None where that fails, in whatever way the client fails it."""
        loop, limit_s = asyncio.get_running_loop(), self._limit_s
        try:
            with self._context.expected(self._refuse):
                secured = await loop.start_tls(
                    plain, self, self._context, server_side=True, ssl_handshake_timeout=limit_s
                )
            # The loop also returns, as if all were agreed upon, where the client has left before it
            # began. It would tell no protocol of the end of such a connection any more.
            if secured is None or secured.is_closing():
                raise ConnectionResetError
            return secured
        except asyncio.CancelledError as error:  # it gave way, or is told why and has not left
            let_go(error)
        except OSError as error:
            if not self._ending:
                self._note_end()
            let_go(error)
        return None

    def _refuse(self, error: ssl.SSLError) -> bytes:
        """Note why the handshake fails, and leave the client the time to read it."""
        self._failed.refused(error, self.address())
        self._ending = asyncio.get_running_loop().call_later(LINGER_S, self.abort)
        asyncio.get_running_loop().call_soon(self._send_end)
        return PLAIN_REFUSAL if error.reason == "HTTP_REQUEST" else b""

    def _send_end(self) -> None:
        """Send nothing more; called when the alert has been given to the transport."""
        if self._transport and not self._transport.is_closing():
            self._transport.write_eof()

    def _note_end(self) -> None:
        if time.monotonic() - self._began < self._limit_s:
            self._failed.left()
        else:
            self._failed.too_slow(self.address())
