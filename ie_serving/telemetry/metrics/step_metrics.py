"""Metrics of graphs: the times of their steps, and the values that `metrics` steps have seen."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from ie_serving.telemetry.metrics.text import (
    EVERY_SECOND,
    SETTLED_AT,
    Durations,
    Histogram,
    family,
    sample,
    written,
)

STEP_SECONDS = "ie_serving_step_seconds"
STEP_VALUES = "ie_serving_step_values"
STEP_LABELS = "ie_serving_step_labels_total"

MOST_LABELS = 1000
"""Texts of one item that have a series of their own; further ones share one."""
OTHERS = "(others)"
LONGEST_LABEL = 100
"""Characters of a text that are shown on the page."""


class ItemSummary:
    """Numbers of one item: count, sum, minimum and maximum."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.least = float("inf")
        self.greatest = float("-inf")

    def add(self, count: int, total: float, least: float, greatest: float) -> None:
        """Add the summary of further numbers."""
        self.count += count
        self.sum += total
        self.least = min(self.least, least)
        self.greatest = max(self.greatest, greatest)


class StepMetrics:
    """The series of one graph: a histogram for each step that has run.

    `add` is called on the event loop; `numbers` and `texts` may be called in any thread.

    Attributes:
        is_graph: whether a version with steps has been loaded.
    """

    def __init__(self) -> None:
        self.is_graph = False
        self._durations: dict[str, Durations] = {}
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], ItemSummary] = {}
        self._labels: dict[tuple[str, str], Counter[str]] = {}

    def add(self, step: str, seconds: float) -> None:
        """Count one successful run of a step, with its retries and items."""
        durations = self._durations.get(step)
        if durations is None:
            durations = self._durations[step] = Durations()
        durations.noted.append(seconds)
        if len(durations.noted) >= SETTLED_AT:
            durations.settle()

    @property
    def steps(self) -> dict[str, Histogram]:
        """Return the times of each step that has run, by its name."""
        return {step: durations.settle() for step, durations in self._durations.items()}

    def numbers(
        self, step: str, item: str, /, count: int, total: float, least: float, greatest: float
    ) -> None:
        """Add numbers of an item: count, sum, minimum and maximum."""
        with self._lock:
            self._values.setdefault((step, item), ItemSummary()).add(count, total, least, greatest)

    def texts(self, step: str, item: str, texts: Mapping[str, int], /) -> None:
        """Add the occurrences of each text of an item."""
        with self._lock:
            labels = self._labels.setdefault((step, item), Counter())
            for text, times in texts.items():
                label = text[:LONGEST_LABEL]
                known = label in labels or len(labels) < MOST_LABELS
                labels[label if known else OTHERS] += times

    def values(self) -> list[tuple[str, str, ItemSummary]]:
        """Return the summaries of numbers, with step and item."""
        with self._lock:
            return [(*where, values) for where, values in self._values.items()]

    def labels(self) -> list[tuple[str, str, str, int]]:
        """Return the counts of texts, with step and item."""
        with self._lock:
            return [
                (*where, label, times)
                for where, labels in self._labels.items()
                for label, times in labels.items()
            ]


def step_lines(graphs: Mapping[str, StepMetrics]) -> Iterator[str]:
    """Yield the samples of all models that are graphs; none before the first step."""
    yield from family(
        STEP_SECONDS,
        "histogram",
        "Seconds that each step of a graph computed.",
        (
            line
            for name, metrics in graphs.items()
            for step, histogram in metrics.steps.items()
            for line in histogram.lines(
                STEP_SECONDS, written(graph=name, step=step), shown=EVERY_SECOND
            )
        ),
    )
    yield from family(
        STEP_VALUES,
        "gauge",
        "Numbers that passed a step metrics: count, sum, min and max.",
        (line for name, metrics in graphs.items() for line in _of_values(name, metrics)),
    )
    yield from family(
        STEP_LABELS,
        "counter",
        "Texts that passed a step metrics.",
        (
            sample(STEP_LABELS, times, graph=name, step=step, item=item, label=label)
            for name, metrics in graphs.items()
            for step, item, label, times in metrics.labels()
        ),
    )


def _of_values(graph: str, metrics: StepMetrics) -> Iterator[str]:
    for step, item, values in metrics.values():
        kinds = {"count": values.count, "sum": values.sum}
        if values.count:
            kinds |= {"min": values.least, "max": values.greatest}
        for kind, number in kinds.items():
            yield sample(STEP_VALUES, number, graph=graph, step=step, item=item, of=kind)
