"""A connection until TLS is agreed upon, when the protocol of the port takes it over."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final

from ie_serving.core import eager
from ie_serving.core.threads import let_go
from ie_serving.server.transport.peer import client_address

HANDSHAKE_S: Final = 10.0
"""Seconds that a client may take to agree upon TLS; then its connection is cut. It takes two round
trips, so this leaves seconds for each on a bad line."""


class Handshake(asyncio.Protocol):
    """One connection that is being agreed upon. See `connection_limit.Limited`.

    Args of the constructor:
        context: what is agreed upon with.
        connect: makes the protocol of the port.
        opened: called when the connection is there.
        closed: called when it is lost or has been handed to the protocol of the port.
        limit_s: see `HANDSHAKE_S`.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connect: Callable[[], asyncio.Protocol],
        opened: "Callable[[Handshake], None]",
        closed: "Callable[[Handshake], None]",
        limit_s: float = HANDSHAKE_S,
    ) -> None:
        self._context = context
        self._connect = connect
        self._opened = opened
        self._closed = closed
        self._limit_s = limit_s
        self._began = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # What the client has sent right behind its last message of the handshake.
        self._early = b""
        self._is_lost = False

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

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note."""
        self._is_lost = True

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
            self._closed(self)
        if secured is None or self._is_lost:
            plain.abort()
            return
        protocol = self._connect()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(self._early)

    async def _secured(self, plain: asyncio.Transport) -> asyncio.Transport | None:
        """Agree upon TLS; None where that fails, in whatever way the client fails it."""
        try:
            return await asyncio.get_running_loop().start_tls(
                plain, self, self._context, server_side=True, ssl_handshake_timeout=self._limit_s
            )
        except (OSError, asyncio.CancelledError) as error:
            # What a stranger sends is no event of the server's; the client is told by an alert.
            let_go(error)
            return None
