"""Numbers of requests and inferences under the metric names of OpenVINO Model Server.

Source: `docs/metrics.md` of openvinotoolkit/model_server. Durations are in microseconds, bounds are
whole numbers. Its metrics for graphs and streams of its own engine are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Final

from ie_serving.telemetry.metrics.histogram import BOUNDS_US, MICROSECONDS, Histogram
from ie_serving.telemetry.metrics.requests import Key, RequestMetrics
from ie_serving.telemetry.metrics.text import family, sample, written
from ie_serving.telemetry.metrics.version_metrics import Live

REQUESTS_SUCCESS = "ovms_requests_success"
REQUESTS_FAIL = "ovms_requests_fail"
REQUEST_TIME = "ovms_request_time_us"
INFERENCE_TIME = "ovms_inference_time_us"
WAIT_TIME = "ovms_wait_for_infer_req_time_us"
CURRENT_REQUESTS = "ovms_current_requests"

UNVERSIONED: Final = {"GetModelStatus"}
"""Methods whose series have no version there."""

KSERVE: Final = {"ModelInfer", "ModelMetadata"}
"""Methods of the Open Inference Protocol, which it calls KServe."""
INFERRING: Final = {"Predict", "ModelInfer"}
"""Methods that run a model, whose times are shown."""

Models = Mapping[str, RequestMetrics]


def ovms_lines(models: Models, live: Iterable[Live]) -> Iterator[str]:
    """Yield the lines for dashboards of OpenVINO Model Server."""
    versions = list(live)
    yield from family(
        REQUESTS_SUCCESS, "counter", "Number of successful requests to a model.", _succeeded(models)
    )
    yield from family(
        REQUESTS_FAIL, "counter", "Number of failed requests to a model.", _failed(models)
    )
    yield from family(
        REQUEST_TIME, "histogram", "Processing time of requests to a model.", _times(models)
    )
    yield from family(
        INFERENCE_TIME,
        "histogram",
        "Inference execution time.",
        _histograms(INFERENCE_TIME, ((each, each.inferences.durations) for each in versions)),
    )
    yield from family(
        WAIT_TIME,
        "histogram",
        "Request waiting time for an infer request.",
        _histograms(WAIT_TIME, ((each, each.inferences.waits) for each in versions)),
    )
    yield from family(
        CURRENT_REQUESTS,
        "gauge",
        "Number of requests in flight.",
        (
            sample(CURRENT_REQUESTS, each.holders, name=each.name, version=str(each.version))
            for each in versions
        ),
    )


def _labels(model: str, key: Key) -> dict[str, str]:
    version = {} if key.method in UNVERSIONED else {"version": key.version}
    api = "KServe" if key.method in KSERVE else "TensorFlowServing"
    return {"api": api, "interface": key.interface, "method": key.method, "name": model, **version}


def _succeeded(models: Models) -> Iterator[str]:
    for model, requests in models.items():
        for key, total in requests.by_series():
            yield sample(REQUESTS_SUCCESS, len(total), **_labels(model, key))


def _failed(models: Models) -> Iterator[str]:
    for model, requests in models.items():
        # Added up, since its series have no status code, unlike ours.
        numbers: dict[Key, int] = {}
        for (key, _), number in list(requests.failed.items()):
            numbers[key] = numbers.get(key, 0) + number
        for key, number in numbers.items():
            yield sample(REQUESTS_FAIL, number, **_labels(model, key))


def _times(models: Models) -> Iterator[str]:
    # Its series do not distinguish the protocols.
    found: dict[tuple[str, str, str], Histogram] = {}
    for model, requests in models.items():
        for key, total in requests.by_series():
            if key.method in INFERRING:
                place = key.interface, model, key.version
                found.setdefault(place, Histogram()).include(total)
    for (interface, model, version), total in found.items():
        labels = written(interface=interface, name=model, version=version)
        yield from total.lines(REQUEST_TIME, labels, MICROSECONDS, words=WORDS)


def _histograms(name: str, found: Iterable[tuple[Live, Histogram]]) -> Iterator[str]:
    for version, histogram in found:
        if len(histogram):
            labels = written(name=version.name, version=str(version.version))
            yield from histogram.lines(name, labels, MICROSECONDS, words=WORDS)


WORDS: Final = tuple(str(floor(bound)) for bound in BOUNDS_US)
"""Its bounds as text: 10, 18, 32, 58, ..., which are ours rounded down."""
