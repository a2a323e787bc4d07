"""How a load gives way to requests, between its steps in Python.

A thread that loads has the interpreter in turns with the event loop, which asks for it anew after
every wait: some six times for a request. Each time costs the request two wake-ups, and the rest of
what the load does without letting go. So a load that finds that it was interrupted, or that may
have held up a request for long, stays away for about as long as a request takes.
"""

import time
from collections.abc import Iterator
from typing import Final, TypeVar

from ie_serving.core.spare_cpu import SPARE_CPU

T = TypeVar("T")

INTERRUPTED_S: Final = 0.0001
"""Seconds of one step above which the interpreter was most likely somebody else's meanwhile."""
AWAY_S: Final = 0.001
"""Seconds for which a load then leaves the interpreter to others."""
AT_WORK_S: Final = 0.002
"""Seconds at least between two such times, so that a load comes to its end on a busy server."""


def give_way() -> None:
    """Leave the interpreter to requests for a moment, in a thread that loads beside some."""
    if SPARE_CPU.is_left_by_me:
        time.sleep(AWAY_S)


class Steps(list[T]):
    """A list whose readers give way between two elements. For any thread."""

    def __iter__(self) -> Iterator[T]:
        """Give each element."""
        began = due = time.perf_counter()
        for each in super().__iter__():
            yield each
            now = time.perf_counter()
            if now - began > INTERRUPTED_S and now > due:
                give_way()
                now = time.perf_counter()
                due = now + AT_WORK_S
            began = now
