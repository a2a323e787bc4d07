"""Replies of one turn of the event loop are written together, so that a busy client wakes once.

To wake a process that sleeps costs the sender more than the write itself. So replies are held until
the turn ends, or until there are several, or until the first has waited long.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

MOST_HELD: Final = 5
"""Replies that are held; the fifth is written at once, with those before it. With more, client and
server would take turns instead of working side by side."""
LONGEST_HELD_S: Final = 0.0005
"""Seconds that a reply may wait for others; the next one then writes both. About what a few small
inferences take."""


class Outbox:
    """What is to be written soon. Belongs to one event loop.

    Args of the constructor:
        now: gives the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._held: list[tuple[asyncio.Transport, bytes | bytearray | memoryview]] = []
        self._since = 0.0

    def send(self, transport: asyncio.Transport, data: bytes | bytearray | memoryview) -> None:
        """Write `data` soon. Whatever is written past this box afterwards needs a `flush`."""
        held = self._held
        if not held:
            self._since = self._now()
            self._loop.call_soon(self.flush)
        held.append((transport, data))
        if len(held) >= MOST_HELD or self._now() - self._since > LONGEST_HELD_S:
            self.flush()

    def flush(self) -> None:
        """Write everything now."""
        held, self._held = self._held, []
        for transport, data in held:
            if not transport.is_closing():
                transport.write(data)
