"""How long the inferences of one version took, and how long they waited for an infer request.

All programs of a version write into one record, which the loader of the version creates
(`recording`) and keeps. The record is not passed through engines and layers, since none of them
uses it.
"""

from collections.abc import Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol
from weakref import WeakSet

from ie_serving.telemetry.metrics.text import SETTLED_AT, Durations, Histogram


class DurationSink(Protocol):
    """Receives the seconds of inferences; an array is one."""

    def append(self, seconds: float, /) -> None:
        """Add the seconds of one inference."""

    def __len__(self) -> int: ...


class RequestPool(Protocol):
    """Lends infer requests; `engines.run.infer_request.Pool` is one."""

    size: int

    @property
    def free(self) -> Sized:
        """Those that are not lent."""


class Inferences:
    """The record of one version. Belongs to one event loop.

    Attributes:
        pools: pools of its infer requests; weak, since the engine frees them.
        streams: inferences that the device computes side by side; 0 if it does not tell.
        ran: seconds of each inference, a batch counting as one; `Program` appends to it directly.
        waiting: inferences that are waiting for an infer request or a thread.
    """

    def __init__(self) -> None:
        self._durations = Durations()
        self._waits = Durations()
        self.ran: DurationSink = self._durations.noted
        self.waiting = 0
        self.pools: WeakSet[RequestPool] = WeakSet()
        self.streams = 0

    @property
    def requests(self) -> int:
        """Infer requests of all signatures; 0 if the engine has none."""
        return sum(pool.size for pool in self.pools)

    @property
    def running(self) -> int:
        """Infer requests that are lent now."""
        return sum(pool.size - len(pool.free) for pool in self.pools)

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
    def mark(self) -> tuple[int, int]:
        """Of the times and waits that are not sorted into buckets yet; for `forget_from`."""
        return len(self._durations.noted), len(self._waits.noted)

    def forget_from(self, mark: tuple[int, int]) -> None:
        """Discard the inference after the mark, which was not for clients, if it is the only one.

        Several may be those of clients, which are not told apart: all are kept.
        """
        durations, waits = mark
        if len(self._durations.noted) == durations + 1:
            del self._durations.noted[durations:]
            del self._waits.noted[waits:]

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
