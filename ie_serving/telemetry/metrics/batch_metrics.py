"""Metrics of the batches of a model."""

import threading
from collections.abc import Iterator, Sequence
from typing import Protocol
from weakref import WeakSet

from ie_serving.telemetry.metrics.text import EVERY_SECOND, Histogram, counters, family

BATCHES = "ie_serving_batches_total"
BATCHES_APART = "ie_serving_batches_apart_total"
BATCH_ROWS = "ie_serving_batch_rows"
BATCH_QUEUE = "ie_serving_batch_queue_seconds"
BATCH_WAITING = "ie_serving_batch_waiting_rows"

ROW_BOUNDS = tuple(float(2**power) for power in range(13))
"""Upper bounds of the finite buckets: 1 to 4,096 rows."""

PADDING_BOUNDS = (0.0, *ROW_BOUNDS)

ALONE = "lane_free"
"""Reason of a request that is sent at once, alone: a lane was free."""


class RequestBatcher(Protocol):
    """Batches requests for one signature of one version."""

    @property
    def waiting(self) -> int:
        """Rows that are waiting now."""

    @property
    def sizes(self) -> Sequence[int]:
        """Sizes that batches are filled up to; empty if they are not."""


class BatchMetrics:
    """The series of one model's batches.

    Attributes:
        reasons: batches by the reason for sending them; lone requests included after `settle`.
        failed: batches whose requests were tried again in smaller ones.
        rows: rows of each batch, before padding; complete after `settle`.
        processed: the same with padding.
        padding: rows that were added, by the size that batches were filled up to.
        queue_time: seconds that each request waited in the queue.
        sizes: sizes to which batches are filled up; empty if they are not.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, int] = {}
        self.failed = 0
        self.rows = Histogram(ROW_BOUNDS)
        self.processed = Histogram(ROW_BOUNDS)
        self.padding: dict[int, Histogram] = {}
        self.queue_time = Histogram()
        self.sizes: Sequence[int] = ()
        self._alone: dict[int, int] = {}
        self._gathered: dict[int, int] = {}
        # Weak references: the queues are freed with their versions.
        self._queues: WeakSet[RequestBatcher] = WeakSet()
        self._lock = threading.Lock()

    def watch(self, queue: RequestBatcher) -> None:
        """Include the queue's waiting rows in the page. Called in the thread of a load."""
        self.sizes = queue.sizes
        with self._lock:
            self._queues.add(queue)

    @property
    def waiting(self) -> int:
        """Rows that are waiting now to be sent in a batch."""
        with self._lock:
            return sum(queue.waiting for queue in self._queues)

    def alone(self, rows: int) -> None:
        """Count a request that was sent at once, alone."""
        # Minimal work, since every lone request does it; sorted into series when the page is read.
        self._alone[rows] = self._alone.get(rows, 0) + 1

    def batch(self, reason: str, rows: int, waited_us: Sequence[float]) -> None:
        """Count a batch, with the microseconds that each of its requests has waited."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self._gathered[rows] = self._gathered.get(rows, 0) + 1
        self.queue_time.add_all([each / 1e6 for each in waited_us])

    def apart(self) -> None:
        """Count a batch that failed."""
        self.failed += 1

    def settle(self) -> None:
        """Move all new counts into the series."""
        for times in self._alone.values():
            self.reasons[ALONE] = self.reasons.get(ALONE, 0) + times
            self.queue_time.add(0.0, times)
        for numbers in (self._alone, self._gathered):
            for rows, times in numbers.items():
                size = next((size for size in self.sizes if size >= rows), rows)
                self.rows.add(rows, times)
                self.processed.add(size, times)
                if self.sizes:
                    self._padding(size).add(size - rows, times)
            numbers.clear()

    def include(self, other: "BatchMetrics") -> None:
        """Add the series of another model."""
        other.settle()
        for reason, number in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + number
        self.rows.include(other.rows)
        self.processed.include(other.processed)
        self.queue_time.include(other.queue_time)
        for size, padding in other.padding.items():
            self._padding(size).include(padding)

    def _padding(self, size: int) -> Histogram:
        return self.padding.setdefault(size, Histogram(PADDING_BOUNDS))


Labelled = Sequence[tuple[str, BatchMetrics]]
"""The formatted label of a model's name, and its batches."""


def batch_lines(models: Labelled) -> Iterator[str]:
    """Yield the samples of all models that batch requests; none before the first batch."""
    for _, batches in models:
        batches.settle()
    seen = [(label, batches) for label, batches in models if batches.reasons]
    yield from counters(
        BATCHES,
        "Batches by why each was sent with the rows it had.",
        "reason",
        [(label, batches.reasons) for label, batches in seen],
    )
    yield from family(
        BATCH_ROWS,
        "histogram",
        "Rows of each batch, before it is filled up.",
        (line for label, batches in seen for line in batches.rows.lines(BATCH_ROWS, label)),
    )
    yield from family(
        BATCH_QUEUE,
        "histogram",
        "Seconds that each request was gathered for.",
        (
            line
            for label, batches in seen
            for line in batches.queue_time.lines(BATCH_QUEUE, label, shown=EVERY_SECOND)
        ),
    )
    yield from family(
        BATCH_WAITING,
        "gauge",
        "Rows that wait to be sent in a batch.",
        (f"{BATCH_WAITING}{{{label}}} {batches.waiting}" for label, batches in seen),
    )
    # Written from the first batch on, though 0: if a counter appears with its first event,
    # Prometheus sees no increase.
    yield from family(
        BATCHES_APART,
        "counter",
        "Batches that failed, whose requests were inferred again in halves.",
        (f"{BATCHES_APART}{{{label}}} {batches.failed}" for label, batches in seen),
    )
