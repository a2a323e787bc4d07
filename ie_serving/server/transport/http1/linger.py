"""Closes a connection whose client may still be sending, so that the client can read the reply.

If the socket closed at once, the kernel would answer further data with a reset, and the client
might never read the reply before it. So the server closes its sending side, drops received data
until the client has closed, and closes the socket after a while.
"""

import asyncio
from collections.abc import Callable
from typing import Final

LINGER_S: Final = 1.0
"""Seconds that a refused client may take to read the reply; then the socket is closed."""
MOST_DROPPED: Final = 1 << 20
"""Bytes that are read and dropped: data in transit, and the rest of a body of usual size. Beyond
them the socket is not read, since dropping gigabytes would cost the other clients time."""


def linger(transport: asyncio.Transport, lost: Callable[[Exception | None], None]) -> None:
    """Close the sending side, and the connection soon; call `lost` when it has ended."""
    if transport.is_closing():
        return
    tls = transport.get_extra_info("ssl_object")
    if tls:  # TLS itself drops received data
        tls.lingers = True
        transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, _cut, transport)
        return
    transport.set_protocol(_Dropping(transport, lost))
    transport.write_eof()
    # Reading may be paused because requests wait.
    if not transport.is_reading():
        transport.resume_reading()
    asyncio.get_running_loop().call_later(LINGER_S, transport.close)


def _cut(transport: asyncio.Transport) -> None:
    if not transport.get_write_buffer_size():  # else a slow client is still reading the reply
        transport.abort()


class _Dropping(asyncio.Protocol):
    """Reads and drops data, up to `MOST_DROPPED` bytes."""

    def __init__(
        self, transport: asyncio.Transport, lost: Callable[[Exception | None], None]
    ) -> None:
        self._transport = transport
        self._lost = lost
        self._left = MOST_DROPPED

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._left -= len(data)
        if self._left < 0:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._lost(error)
