"""The turn to change the configuration of all workers: one of them has it at a time.

It is a lock that the kernel takes from a process which dies. POSIX locks belong to processes, so
that workers do not share one although they inherited the same file (fcntl(2)).
"""

import asyncio
import fcntl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ie_serving.core.errors import NotAvailable

ASK_S: Final = 0.02
"""Seconds between two questions whether the turn is free: the kernel tells nobody. Changes take
longer, and one that waits is rare."""
LONGEST_S: Final = 600.0
"""Seconds that a change waits for its turn: others load models meanwhile."""


class Turn:
    """Lives on one event loop of each worker.

    Args of the constructor:
        file: the one that all workers have.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._here = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Have the turn meanwhile.

        Raises:
            NotAvailable: others have had it for too long.
        """
        async with self._here:
            await self._take()
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    async def _take(self) -> None:
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    raise NotAvailable(
                        "another change of the configuration is under way; ask again later"
                    ) from None
                await asyncio.sleep(ASK_S)
            else:
                return
