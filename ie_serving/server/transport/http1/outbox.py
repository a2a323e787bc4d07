"""How replies leave a connection: one write a turn of the event loop, and a lingering close.

Waking a sleeping process costs the sender more than the write itself. So replies are held until the
turn ends, or until there are several, or until the first has waited long.

If the socket closed at once, the kernel would answer further data with a reset, and the client
might never read the reply before it. So the server closes its sending side, drops received data
until the client has closed, and closes the socket after a while.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

MOST_HELD: Final = 5
"""Number of held replies at which all are written at once. With more, client and server would take
turns instead of working in parallel."""
LONGEST_HELD_S: Final = 0.0005
"""Seconds that a reply may wait for others; the next reply after that causes both to be written.
About the time of a few small inferences."""


class Outbox:
    """The replies that are held. Belongs to one event loop.

    Args of the constructor:
        now: clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._held: list[tuple[asyncio.Transport, bytes | bytearray | memoryview]] = []
        self._since = 0.0

    def send(self, transport: asyncio.Transport, data: bytes | bytearray | memoryview) -> None:
        """Write `data` soon. Before a later write without this box, call `flush`."""
        held = self._held
        if not held:
            self._since = self._now()
            self._loop.call_soon(self.flush)
        held.append((transport, data))
        if len(held) >= MOST_HELD or self._now() - self._since > LONGEST_HELD_S:
            self.flush()

    def flush(self) -> None:
        """Write all held replies now."""
        held, self._held = self._held, []
        for transport, data in held:
            if not transport.is_closing():
                transport.write(data)


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
    transport.set_protocol(_DiscardingProtocol(transport, lost))
    transport.write_eof()
    # Reading may be paused because requests wait.
    if not transport.is_reading():
        transport.resume_reading()
    asyncio.get_running_loop().call_later(LINGER_S, transport.close)


def _cut(transport: asyncio.Transport) -> None:
    if not transport.get_write_buffer_size():  # else a slow client is still reading the reply
        transport.abort()


class _DiscardingProtocol(asyncio.Protocol):
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
