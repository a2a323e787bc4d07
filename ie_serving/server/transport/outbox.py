"""Writes the replies of one turn of the event loop together, so that a busy client wakes once.

Waking a sleeping process costs the sender more than the write itself. So replies are held until the
turn ends, or until there are several, or until the first has waited long.
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
