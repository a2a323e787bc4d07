"""How long the inferences of one version took, and how long they waited for an infer request.

All programs of a version write into one record, which the loader of the version creates
(`recording`) and keeps. The record is not passed through engines and layers, since none of them
uses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from ie_serving.telemetry.metrics.histogram import SETTLED_AT, Durations, Histogram


class Ran(Protocol):
    """Receives the seconds of inferences; an array is one."""

    def append(self, seconds: float, /) -> None:
        """Add the seconds of one inference."""

    def __len__(self) -> int: ...


class Inferences:
    """The record of one version. Belongs to one event loop.

    Attributes:
        ran: seconds of each inference, a batch counting as one; `Program` appends to it directly.
        waiting: inferences that are waiting for an infer request or a thread.
    """

    def __init__(self) -> None:
        self._durations = Durations()
        self._waits = Durations()
        self.ran: Ran = self._durations.noted
        self.waiting = 0

    def waited(self, seconds: float) -> None:
        """Record that an inference has waited, and sort the pending times into the buckets.

        Inferences that did not wait need no record, as long as this is called when `ran` is long.
        """
        if seconds:
            self._waits.noted.append(seconds)
        for each in (self._durations, self._waits):
            if len(each.noted) >= SETTLED_AT:
                each.settle()

    def forget(self) -> None:
        """Discard all counts: inferences until now were not for clients."""
        self._durations.forget()
        self._waits.forget()

    @property
    def durations(self) -> Histogram:
        """Return the times of the inferences."""
        return self._durations.settle()

    @property
    def waits(self) -> Histogram:
        """Return the waits of all inferences, 0 for most."""
        found = Histogram()
        found.include(self._waits.settle())
        found.add(0.0, max(0, len(self.durations) - len(found)))
        return found


_record: ContextVar[Inferences | None] = ContextVar("_record", default=None)


@contextmanager
def recording(record: Inferences) -> Iterator[None]:
    """Make the programs that the body creates, in this thread, write into `record`."""
    token = _record.set(record)
    try:
        yield
    finally:
        _record.reset(token)


def current() -> Inferences:
    """Return the record of the version being loaded in this thread; elsewhere, a new record."""
    return _record.get() or Inferences()
