"""A number that the arbiter and its workers share."""

import mmap


class Shared:
    """A number below 256, at first 0, in one page of memory."""

    def __init__(self) -> None:
        # Anonymous and shared, so a process that forks later has the same page, not a copy.
        self._page = mmap.mmap(-1, 1)

    def set(self, number: int = 1) -> None:
        """Set it, for every process that shares it."""
        self._page[0] = number

    def get(self) -> int:
        """Return the number that a process has set last."""
        # One byte is read and written whole, so no lock is needed between processes.
        return self._page[0]
