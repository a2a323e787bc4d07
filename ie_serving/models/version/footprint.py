"""How much memory a version takes: what its load has added to this process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ie_serving.core.runtime.heaps import resident_bytes


class Footprint:
    """What one load has added.

    Attributes:
        size: bytes that were resident after the load and not before it. None where that is not
            known: the load has not ended, or another one was under way meanwhile. Large requests
            that come and go meanwhile count as well.
    """

    size: int | None = None


class Loads:
    """Measures the loads of this process, one at a time. Any thread may use it."""

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self._resident = resident
        self._lock = threading.Lock()
        self._under_way = 0
        self._begun = 0

    @contextmanager
    def measured(self) -> Iterator[Footprint]:
        """Measure the body, unless another one is under way."""
        footprint = Footprint()
        # Resident memory is of the whole process: of two loads at once nobody knows whose it is.
        # One that begins and ends meanwhile shows only in the number of those that have begun.
        with self._lock:
            alone = not self._under_way
            self._under_way += 1
            self._begun += 1
            own = self._begun
        before = self._resident()
        try:
            yield footprint
            added = self._resident() - before
        finally:
            with self._lock:
                self._under_way -= 1
                alone = alone and own == self._begun
        if alone and before:
            # It may be less than before: what an older version had freed was given back meanwhile.
            footprint.size = max(0, added)


LOADS: Final = Loads()
"""Of this process."""
FREES: Final = Loads(lambda: -resident_bytes())
"""Of versions of this process: the size of one is what it has given back."""
