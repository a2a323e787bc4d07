"""How long the inferences of one version took, and how long they waited for their turn.

Every program of a version notes into the same record, which whoever loads the version begins
(`recording`) and keeps. A record is not handed through engines and layers: none of them would do
anything with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from ie_serving.telemetry.metrics.histogram import SETTLED_AT, Durations, Histogram


class Ran(Protocol):
    """What seconds of inferences are appended to; an array is one."""

    def append(self, seconds: float, /) -> None:
        """Take those of one inference."""

    def __len__(self) -> int: ...


class Inferences:
    """The record of one version. Belongs to one event loop.

    Attributes:
        ran: seconds of each inference alone, a batch being one; `Program` appends to it in place.
        waiting: inferences that wait for an infer request or a thread now.
    """

    def __init__(self) -> None:
        self._durations = Durations()
        self._waits = Durations()
        self.ran: Ran = self._durations.noted
        self.waiting = 0

    def waited(self, seconds: float) -> None:
        """Note that an inference has waited, and sort what has piled up into the buckets.

        Of those that have not waited nothing need be noted, as long as this is called when `ran`
        is long.
        """
        if seconds:
            self._waits.noted.append(seconds)
        for each in (self._durations, self._waits):
            if len(each.noted) >= SETTLED_AT:
                each.settle()

    def forget(self) -> None:
        """Begin anew: what was inferred until now was no client's."""
        self._durations.forget()
        self._waits.forget()

    @property
    def durations(self) -> Histogram:
        """Give the times of the inferences."""
        return self._durations.settle()

    @property
    def waits(self) -> Histogram:
        """Give the times that all of them have waited, 0 for most."""
        found = Histogram()
        found.include(self._waits.settle())
        found.add(0.0, max(0, len(self.durations) - len(found)))
        return found


_record: ContextVar[Inferences | None] = ContextVar("_record", default=None)


@contextmanager
def recording(record: Inferences) -> Iterator[None]:
    """Let the programs that the body makes, in this thread, note into `record`."""
    token = _record.set(record)
    try:
        yield
    finally:
        _record.reset(token)


def current() -> Inferences:
    """Give the record of the version that is loaded in this thread; one of its own elsewhere."""
    return _record.get() or Inferences()
