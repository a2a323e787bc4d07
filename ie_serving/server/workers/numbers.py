"""Whole numbers that the arbiter and all workers share, one or more for each slot."""

import mmap

_BYTES = 8


class Numbers:
    """A row of signed 64-bit numbers. Each has one writer at a time, and any number of readers."""

    def __init__(self, size: int, first: int = 0) -> None:
        # Anonymous and shared, so processes that fork later have the same pages, not copies.
        self._pages = mmap.mmap(-1, size * _BYTES)
        # Stores of an aligned word are atomic: a reader sees the old number or the new one.
        self._cells = memoryview(self._pages).cast("q")
        for each in range(size):
            self._cells[each] = first

    def __getitem__(self, place: int) -> int:
        return self._cells[place]

    def __setitem__(self, place: int, number: int) -> None:
        self._cells[place] = number

    def __len__(self) -> int:
        return len(self._cells)

    def all(self) -> list[int]:
        """Return all numbers, in order."""
        return self._cells.tolist()
