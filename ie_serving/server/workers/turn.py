"""The configuration lock: only one worker at a time changes the configuration of all.

The kernel releases the lock when its process dies. POSIX locks belong to processes, so workers do
not share a lock although they have inherited the same file (fcntl(2)).
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
"""Seconds between two tries to get the lock: the kernel does not notify. Changes take longer, and
rarely does one wait."""
LONGEST_S: Final = 600.0
"""Seconds that a change waits for the lock while others load models; then it fails."""


class Turn:
    """The lock. Lives on one event loop of each worker.

    Args of the constructor:
        file: shared by all workers.
        check: raises NotAvailable if the process that holds the lock is stopped or hangs.
    """

    def __init__(self, file: int, check: Callable[[int], None]) -> None:
        self._file = file
        self._check = check
        self._here = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold the lock during the body.

        Raises:
            NotAvailable: the holder is stopped or hangs, or holds the lock for too long.
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
    """Return the process that holds the lock; 0 if none does any more."""
    asked = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, *_, pid = struct.unpack(_LOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return 0 if kind == fcntl.F_UNLCK else int(pid)
