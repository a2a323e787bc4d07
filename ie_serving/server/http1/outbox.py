"""Replies that wait for each other, so that a busy client is woken once for several.

To wake a process that sleeps costs the sender more than the write itself. What one turn of the
event loop answers is therefore written together: when the turn ends, or sooner when there is much
or the first has waited long.
"""

import asyncio
import time
from typing import Final

MOST_HELD: Final = 5
"""Replies; with more, server and client would take turns instead of working side by side."""
LONGEST_HELD_S: Final = 0.0005


class Outbox:
    """What is to be written soon. Belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._held: list[tuple[asyncio.Transport, bytes]] = []
        self._since = 0.0

    def send(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write `data` soon. Whatever is written past this box afterwards needs a `flush`."""
        held = self._held
        if not held:
            self._since = time.monotonic()
            self._loop.call_soon(self.flush)
        held.append((transport, data))
        if len(held) >= MOST_HELD or time.monotonic() - self._since > LONGEST_HELD_S:
            self.flush()

    def flush(self) -> None:
        """Write everything now."""
        held, self._held = self._held, []
        for transport, data in held:
            if not transport.is_closing():
                transport.write(data)
