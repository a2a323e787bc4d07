"""Which settings are tried, which of two is better, and what wins in the end. Pure.

One setting is changed at a time: batches, streams and threads, infer requests, the batch window,
precision, in this order, which is that of what they usually win. Each step keeps the best so far.
That is a dozen settings instead of the hundreds of a grid; what is missed are pairs of which
neither wins alone.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Keys = Mapping[str, Any]
"""Keys of a model's entry in the configuration file; none for the configuration as it is."""

MARGIN = 0.03
"""Share by which a setting must be better to be kept while it is searched: a single slice of a few
seconds is no more exact than that."""
WINDOWS_US = (500, 2000)
"""Batch windows that are tried."""
PLUGIN, STREAMS, THREADS = "plugin_config", "NUM_STREAMS", "INFERENCE_NUM_THREADS"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What callers got in one slice of time.

    Attributes:
        requests: how many were answered.
        requests_s: a second.
        p50_ms: half of them were answered within so many milliseconds.
        p99_ms: of 100, 99 were.
        at_once: inferences that the model runs at a time.
    """

    requests: int
    requests_s: float
    p50_ms: float
    p99_ms: float
    at_once: int = 1


@dataclass(frozen=True, kw_only=True)
class Space:
    """What can be tried.

    Attributes:
        cpus: processors that the engine may use; 0 where the model runs on another device.
        rows: rows of all requests that are asked at a time; 0 where they cannot share a batch.
        precisions: lower ones than the one in use.
        plugin_config: as it is configured; its other properties stay.
        latency_ms: p99 that is wanted; 0 for any.
    """

    cpus: int
    rows: int
    precisions: Sequence[str] = ()
    plugin_config: Mapping[str, str] = field(default_factory=dict)
    latency_ms: float = 0.0

    def meets(self, found: Measured) -> bool:
        """Tell whether answers come in the time that is wanted."""
        return not self.latency_ms or found.p99_ms <= self.latency_ms

    def is_better(self, found: Measured, best: Measured, margin: float = MARGIN) -> bool:
        """Tell whether `found` answers more within the latency; or is nearer to it, if none is."""
        if not self.meets(best):
            return self.meets(found) or found.p99_ms < best.p99_ms * (1 - margin)
        return self.meets(found) and found.requests_s > best.requests_s * (1 + margin)


Search = Generator[Keys, Measured | None, Keys]
"""Yields keys, is sent what was measured with them, None where they cannot be, and returns the
best."""


def search(space: Space) -> Search:
    """Begin with the configuration as it is, and change one setting after the other."""
    best: Keys = {}
    measured = yield best
    # With a configuration that does not work nothing can be compared.
    if measured is None:
        return best
    for step in STEPS:
        for change in step(space, best, measured):
            keys = {**best, **change}
            found = yield keys
            if found is not None and space.is_better(found, measured):
                best, measured = keys, found
    return best


def _batches(space: Space, best: Keys, measured: Measured) -> Iterator[Keys]:
    for rows in sorted({space.rows // 2, space.rows}):
        if rows > 1:
            yield {"max_batch_size": rows}


def _streams(space: Space, best: Keys, measured: Measured) -> Iterator[Keys]:
    counts = sorted({1, space.cpus // 2, space.cpus} - {0}) if space.cpus else []
    for count in counts:
        yield _plugin(space, {STREAMS: str(count)})
    if space.cpus > 1:
        # The other processors are then left to the protocols, which take longer than a tiny model.
        yield _plugin(space, {STREAMS: "1", THREADS: "1"})


def _plugin(space: Space, properties: Mapping[str, str]) -> Keys:
    # A key is replaced as a whole, so what is configured there has to be in the new value.
    return {PLUGIN: {**space.plugin_config, **properties}}


def _infer_requests(space: Space, best: Keys, measured: Measured) -> Iterator[Keys]:
    # OpenVINO's own choice keeps the device busy; more can only fill the time between two.
    yield {"nireq": 2 * measured.at_once}


def _windows(space: Space, best: Keys, measured: Measured) -> Iterator[Keys]:
    # With one lane nothing is waited for: what has gathered goes once the lane is free.
    if space.rows and measured.at_once > 1:
        yield from ({"batch_timeout_micros": window} for window in WINDOWS_US)


def _precisions(space: Space, best: Keys, measured: Measured) -> Iterator[Keys]:
    yield from ({"inference_precision": precision} for precision in space.precisions)


STEPS: Sequence[Callable[[Space, Keys, Measured], Iterator[Keys]]] = (
    _batches,
    _streams,
    _infer_requests,
    _windows,
    _precisions,
)


def wins(space: Space, changed: Sequence[Measured], as_it_is: Sequence[Measured]) -> bool:
    """Tell whether settings won beyond the noise, in rounds that were measured in turn.

    They must have been faster in every round: of two that are equal either is in five rounds out of
    five once in 32 times. Where the configuration as it is does not meet the latency, it is enough
    that they do in every round.
    """
    if space.latency_ms and not space.meets(middle(as_it_is)):
        return all(map(space.meets, changed))
    pairs = zip(changed, as_it_is, strict=True)
    faster = all(new.requests_s > old.requests_s * (1 + MARGIN) for new, old in pairs)
    return faster and space.meets(middle(changed))


def middle(rounds: Sequence[Measured]) -> Measured:
    """Give the medians of several rounds."""
    return Measured(
        requests=sum(each.requests for each in rounds),
        requests_s=median(each.requests_s for each in rounds),
        p50_ms=median(each.p50_ms for each in rounds),
        p99_ms=median(each.p99_ms for each in rounds),
        at_once=rounds[0].at_once,
    )
