"""Writes the text format of Prometheus, version 0.0.4: families of samples, and histograms."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

CONTENT_TYPE = "text/plain"
"""Content type of the page in TensorFlow Serving."""

MICROSECONDS: Final = 1e6
"""Factor that converts a duration to microseconds."""
ALL: Final = slice(None)
EVERY_SECOND: Final = slice(0, None, 2)
"""Buckets that our own histograms of durations show: 17 of the 33, since more would make the page
of a thousand models too large."""
SETTLED_AT: Final = 256
"""Durations that are gathered before they are sorted into buckets: together they cost a third of
what they would cost one by one, and 20 us at a time."""


def family(name: str, kind: str, meaning: str, samples: Iterable[str]) -> Iterator[str]:
    """Yield a family with its meaning; nothing if it has no samples.

    Args:
        name: name of the metric.
        kind: `counter`, `gauge` or `histogram`.
        meaning: one line for readers of the page.
        samples: their lines.
    """
    # A list of the lines of a thousand models would block the event loop too long.
    for number, line in enumerate(samples):
        if not number:
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
        yield line


def counters(
    name: str, meaning: str, label: str, found: Iterable[tuple[str, Mapping[str, int]]]
) -> Iterator[str]:
    """Yield a family of counters that differ in one label.

    Args:
        name: name of the metric.
        meaning: one line for readers of the page.
        label: its name; its values are the server's own words, which need no escape.
        found: the samples' other labels, as `written` returns them, and their numbers by the value
            of `label`.
    """
    samples = (
        f'{name}{{{common},{label}="{value}"}} {number}'
        for common, numbers in found
        # Counts may change between two lines of the page.
        for value, number in list(numbers.items())
    )
    yield from family(name, "counter", meaning, samples)


def sample(name: str, value: float, /, **labels: str) -> str:
    """Write one sample."""
    return f"{name}{{{written(**labels)}}} {value:.15g}" if labels else f"{name} {value:.15g}"


def written(**labels: str) -> str:
    """Write labels."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def chosen(page: bytes, families: Collection[str]) -> bytes:
    """Return the lines of the families whose names begin with one of `families`."""
    begins = tuple(each.encode() for each in families)
    lines = page.splitlines(keepends=True)
    return b"".join(line for line in lines if _name(line).startswith(begins))


def _name(line: bytes) -> bytes:
    return line[len(b"# TYPE ") :] if line.startswith(b"# ") else line


def escape(value: str) -> str:
    """Escape a label value. TF Serving leaves newlines, which break its page; we escape them."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


BOUNDS_US: Final = tuple(10 * 1.8**power for power in range(33))
"""Upper bounds of the finite buckets of durations in microseconds: 10 us to 1,475 s, as in
TensorFlow Serving, so that its dashboards and alerts work."""
BOUNDS: Final = tuple(bound / 1e6 for bound in BOUNDS_US)
"""Bounds in seconds."""


class Histogram:
    """Numbers by bucket, and their sum. Belongs to one thread.

    Args of the constructor:
        bounds: upper bounds of the finite buckets; by default those of durations in seconds.
    """

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def __len__(self) -> int:
        return sum(self._buckets)

    @property
    def sum(self) -> float:
        """Sum of the numbers."""
        return self._sum

    def add(self, value: float, times: int = 1) -> None:
        """Count a number `times` times."""
        self._buckets[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def add_all(self, values: Sequence[float]) -> None:
        """Count numbers together, which is cheaper than one by one."""
        # Both are sorted, so the search for each bound begins where the last one ended.
        ordered = sorted(values)
        before = 0
        for index, bound in enumerate(self._bounds):
            end = bisect_right(ordered, bound, before)
            self._buckets[index] += end - before
            before = end
            if end == len(ordered):
                break
        self._buckets[-1] += len(ordered) - before
        self._sum += sum(ordered)

    def include(self, other: "Histogram") -> None:
        """Add the counts of another histogram with the same bounds."""
        self._buckets = [a + b for a, b in zip(self._buckets, other._buckets, strict=True)]
        self._sum += other._sum

    def lines(
        self,
        name: str,
        labels: str,
        unit: float = 1.0,
        shown: slice = ALL,
        words: Sequence[str] = (),
    ) -> Iterator[str]:
        """Yield the samples.

        Args:
            name: name of the metric.
            labels: written before `le`.
            unit: factor for bounds and sum.
            shown: the finite buckets that are shown.
            words: the finite bounds as text; empty for six digits.
        """
        # Copied before the first line: requests go on meanwhile, and buckets must not descend.
        totals = list(accumulate(self._buckets))
        written = words or _written(tuple(self._bounds), unit)
        before = f"{labels}," if labels else ""
        for bound, count in zip(written[shown], totals[:-1][shown], strict=True):
            yield f'{name}_bucket{{{before}le="{bound}"}} {count}'
        yield f'{name}_bucket{{{before}le="+Inf"}} {totals[-1]}'
        yield f"{name}_sum{{{labels}}} {self._sum * unit:.15g}"
        yield f"{name}_count{{{labels}}} {totals[-1]}"


# Cached: a page of a thousand models writes the same few bounds thousands of times.
@lru_cache(maxsize=16)
def _written(bounds: tuple[float, ...], unit: float) -> tuple[str, ...]:
    return tuple(f"{bound * unit:g}" for bound in bounds)


class Durations:
    """Durations that are appended on the path of requests and sorted into buckets later.

    Attributes:
        noted: seconds, appended by the measuring code, in any thread: a request pays only for the
            append. `settle` is called at `SETTLED_AT`, on the thread that owns the histogram.
    """

    __slots__ = ("_histogram", "noted")

    def __init__(self) -> None:
        self.noted = array("d")
        self._histogram = Histogram()

    def settle(self) -> Histogram:
        """Sort the noted durations into the buckets, and return these."""
        # Copied and cut, each in one step of the interpreter: a lane may append in between.
        noted = self.noted[:]
        if noted:
            del self.noted[: len(noted)]
            self._histogram.add_all(noted)
        return self._histogram

    def forget(self) -> None:
        """Discard all counts; code that holds `noted` can continue to append to it."""
        del self.noted[:]
        self._histogram = Histogram()
