"""Metrics of models whose requests are recorded."""

from collections.abc import Iterator, Mapping
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

RECORDED: Final = "ie_serving_requests_recorded_total"
NOT_RECORDED: Final = "ie_serving_requests_not_recorded_total"


class RecordMetrics:
    """Counts of one model.

    Attributes:
        recorded: sampled requests that were written.
        failed: those that could not be written.
        broken: those that could not be encoded, by a defect.
        shed: those that were dropped, since too many waited.
    """

    def __init__(self) -> None:
        self.recorded = 0
        self.failed = 0
        self.broken = 0
        self.shed = 0


def record_lines(models: Mapping[str, RecordMetrics]) -> Iterator[str]:
    """Yield the samples of models with sampled requests."""
    sampled = [
        (name, m) for name, m in models.items() if m.recorded or m.failed or m.shed or m.broken
    ]
    yield from family(
        RECORDED,
        "counter",
        "Sampled requests that were written to a file.",
        (sample(RECORDED, each.recorded, model_name=name) for name, each in sampled),
    )
    yield from family(
        NOT_RECORDED,
        "counter",
        "Sampled requests that were not written: too many waited (busy), the disk refused them"
        " (disk), or they could not be encoded (error).",
        (
            sample(NOT_RECORDED, count, model_name=name, reason=reason)
            for name, each in sampled
            for reason, count in (
                ("busy", each.shed),
                ("disk", each.failed),
                ("error", each.broken),
            )
        ),
    )
