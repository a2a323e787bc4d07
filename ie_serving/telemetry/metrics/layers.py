"""Metrics of layers around a model: kept answers, recorded requests, sequences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ie_serving.telemetry.metrics.text import family, sample

HITS: Final = "ie_serving_response_cache_hits_total"
MISSES: Final = "ie_serving_response_cache_misses_total"

RECORDED: Final = "ie_serving_requests_recorded_total"
NOT_RECORDED: Final = "ie_serving_requests_not_recorded_total"
SEQUENCES = "ie_serving_sequences"
STATE_BYTES = "ie_serving_sequence_state_bytes"
DROPPED = "ie_serving_sequences_dropped_total"
CountHeld = Callable[[], tuple[int, int]]
"""Returns the number of live sequences, and the bytes of their state."""


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


class RecordMetrics:
    """Counts of one model.

    Attributes:
        recorded: sampled requests that were written.
        failed: records that could not be written.
        broken: records that could not be encoded, by a defect.
        shed: records that were dropped, since too many waited.
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


def _none() -> tuple[int, int]:
    return 0, 0


class SequenceMetrics:
    """The series of one model's sequences.

    Attributes:
        held: called whenever the page is read.
        dropped: sequences that no client has ended, by the reason of their end: `idle`, `unloaded`.
        seen: whether the model keeps sequences; other models have no series on the page.
    """

    def __init__(self) -> None:
        self.held: CountHeld = _none
        self.dropped: dict[str, int] = {}
        self.seen = False

    def begin(self, held: CountHeld) -> None:
        """Show the series from now on: the model keeps sequences."""
        self.held = held
        self.seen = True

    def drop(self, reason: str, times: int) -> None:
        """Count sequences that no client has ended."""
        self.dropped[reason] = self.dropped.get(reason, 0) + times


LabelledSequences = Sequence[tuple[str, SequenceMetrics]]
"""The formatted label of a model's name, and its sequences."""


def sequence_lines(models: LabelledSequences) -> Iterator[str]:
    """Yield the samples of all models that keep sequences."""
    seen = [(label, each, *each.held()) for label, each in models if each.seen]
    yield from family(
        SEQUENCES,
        "gauge",
        "Live sequences over all versions.",
        (f"{SEQUENCES}{{{label}}} {live}" for label, _, live, _ in seen),
    )
    yield from family(
        STATE_BYTES,
        "gauge",
        "Bytes of their states.",
        (f"{STATE_BYTES}{{{label}}} {size}" for label, _, _, size in seen),
    )
    # Both reasons from the first page on: if a counter appears with its first event, Prometheus
    # sees no increase.
    yield from family(
        DROPPED,
        "counter",
        "Sequences that ended without their clients.",
        (
            f'{DROPPED}{{{label},reason="{reason}"}} {each.dropped.get(reason, 0)}'
            for label, each, _, _ in seen
            for reason in ("idle", "unloaded")
        ),
    )
