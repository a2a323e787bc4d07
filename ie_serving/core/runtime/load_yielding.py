"""Makes a load yield the interpreter to requests between its Python steps.

While a load computes in Python, the event loop has to reacquire the interpreter after every wait:
some six times for a request. Each time costs the request two wake-ups, and the time for which the
load keeps the interpreter. So a load that was interrupted, or that has held the interpreter for
long, leaves it to other threads for about as long as a request takes. This is done only if the load
leaves a CPU to the event loop (`core/runtime/spare_cpu.py`).
"""

import threading
import time
from collections.abc import Iterator
from typing import Final, TypeVar

from ie_serving.core.runtime.spare_cpu import SPARE_CPU

T = TypeVar("T")

INTERRUPTED_S: Final = 0.0001
"""Seconds of one step above which the load was most likely interrupted; most steps take a tenth of
that. A step that really takes that long has held the interpreter for as long."""
AWAY_S: Final = 0.001
"""Least seconds for which a load leaves the interpreter to others; with the timer slack of a
loading thread these become two milliseconds at most."""
AT_WORK_S: Final = 0.002
"""Least seconds between two such pauses of a thread, so that a load makes progress on a busy
server: it pauses for half of the time at most."""


class _Due(threading.local):
    """Time from which this thread may yield again, by `time.perf_counter`."""

    at = 0.0


_due = _Due()


def give_way() -> None:
    """Leave the interpreter to requests for a moment, in a loading thread; not all the time."""
    if SPARE_CPU.this_thread_loads and time.perf_counter() >= _due.at:
        time.sleep(AWAY_S)
        _due.at = time.perf_counter() + AT_WORK_S


class Steps(list[T]):
    """A list whose readers yield after a step in which they were interrupted. For any thread."""

    def __iter__(self) -> Iterator[T]:
        """Yield each element; the reader's work on an element is a step."""
        for each in super().__iter__():
            began = time.perf_counter()
            yield each
            if time.perf_counter() - began > INTERRUPTED_S:
                give_way()
