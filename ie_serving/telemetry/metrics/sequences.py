"""Metrics of a model's sequences of requests."""

from collections.abc import Callable, Iterator, Sequence

from ie_serving.telemetry.metrics.text import family

SEQUENCES = "ie_serving_sequences"
STATE_BYTES = "ie_serving_sequence_state_bytes"
DROPPED = "ie_serving_sequences_dropped_total"

Held = Callable[[], tuple[int, int]]
"""Returns the number of live sequences, and the bytes of their state."""


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
        self.held: Held = _none
        self.dropped: dict[str, int] = {}
        self.seen = False

    def begin(self, held: Held) -> None:
        """Show the series from now on: the model keeps sequences."""
        self.held = held
        self.seen = True

    def drop(self, reason: str, times: int) -> None:
        """Count sequences that no client has ended."""
        self.dropped[reason] = self.dropped.get(reason, 0) + times


Labelled = Sequence[tuple[str, SequenceMetrics]]
"""The formatted label of a model's name, and its sequences."""


def sequence_lines(models: Labelled) -> Iterator[str]:
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
