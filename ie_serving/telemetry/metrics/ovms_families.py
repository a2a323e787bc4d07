"""Numbers of requests and inferences under the metric names of OpenVINO Model Server.

Source: `docs/metrics.md` of openvinotoolkit/model_server. Durations are in microseconds, bounds are
whole numbers. Its metrics for generative models are left out.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import Final

from ie_serving.telemetry.metrics.requests import RequestMetrics, SeriesKey
from ie_serving.telemetry.metrics.text import (
    BOUNDS_US,
    MICROSECONDS,
    Histogram,
    family,
    sample,
    written,
)
from ie_serving.telemetry.metrics.version_metrics import LiveVersion

REQUESTS_SUCCESS = "ovms_requests_success"
REQUESTS_FAIL = "ovms_requests_fail"
REQUEST_TIME = "ovms_request_time_us"
INFERENCE_TIME = "ovms_inference_time_us"
WAIT_TIME = "ovms_wait_for_infer_req_time_us"
CURRENT_REQUESTS = "ovms_current_requests"
STREAMS = "ovms_streams"
QUEUE_SIZE = "ovms_infer_req_queue_size"
ACTIVE = "ovms_infer_req_active"
ACCEPTED = "ovms_requests_accepted"
REJECTED = "ovms_requests_rejected"
RESPONSES = "ovms_responses"
GRAPH_ERROR = "ovms_graph_error"
CURRENT_GRAPHS = "ovms_current_graphs"
PROCESSING_TIME = "ovms_graph_processing_time_us"
FAMILIES: Final = (
    *(REQUESTS_SUCCESS, REQUESTS_FAIL, REQUEST_TIME, INFERENCE_TIME, WAIT_TIME, CURRENT_REQUESTS),
    *(STREAMS, QUEUE_SIZE, ACTIVE, ACCEPTED, REJECTED),
    *(RESPONSES, GRAPH_ERROR, CURRENT_GRAPHS, PROCESSING_TIME),
)

UNVERSIONED: Final = {"GetModelStatus", "ModelReady"}
"""Methods whose series have no version there."""

KSERVE: Final = {"ModelInfer", "ModelMetadata", "ModelReady"}
"""Methods of the Open Inference Protocol, which it calls KServe."""
INFERRING: Final = ("Predict", "ModelInfer")
"""Methods that run a model, whose times are shown."""
METHODS: Final = ("Predict", "GetModelMetadata", "GetModelStatus", *sorted(KSERVE))
"""Methods whose series exist from the load of a version on."""
ENTRYPOINTS: Final = ("GRPC", "REST")
REFUSALS: Final = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
"""Codes of requests that a graph has not begun with."""

MetricsByModel = Mapping[str, RequestMetrics]


def ovms_lines(
    models: MetricsByModel, live: Sequence[LiveVersion], graphs: Collection[str], *, from_load: bool
) -> Iterator[str]:
    """Yield the lines for dashboards of OpenVINO Model Server.

    Args:
        models: requests by model; those for unknown models are left out.
        live: AVAILABLE versions.
        graphs: models that are graphs.
        from_load: show series of versions that were not asked yet, as that server does.
    """
    models = {name: each for name, each in models.items() if name}
    unasked = live if from_load else ()
    yield from family(
        REQUESTS_SUCCESS,
        "counter",
        "Number of successful requests to a model.",
        _counts(REQUESTS_SUCCESS, _succeeded(models), unasked),
    )
    yield from family(
        REQUESTS_FAIL,
        "counter",
        "Number of failed requests to a model.",
        _counts(REQUESTS_FAIL, _failed(models), unasked),
    )
    times = _times(models, unasked)
    yield from family(REQUEST_TIME, "histogram", "Processing time of requests to a model.", times)
    yield from family(
        INFERENCE_TIME,
        "histogram",
        "Inference execution time.",
        _histograms(INFERENCE_TIME, live, lambda each: each.inferences.durations, from_load),
    )
    yield from family(
        WAIT_TIME,
        "histogram",
        "Request waiting time for an infer request.",
        _histograms(WAIT_TIME, live, lambda each: each.inferences.waits, from_load),
    )
    yield from _gauge(CURRENT_REQUESTS, "Number of requests in flight.", live, _holders)
    ours = [each for each in live if each.inferences.requests]
    yield from _gauge(STREAMS, "Number of OpenVINO execution streams.", ours, _streams)
    yield from _gauge(
        QUEUE_SIZE, "Number of infer requests.", ours, lambda v: v.inferences.requests
    )
    yield from _gauge(ACTIVE, "Infer requests in use.", ours, lambda v: v.inferences.running)
    of_graphs = {name: each for name, each in models.items() if name in graphs}
    unasked = [each for each in unasked if each.name in graphs]
    yield from _graph_lines(of_graphs, [each for each in live if each.name in graphs], unasked)


def _graph_lines(
    graphs: MetricsByModel, live: Iterable[LiveVersion], unasked: Iterable[LiveVersion]
) -> Iterator[str]:
    for name, meaning, counted in (
        (ACCEPTED, "Requests that a graph began with.", _accepted(graphs)),
        (REJECTED, "Requests that a graph refused.", _rejected(graphs)),
        (RESPONSES, "Replies of a graph.", _inferred_series(graphs)),
        (GRAPH_ERROR, "Requests that failed in a graph.", _broke_off(graphs)),
    ):
        yield from family(name, "counter", meaning, _counts(name, counted, unasked, _of_graph))
    running = Counter[str]()
    for each in live:
        running[each.name] += each.holders
    current = (sample(CURRENT_GRAPHS, number, name=name) for name, number in running.items())
    yield from family(CURRENT_GRAPHS, "gauge", "Requests that a graph computes.", current)
    times = _processing_times(graphs, unasked)
    yield from family(PROCESSING_TIME, "histogram", "Time of requests in a graph.", times)


def _gauge(
    name: str, meaning: str, live: Iterable[LiveVersion], value: Callable[[LiveVersion], int]
) -> Iterator[str]:
    found = (sample(name, value(each), name=each.name, version=str(each.version)) for each in live)
    yield from family(name, "gauge", meaning, found)


def _holders(version: LiveVersion) -> int:
    return version.holders


def _streams(version: LiveVersion) -> int:
    return version.inferences.streams or version.inferences.requests


def _labels(model: str, key: SeriesKey) -> dict[str, str]:
    version = {} if key.method in UNVERSIONED else {"version": key.version}
    api = "KServe" if key.method in KSERVE else "TensorFlowServing"
    return {"api": api, "interface": key.interface, "method": key.method, "name": model, **version}


def _of_graph(model: str, key: SeriesKey) -> dict[str, str]:
    return {name: text for name, text in _labels(model, key).items() if name != "version"}


Labels = Callable[[str, SeriesKey], dict[str, str]]

CountedSeries = Iterable[tuple[str, SeriesKey, int]]
"""Model, series, and number of requests."""


def _counts(
    name: str, counted: CountedSeries, unasked: Iterable[LiveVersion], labels: Labels = _labels
) -> Iterator[str]:
    # Added up, since its series have no status code, unlike ours.
    numbers: Counter[str] = Counter()
    for version in unasked:
        for entrypoint in ENTRYPOINTS:
            for method in METHODS if labels is _labels else INFERRING:
                key = SeriesKey(str(version.version), entrypoint, method, "")
                numbers[written(**labels(version.name, key))] = 0
    for model, key, number in counted:
        numbers[written(**labels(model, key))] += number
    for written_, number in numbers.items():
        yield f"{name}{{{written_}}} {number}"


def _succeeded(models: MetricsByModel) -> CountedSeries:
    for model, requests in models.items():
        for key, total in requests.by_series():
            yield model, key, len(total)


def _failed(models: MetricsByModel, codes: Collection[str] = ()) -> CountedSeries:
    for model, requests in models.items():
        for (key, code), number in list(requests.failed.items()):
            if not codes or code in codes:
                yield model, key, number


def _accepted(models: MetricsByModel) -> CountedSeries:
    for model, requests in models.items():
        for key, served in list(requests.served.items()):
            if key.method in INFERRING:
                yield model, key, served.begun


def _rejected(models: MetricsByModel) -> CountedSeries:
    for model, key, number in _failed(models, REFUSALS):
        if key.method in INFERRING:
            yield model, key, number
    for model, requests in models.items():
        for (key, code), number in list(requests.broke_off.items()):
            if code in REFUSALS:
                yield model, key, -number


def _inferred_series(models: MetricsByModel) -> CountedSeries:
    return (each for each in _succeeded(models) if each[1].method in INFERRING)


def _broke_off(models: MetricsByModel) -> CountedSeries:
    for model, requests in models.items():
        for (key, _), number in list(requests.broke_off.items()):
            yield model, key, number


def _times(models: MetricsByModel, unasked: Iterable[LiveVersion]) -> Iterator[str]:
    # Its series do not distinguish the protocols.
    found: dict[tuple[str, str, str], Histogram] = {
        (interface, each.name, str(each.version)): Histogram()
        for each in unasked
        for interface in ("gRPC", "REST")
    }
    for model, requests in models.items():
        for key, total in requests.by_series():
            if key.method in INFERRING:
                series = key.interface, model, key.version
                found.setdefault(series, Histogram()).include(total)
    for (interface, model, version), total in found.items():
        labels = written(interface=interface, name=model, version=version)
        yield from total.lines(REQUEST_TIME, labels, MICROSECONDS, words=WORDS)


def _processing_times(models: MetricsByModel, unasked: Iterable[LiveVersion]) -> Iterator[str]:
    # Its series distinguish neither the versions nor the interfaces.
    found = {(each.name, method): Histogram() for each in unasked for method in INFERRING}
    for model, requests in models.items():
        for key, total in requests.by_series():
            if key.method in INFERRING:
                found.setdefault((model, key.method), Histogram()).include(total)
    for (model, method), total in found.items():
        labels = written(method=method, name=model)
        yield from total.lines(PROCESSING_TIME, labels, MICROSECONDS, words=WORDS)


def _histograms(
    name: str, live: Iterable[LiveVersion], of: Callable[[LiveVersion], Histogram], from_load: bool
) -> Iterator[str]:
    for version in live:
        histogram = of(version)
        if from_load or len(histogram):
            labels = written(name=version.name, version=str(version.version))
            yield from histogram.lines(name, labels, MICROSECONDS, words=WORDS)


WORDS: Final = tuple(str(floor(bound)) for bound in BOUNDS_US)
"""Its bounds as text: 10, 18, 32, 58, ..., which are ours rounded down."""
