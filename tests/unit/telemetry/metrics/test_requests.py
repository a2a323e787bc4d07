"""Requests by version, interface, method and code, and the recent errors on the page at `/`."""

import asyncio
import gc
import weakref

import pytest

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import InvalidRequest, NotFound
from ie_serving.telemetry.metrics.page import (
    REQUEST_DURATION,
    REQUESTS,
    Metrics,
)
from ie_serving.telemetry.metrics.requests import (
    LEFT,
    LONGEST_TEXT,
    MOST_KINDS,
    MOST_SERIES,
    RecentErrors,
    SeriesKey,
)
from ie_serving.telemetry.metrics.tensorflow_families import REQUEST_COUNT
from ie_serving.telemetry.metrics.text import SETTLED_AT
from tests.unit.telemetry.pages import GRPC, REST, fail, of, samples, serve

SHOWN = ("version", "interface", "method", "code")


def key(version: int) -> SeriesKey:
    return GRPC._replace(version=str(version))


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    metrics.keep(["m"])
    return metrics


def test_requests_are_counted_by_version_interface_method_and_code(metrics: Metrics) -> None:
    serve(metrics, "m", GRPC)
    serve(metrics, "m", GRPC)
    serve(metrics, "m", REST)
    fail(metrics, "m", "INVALID_ARGUMENT", REST)
    assert of(metrics, REQUESTS, *SHOWN, model_name="m") == {
        ("1", "gRPC", "Predict", "OK"): 2,
        ("1", "REST", "Predict", "OK"): 1,
        ("1", "REST", "Predict", "INVALID_ARGUMENT"): 1,
    }
    assert of(metrics, f"{REQUEST_COUNT}_total", "status") == {
        ("OK",): 3,
        ("INVALID_ARGUMENT",): 1,
    }


def test_times_of_requests_are_seconds(metrics: Metrics) -> None:
    serve(metrics, "m", GRPC, 0.25)
    (total,) = of(metrics, f"{REQUEST_DURATION}_sum").values()
    assert total == pytest.approx(0.25)
    buckets = of(metrics, f"{REQUEST_DURATION}_bucket", "le")
    assert [number for (le,), number in buckets.items() if float(le) < 0.25] == [0] * 9
    assert {number for (le,), number in buckets.items() if float(le) > 0.25} == {1}


def test_openvino_model_server_has_them_under_its_names(metrics: Metrics) -> None:
    serve(metrics, "m", GRPC, 20e-6)
    fail(metrics, "m", "INTERNAL")
    fail(metrics, "m", "NOT_FOUND")
    shown = ("api", "interface", "method", "name", "version")
    labels = ("TensorFlowServing", "gRPC", "Predict", "m", "1")
    assert of(metrics, "ovms_requests_success_total", *shown) == {labels: 1}
    assert of(metrics, "ovms_requests_fail_total", *shown) == {labels: 2}
    buckets = of(metrics, "ovms_request_time_us_bucket", "le", interface="gRPC", name="m")
    assert list(buckets)[:6] == [("10",), ("18",), ("32",), ("58",), ("104",), ("188",)]
    assert (buckets["18",], buckets["32",]) == (0, 1)


def test_series_of_a_version_that_is_gone_go_and_the_model_counts_on(metrics: Metrics) -> None:
    versions = [("m", 1, "AVAILABLE"), ("m", 2, "LOADING")]
    metrics.show_states(lambda: versions)
    serve(metrics, "m", key(1))
    serve(metrics, "m", key(2))
    fail(metrics, "m", "INTERNAL", key(1))
    versions[:] = [("m", 2, "AVAILABLE")]
    assert of(metrics, REQUESTS, "version", "code") == {("2", "OK"): 1}
    assert of(metrics, f"{REQUEST_COUNT}_total", "status") == {("OK",): 2, ("INTERNAL",): 1}
    latencies = of(metrics, ":tensorflow:serving:request_latency_count", "API")
    assert latencies == {("Predict",): 2}
    assert not [labels for _, labels in samples(metrics) if ("version", "1") in labels]


def test_versions_that_come_and_go_do_not_pile_up_on_an_unread_page(
    metrics: Metrics,
) -> None:
    number = 0
    metrics.show_states(lambda: [("m", number, "AVAILABLE")])
    for number in range(1, 1000):
        serve(metrics, "m", key(number))
    assert len(metrics.add("m").requests.served) <= MOST_SERIES
    assert of(metrics, f"{REQUEST_COUNT}_total", "status") == {("OK",): 999}


def test_noted_durations_do_not_pile_up_either(metrics: Metrics) -> None:
    served = metrics.served("m", GRPC)
    for _ in range(10 * SETTLED_AT):
        served.add(0.001)
        assert len(served.took) < SETTLED_AT
    assert of(metrics, REQUESTS, "code") == {("OK",): 10 * SETTLED_AT}


KEY = SeriesKey("1", "REST", "Predict", "predict")


def test_failures_of_one_kind_are_counted_and_the_newest_comes_first() -> None:
    errors = RecentErrors(quotes=True)
    for text in ("first", "second"):
        errors.add("m", KEY, Code.INVALID_ARGUMENT, InvalidRequest(text))
    errors.add("m", KEY, Code.NOT_FOUND, NotFound("third"))
    found = [(kind.code, each.number, each.text) for kind, each in errors.newest()]
    assert found == [("NOT_FOUND", 1, "third"), ("INVALID_ARGUMENT", 2, "second")]
    assert all(each.first <= each.last for _, each in errors.newest())


def test_recent_errors_are_bounded_in_number_and_length() -> None:
    errors = RecentErrors(quotes=True)
    for number in range(2 * MOST_KINDS):
        key = KEY._replace(version=str(number))
        errors.add("m", key, Code.NOT_FOUND, NotFound("x" * 10 * LONGEST_TEXT))
    kept = errors.newest()
    assert [kind.key.version for kind, _ in kept] == [
        str(number) for number in reversed(range(MOST_KINDS, 2 * MOST_KINDS))
    ]
    assert {len(each.text or "") for _, each in kept} == {LONGEST_TEXT}


def test_a_text_that_may_quote_a_request_is_kept_only_where_callers_are_known() -> None:
    for quotes, expected in ((True, "value 7"), (False, None)):
        errors = RecentErrors(quotes=quotes)
        errors.add("m", KEY, Code.INVALID_ARGUMENT, InvalidRequest("value 7"))
        assert errors.newest()[0][1].text == expected


def test_secrets_and_texts_of_defects_are_not_kept() -> None:
    errors = RecentErrors(quotes=True)
    errors.add("m", KEY, Code.NOT_FOUND, NotFound("s3://key:word@b\nis gone"))
    errors.add("m", KEY, Code.INTERNAL, ValueError("whatever a library says"))
    assert [each.text for _, each in errors.newest()] == [None, "s3://***@b\\nis gone"]


def test_a_client_that_left_is_no_defect() -> None:
    errors = RecentErrors(quotes=False)
    errors.add("m", KEY, Code.CANCELLED, asyncio.CancelledError())
    assert errors.newest()[0][1].text == LEFT


def test_recent_errors_keep_no_exception_in_memory() -> None:
    errors = RecentErrors(quotes=True)
    error = NotFound("gone")
    left = weakref.ref(error)
    errors.add("m", KEY, Code.NOT_FOUND, error)
    del error
    gc.collect()
    assert left() is None
