"""The turn to change the configuration of all workers: one of them has it at a time.

It is a lock that the kernel takes from a process which dies. POSIX locks belong to processes, so
that workers do not share one although they inherited the same file (fcntl(2)).
"""

import asyncio
import fcntl
import os
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ie_serving.core.values.errors import NotAvailable

ASK_S: Final = 0.02
"""Seconds between two questions whether the turn is free: the kernel tells nobody. Changes take
longer, and one that waits is rare."""
LONGEST_S: Final = 600.0
"""Seconds that a change waits for its turn: others load models meanwhile."""


class Turn:
    """Lives on one event loop of each worker.

    Args of the constructor:
        file: the one that all workers have.
        check: raises NotAvailable where the process that has the turn is stopped or hangs.
    """

    def __init__(self, file: int, check: Callable[[int], None]) -> None:
        self._file = file
        self._check = check
        self._here = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Have the turn meanwhile.

        Raises:
            NotAvailable: another one is stopped or hangs while it has it, or has it for too long.
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
                holder = _holder(self._file)
                self._check(holder)
                if time.monotonic() > until:
                    raise NotAvailable(
                        f"worker process {holder} has made another change for {LONGEST_S:g} s, and"
                        " is not done; ask again later"
                    ) from None
                await asyncio.sleep(ASK_S)
            else:
                return


_LOCK: Final = "hhlli"
"""`struct flock` of fcntl(2): type, whence, start, length, pid."""


def _holder(file: int) -> int:
    """Give the process that has the lock; 0 where nobody has it any more."""
    asked = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, pid = struct.unpack(_LOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(pid)
