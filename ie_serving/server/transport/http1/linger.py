"""The end of a connection whose client may still be sending.

If the socket closed at once, the kernel would answer what comes next by a reset, and the client
might never read the reply that lies before it. So the server says that it sends no more, drops what
comes until the client has closed, and closes itself after a while.
"""

import asyncio
from collections.abc import Callable
from typing import Final

LINGER_S: Final = 1.0
"""Seconds that a client may take to read why it was refused."""
MOST_DROPPED: Final = 1 << 20
"""Bytes that are read to be dropped: what is on its way, and the rest of a body of usual size. From
a client that goes on sending no more is read, since gigabytes would cost the other clients time."""


def linger(transport: asyncio.Transport, lost: Callable[[Exception | None], None]) -> None:
    """Say no more on a connection, and close it soon; `lost` is told when it has ended."""
    if transport.is_closing():
        return
    tls = transport.get_extra_info("ssl_object")
    if tls:  # drops by itself what comes
        tls.lingers = True
        transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, _cut, transport)
        return
    transport.set_protocol(_Dropping(transport, lost))
    transport.write_eof()
    # It may be paused since requests wait.
    if not transport.is_reading():
        transport.resume_reading()
    asyncio.get_running_loop().call_later(LINGER_S, transport.close)


def _cut(transport: asyncio.Transport) -> None:
    if not transport.get_write_buffer_size():  # else a slow client still reads the reply
        transport.abort()


class _Dropping(asyncio.Protocol):
    """Reads what nobody wants, up to `MOST_DROPPED`."""

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
