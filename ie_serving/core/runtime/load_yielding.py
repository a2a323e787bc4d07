"""How a load gives way to requests, between its steps in Python.

While a load computes in Python, the event loop has to ask for the interpreter after every wait:
some six times for a request. Each time costs the request two wake-ups, and the rest of what the
load does without letting go. So a load that was interrupted, or that has done what holds the
interpreter for long, leaves it to others for about as long as a request takes. That is done where
a load leaves a CPU to the event loop (`core/runtime/spare_cpu.py`), and nowhere else.
"""

import threading
import time
from collections.abc import Iterator
from typing import Final, TypeVar

from ie_serving.core.runtime.spare_cpu import SPARE_CPU

T = TypeVar("T")

INTERRUPTED_S: Final = 0.0001
"""Seconds of one step above which the load was interrupted, most likely; most steps take a tenth of
that. Where a step takes that long by itself, it has held the interpreter for as long."""
AWAY_S: Final = 0.001
"""Seconds at least for which a load leaves the interpreter to others; by the timer slack of a
thread that loads the kernel makes it two milliseconds at most."""
AT_WORK_S: Final = 0.002
"""Seconds at least between two such times of a thread, so that a load comes to its end on a busy
server: it is away for half of the time at most."""


class _Due(threading.local):
    """When this thread may give way again, by `time.perf_counter`."""

    at = 0.0


_due = _Due()


def give_way() -> None:
    """Leave the interpreter to requests for a moment, in a thread that loads; not all the time."""
    if SPARE_CPU.this_thread_loads and time.perf_counter() >= _due.at:
        time.sleep(AWAY_S)
        _due.at = time.perf_counter() + AT_WORK_S


class Steps(list[T]):
    """A list whose readers give way after a step in which they were interrupted. For any thread."""

    def __iter__(self) -> Iterator[T]:
        """Give each element; what the reader does with it is a step."""
        for each in super().__iter__():
            began = time.perf_counter()
            yield each
            if time.perf_counter() - began > INTERRUPTED_S:
                give_way()
