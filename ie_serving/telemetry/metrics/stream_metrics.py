"""Metrics of open streams, and of dropped requests of live sources."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

STREAMS_OPEN: Final = "ie_serving_streams_open"
STREAM_DROPPED: Final = "ie_serving_stream_requests_dropped_total"


class StreamMetrics:
    """The streams of this process. Belongs to one event loop.

    Attributes:
        open: number of open streams.
        dropped: requests that were dropped for newer ones, by model.
    """

    def __init__(self) -> None:
        self.open = 0
        self.dropped: Counter[str] = Counter()

    def lines(self) -> Iterator[str]:
        """Yield the samples."""
        yield from family(
            STREAMS_OPEN,
            "gauge",
            "Streams that are open, over both ports.",
            (sample(STREAMS_OPEN, self.open),),
        )
        yield from family(
            STREAM_DROPPED,
            "counter",
            "Requests of streams with drop_oldest that were dropped for newer ones.",
            (
                sample(STREAM_DROPPED, number, model_name=model)
                for model, number in list(self.dropped.items())
            ),
        )
