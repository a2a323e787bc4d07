"""Metrics of the worker process: its event loop, memory, connections, garbage collections.

Metrics that Prometheus's client libraries have for every Python process have the same names here.
"""

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from typing import Final, Protocol

from ie_serving.core.runtime.budget import BUDGET, Budget
from ie_serving.core.runtime.heaps import resident_bytes
from ie_serving.telemetry.metrics.text import Histogram, family, sample

LOOP_LAG = "ie_serving_event_loop_lag_seconds"
CONNECTIONS = "ie_serving_connections"
CONNECTIONS_CLOSED = "ie_serving_connections_closed_total"
BUDGET_HELD = "ie_serving_memory_budget_held_bytes"
BUDGET_LIMIT = "ie_serving_memory_budget_limit_bytes"
GC_COLLECTIONS = "python_gc_collections_total"
GC_COLLECTED = "python_gc_objects_collected_total"
CPU = "process_cpu_seconds_total"
RESIDENT = "process_resident_memory_bytes"
OPEN_FILES = "process_open_fds"
STARTED = "process_start_time_seconds"

LOOK_S: Final = 0.5
"""Seconds between two measurements of the event loop's lag; each wakes it, and takes some 10 us."""
LAG_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds. The timers of the loop are accurate to a millisecond."""


class Connections(Protocol):
    """Counts the open connections; `server.transport.connection_limit` does."""

    @property
    def count(self) -> int:
        """Number of open connections."""

    @property
    def ended(self) -> tuple[int, int]:
        """Numbers of idle connections closed, and of new ones refused, since the start."""


class LoopLag:
    """Lag of the event loop: how much later than requested it calls back."""

    def __init__(self) -> None:
        self.late = Histogram(LAG_BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start measuring; on the event loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOOK_S, self._look, loop.time() + LOOK_S)

    def end(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due: float) -> None:
        self.late.add(max(0.0, asyncio.get_running_loop().time() - due))
        self.begin()


class ProcessMetrics:
    """The series of this worker.

    Args of the constructor:
        connections: connections of both ports.
        budget: budget of the memory of requests.
        wanted: whether there is a page that shows them.
    """

    def __init__(
        self, connections: Connections, budget: Budget = BUDGET, *, wanted: bool = True
    ) -> None:
        self.lag = LoopLag()
        self._wanted = wanted
        self._connections = connections
        self._budget = budget
        self._started = time.time()

    def begin(self) -> None:
        """Start measurements that need time between two pages; on the event loop."""
        if self._wanted:
            self.lag.begin()

    def end(self) -> None:
        """Stop measuring."""
        self.lag.end()

    def lines(self) -> Iterator[str]:
        """Yield the samples."""
        yield from family(
            LOOP_LAG,
            "histogram",
            "Seconds by which the event loop calls back later than asked for.",
            self.late_lines(),
        )
        yield from self._of_connections()
        held, limit = "Bytes that requests hold.", "Bytes that requests may hold."
        yield from _one(BUDGET_HELD, "gauge", held, self._budget.held)
        yield from _one(BUDGET_LIMIT, "gauge", limit, self._budget.limit)
        yield from _collections()
        # The time is that of all threads, those of the engine included, as in client libraries.
        cpu = "Processor time of user and system in seconds."
        yield from _one(CPU, "counter", cpu, time.process_time())
        yield from _one(RESIDENT, "gauge", "Resident memory in bytes.", resident_bytes())
        yield from _one(OPEN_FILES, "gauge", "Open file descriptors.", _open_files())
        since = "Start of the worker in seconds since the epoch."
        yield from _one(STARTED, "gauge", since, self._started)

    def late_lines(self) -> Iterator[str]:
        """Yield the samples of the event loop."""
        return self.lag.late.lines(LOOP_LAG, "") if len(self.lag.late) else iter(())

    def _of_connections(self) -> Iterator[str]:
        yield from _one(CONNECTIONS, "gauge", "Open connections.", self._connections.count)
        idle, refused = self._connections.ended
        yield from family(
            CONNECTIONS_CLOSED,
            "counter",
            "Connections closed since there were too many.",
            (
                sample(CONNECTIONS_CLOSED, number, reason=reason)
                for reason, number in (("idle", idle), ("refused", refused))
            ),
        )


def _one(name: str, kind: str, meaning: str, value: float) -> Iterator[str]:
    return family(name, kind, meaning, [sample(name, value)])


def _collections() -> Iterator[str]:
    stats = list(enumerate(gc.get_stats()))
    for name, field, meaning in (
        (GC_COLLECTIONS, "collections", "Garbage collections by generation."),
        (GC_COLLECTED, "collected", "Objects that garbage collections have freed."),
    ):
        found = [sample(name, each[field], generation=str(number)) for number, each in stats]
        yield from family(name, "counter", meaning, found)


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:  # another system than Linux
        return 0
