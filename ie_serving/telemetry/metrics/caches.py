"""Metrics of models that keep recent answers."""

from collections.abc import Iterator, Mapping
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

HITS: Final = "ie_serving_response_cache_hits_total"
MISSES: Final = "ie_serving_response_cache_misses_total"


class CacheMetrics:
    """Counts of one model. Belongs to one event loop.

    Attributes:
        asked: requests that were looked up.
        missed: inferences that these needed.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.missed = 0


def cache_lines(models: Mapping[str, CacheMetrics]) -> Iterator[str]:
    """Yield the samples of models that were asked."""
    asked = [(name, each) for name, each in models.items() if each.asked]
    yield from family(
        HITS,
        "counter",
        "Requests that a kept answer, or that of an equal request under way, has answered.",
        (sample(HITS, each.asked - each.missed, model_name=name) for name, each in asked),
    )
    yield from family(
        MISSES,
        "counter",
        "Inferences of models that keep answers.",
        (sample(MISSES, each.missed, model_name=name) for name, each in asked),
    )
