"""How long the steps of a graph take."""

from collections.abc import Iterator, Mapping

from ie_serving.telemetry.histogram import EVERY_SECOND, Histogram
from ie_serving.telemetry.text import family, written

STEP_SECONDS = "ie_serving_step_seconds"


class StepMetrics:
    """The series of one graph: a histogram for each step that has run a model."""

    def __init__(self) -> None:
        self.steps: dict[str, Histogram] = {}

    def add(self, step: str, seconds: float) -> None:
        """Count one run of a step's model that succeeded, with its retries and items."""
        histogram = self.steps.get(step)
        if histogram is None:
            histogram = self.steps[step] = Histogram()
        histogram.add(seconds)


def step_lines(graphs: Mapping[str, StepMetrics]) -> Iterator[str]:
    """Yield the samples of all models that are graphs, none before the first step."""
    yield from family(
        STEP_SECONDS,
        "histogram",
        "Seconds that the model of each step of a graph took.",
        (
            line
            for name, metrics in graphs.items()
            for step, histogram in metrics.steps.items()
            for line in histogram.lines(
                STEP_SECONDS, written(graph=name, step=step), shown=EVERY_SECOND
            )
        ),
    )
