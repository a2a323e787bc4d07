"""What became of a model's requests where they are gathered into batches."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

BATCHES = ":ie_serving:batches"
BATCHES_APART = ":ie_serving:batches_apart"
BATCH_ROWS = ":ie_serving:batch_rows"
BATCH_QUEUE_TIME = ":ie_serving:batch_queue_time"
BATCH_PROBES = ":ie_serving:batch_probes"

ROW_BOUNDS = tuple(float(2**power) for power in range(13))
"""Upper bounds of the finite buckets: 1 to 4,096 rows."""

ALONE = "lane_free"
"""Reason of a request that goes at once: a lane was free."""


class Histogram:
    """Numbers by bucket, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a number, so many times."""
        self._buckets[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Yield the samples; `labels` stand before `le`."""
        total = 0
        ends = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for bound, count in zip(ends, self._buckets, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum:.15g}"
        yield f"{name}_count{{{labels}}} {total}"


class BatchMetrics:
    """The series of one model's batches; see `engines.layers.queue.Record`.

    Args of the constructor:
        time_bounds: upper bounds of the buckets of times, in microseconds.

    Attributes:
        reasons: batches by why they were sent; of lone requests, after `settle`.
        failed: batches whose requests were tried again in smaller ones.
        rows: of each batch, before it is filled up.
        queue_time: microseconds that each request was gathered for.
        probes: of other windows, by how they ended.
    """

    def __init__(self, time_bounds: Sequence[float]) -> None:
        self.reasons: dict[str, int] = {}
        self.failed = 0
        self.probes: dict[str, int] = {}
        self.rows = Histogram(ROW_BOUNDS)
        self.queue_time = Histogram(time_bounds)
        self._alone: dict[int, int] = {}

    def alone(self, rows: int) -> None:
        """Count a request that went at once, by itself."""
        # Here only this, sorted into the series when the page is read: every lone request pays.
        self._alone[rows] = self._alone.get(rows, 0) + 1

    def batch(self, reason: str, rows: int, waited_us: Sequence[float]) -> None:
        """Count a batch, with the microseconds that each of its requests has waited."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.rows.add(rows)
        for each in waited_us:
            self.queue_time.add(each)

    def apart(self) -> None:
        """Count a batch that failed."""
        self.failed += 1

    def tuned(self, verdict: str) -> None:
        """Count a probe of another window, by how it ended."""
        self.probes[verdict] = self.probes.get(verdict, 0) + 1

    def settle(self) -> None:
        """Bring everything that was counted into the series."""
        for rows, times in self._alone.items():
            self.reasons[ALONE] = self.reasons.get(ALONE, 0) + times
            self.rows.add(rows, times)
            self.queue_time.add(0.0, times)
        self._alone.clear()


Labelled = Sequence[tuple[str, BatchMetrics]]
"""The label of a model's name, as it is written, and its batches."""


def batch_lines(models: Labelled) -> Iterator[str]:
    """Yield the samples of all models that gather requests, none before the first batch."""
    for _, batches in models:
        batches.settle()
    seen = [(label, batches) for label, batches in models if batches.reasons]
    if not seen:
        return
    yield f"# TYPE {BATCHES} counter"
    for label, batches in seen:
        for reason, number in batches.reasons.items():
            yield f'{BATCHES}{{{label},reason="{reason}"}} {number}'
    yield f"# TYPE {BATCH_ROWS} histogram"
    for label, batches in seen:
        yield from batches.rows.lines(BATCH_ROWS, label)
    yield f"# TYPE {BATCH_QUEUE_TIME} histogram"
    for label, batches in seen:
        yield from batches.queue_time.lines(BATCH_QUEUE_TIME, label)
    yield f"# TYPE {BATCHES_APART} counter"
    for label, batches in seen:
        yield f"{BATCHES_APART}{{{label}}} {batches.failed}"
    yield from _probes(seen)


def _probes(models: Labelled) -> Iterator[str]:
    found = [(label, batches.probes) for label, batches in models if batches.probes]
    if found:
        yield f"# TYPE {BATCH_PROBES} counter"
    for label, probes in found:
        for verdict, number in probes.items():
            yield f'{BATCH_PROBES}{{{label},verdict="{verdict}"}} {number}'
