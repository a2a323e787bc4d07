"""Chooses the settings to try, compares results, and decides the winner. Pure.

It changes one setting at a time: batches, streams and threads, infer requests, the batch window,
precision, in the order of their usual gain. Each step keeps the best so far. That tries a dozen
settings instead of the hundreds of a grid, and misses pairs that gain only together.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ie_serving.core.values.requests import SampleRequest
from ie_serving.engines.base import Engine, EngineOptions
from ie_serving.engines.openvino.options import OpenVinoOptions

Keys = Mapping[str, Any]
"""Keys of a model's entry in the configuration file; empty for the present configuration."""

MARGIN = 0.03
"""Share by which a setting must be better for the search to keep it: the accuracy of a single slice
of a few seconds."""
WINDOWS_US = (500, 2000)
"""Batch windows to try, in microseconds."""
PLUGIN, STREAMS, THREADS = "plugin_config", "NUM_STREAMS", "INFERENCE_NUM_THREADS"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of one slice of time.

    Attributes:
        requests: answered requests.
        requests_s: answered requests a second.
        p50_ms: median latency in milliseconds.
        p99_ms: 99th percentile of latency in milliseconds.
        at_once: inferences that the model runs concurrently.
    """

    requests: int
    requests_s: float
    p50_ms: float
    p99_ms: float
    at_once: int = 1


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """The settings that can be tried.

    Attributes:
        cpus: processors that the engine may use; 0 if the model runs on another device.
        rows: sum over all concurrent requests; 0 if they cannot share a batch.
        precisions: those below the one in use.
        plugin_config: configured properties; those that are not tried stay.
        latency_ms: wanted p99; 0 for any.
    """

    cpus: int
    rows: int
    precisions: Sequence[str] = ()
    plugin_config: Mapping[str, str] = field(default_factory=dict)
    latency_ms: float = 0.0

    def meets(self, found: Measurement) -> bool:
        """Tell whether a measurement meets the wanted latency."""
        return not self.latency_ms or found.p99_ms <= self.latency_ms

    def is_better(self, found: Measurement, best: Measurement) -> bool:
        """Tell whether `found` answers more within the latency, or is nearer to it if none is."""
        if not self.meets(best):
            return self.meets(found) or found.p99_ms < best.p99_ms * (1 - MARGIN)
        return self.meets(found) and found.requests_s > best.requests_s * (1 + MARGIN)


Search = Generator[Keys, Measurement | None, Keys]
"""Yields keys to try, is sent their measurement, or None if they fail, and returns the best."""


def search(space: SearchSpace) -> Search:
    """Begin with the present configuration, and change one setting after the other."""
    best: Keys = {}
    measured = yield best
    # Without a measurement of the present configuration there is nothing to compare with.
    if measured is None:
        return best
    for step in STEPS:
        for change in step(space, best, measured):
            keys = {**best, **change}
            found = yield keys
            if found is not None and space.is_better(found, measured):
                best, measured = keys, found
    return best


def _batches(space: SearchSpace, best: Keys, measured: Measurement) -> Iterator[Keys]:
    for rows in sorted({space.rows // 2, space.rows}):
        if rows > 1:
            yield {"max_batch_size": rows}


def _streams(space: SearchSpace, best: Keys, measured: Measurement) -> Iterator[Keys]:
    counts = sorted({1, space.cpus // 2, space.cpus} - {0}) if space.cpus else []
    for count in counts:
        yield _plugin(space, {STREAMS: str(count)})
    if space.cpus > 1:
        # This leaves the other processors to the protocols, which take longer than a tiny model.
        yield _plugin(space, {STREAMS: "1", THREADS: "1"})


def _plugin(space: SearchSpace, properties: Mapping[str, str]) -> Keys:
    # A key is replaced as a whole, so the new value has to include the configured properties.
    return {PLUGIN: {**space.plugin_config, **properties}}


def _infer_requests(space: SearchSpace, best: Keys, measured: Measurement) -> Iterator[Keys]:
    # OpenVINO's own number keeps the device busy; more requests only fill the gaps between two.
    yield {"nireq": 2 * measured.at_once}


def _windows(space: SearchSpace, best: Keys, measured: Measurement) -> Iterator[Keys]:
    # With one lane there is no window: a batch starts as soon as the lane is free.
    if space.rows and measured.at_once > 1:
        yield from ({"batch_timeout_micros": window} for window in WINDOWS_US)


def _precisions(space: SearchSpace, best: Keys, measured: Measurement) -> Iterator[Keys]:
    yield from ({"inference_precision": precision} for precision in space.precisions)


STEPS: Sequence[Callable[[SearchSpace, Keys, Measurement], Iterator[Keys]]] = (
    _batches,
    _streams,
    _infer_requests,
    _windows,
    _precisions,
)


def wins(
    space: SearchSpace, changed: Sequence[Measurement], as_it_is: Sequence[Measurement]
) -> bool:
    """Tell whether changed settings are better beyond the noise, in rounds measured in turn.

    They must be faster in every round: equal settings are so in all of five rounds once in 32
    times. If the present configuration misses the latency, it is enough that the changed settings
    meet it in every round.
    """
    if space.latency_ms and not space.meets(middle(as_it_is)):
        return all(map(space.meets, changed))
    pairs = zip(changed, as_it_is, strict=True)
    faster = all(new.requests_s > old.requests_s * (1 + MARGIN) for new, old in pairs)
    return faster and space.meets(middle(changed))


def middle(rounds: Sequence[Measurement]) -> Measurement:
    """Give the medians of several rounds."""
    return Measurement(
        requests=sum(each.requests for each in rounds),
        requests_s=median(each.requests_s for each in rounds),
        p50_ms=median(each.p50_ms for each in rounds),
        p99_ms=median(each.p99_ms for each in rounds),
        at_once=rounds[0].at_once,
    )


ReadSamples = Callable[[Path], Iterable[SampleRequest]]
"""Reads a file, or the recording in a version directory. Raises InvalidRequest, OSError."""


@dataclass(frozen=True, kw_only=True)
class SearchTools:
    """See above.

    Attributes:
        engine: compiles, with every layer.
        with_keys: gives options with keys of a model's entry added.
        lower: names the precisions below f32 that the device has.
        of_file: reads a file of requests.
        of_version: reads the recording in a version directory.
    """

    engine: Engine
    with_keys: Callable[[EngineOptions, Keys], EngineOptions]
    lower: Callable[[OpenVinoOptions], Sequence[str]]
    of_file: ReadSamples
    of_version: ReadSamples
