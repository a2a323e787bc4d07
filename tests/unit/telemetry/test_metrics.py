"""The Prometheus page: TensorFlow Serving's names, labels and text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ie_serving.telemetry.metrics import (
    BOUNDS,
    LOADS,
    REQUEST_COUNT,
    REQUEST_LATENCY,
    SIGNATURES,
    VERSION_MEMORY,
    VERSIONS,
    Metrics,
)

EMPTY = """\
# TYPE :tensorflow:serving:request_count counter
# TYPE :tensorflow:serving:request_latency histogram
"""


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Read the page with an independent parser, which adds `_total` to counters."""
    return {
        (sample.name.removesuffix("_total"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }


def test_a_page_without_requests() -> None:
    assert Metrics().text() == EMPTY


def test_the_page_is_that_of_tensorflow_serving() -> None:
    """No HELP, no `_total`, labels in its order, six digits in `le`, one newline at the end."""
    metrics = Metrics()
    metrics.add("resnet").served("Predict", "GRPC").add(20)
    lines = metrics.text().split("\n")
    labels = 'model_name="resnet",API="Predict",entrypoint="GRPC"'
    assert lines[:6] == [
        "# TYPE :tensorflow:serving:request_count counter",
        ':tensorflow:serving:request_count{model_name="resnet",status="OK"} 1',
        "# TYPE :tensorflow:serving:request_latency histogram",
        f':tensorflow:serving:request_latency_bucket{{{labels},le="10"}} 0',
        f':tensorflow:serving:request_latency_bucket{{{labels},le="18"}} 0',
        f':tensorflow:serving:request_latency_bucket{{{labels},le="32.4"}} 1',
    ]
    assert lines[-5:] == [
        f':tensorflow:serving:request_latency_bucket{{{labels},le="1.47476e+09"}} 1',
        f':tensorflow:serving:request_latency_bucket{{{labels},le="+Inf"}} 1',
        f":tensorflow:serving:request_latency_sum{{{labels}}} 20",
        f":tensorflow:serving:request_latency_count{{{labels}}} 1",
        "",
    ]


def test_the_buckets_of_tensorflow_serving() -> None:
    metrics = Metrics()
    metrics.add("m").served("predict", "REST").add(1)
    bounds = re.findall(r'le="([^"]+)"', metrics.text())
    assert len(bounds) == 33 + 1
    assert bounds[:8] == ["10", "18", "32.4", "58.32", "104.976", "188.957", "340.122", "612.22"]
    assert "1.27482e+06" in bounds


@given(st.lists(st.floats(0, 1e12), min_size=1))
def test_buckets_are_cumulative_and_hold_every_duration(durations: list[float]) -> None:
    metrics = Metrics()
    served = metrics.add("m").served("Predict", "GRPC")
    for duration in durations:
        served.add(duration)
    read = samples(metrics)
    assert read[REQUEST_COUNT, frozenset({("model_name", "m"), ("status", "OK")})] == len(durations)
    name = ":tensorflow:serving:request_latency"
    labels = {("model_name", "m"), ("API", "Predict"), ("entrypoint", "GRPC")}
    for bound in BOUNDS:
        key = (f"{name}_bucket", frozenset({*labels, ("le", f"{bound:g}")}))
        assert read[key] == sum(duration <= bound for duration in durations)
    assert read[f"{name}_bucket", frozenset({*labels, ("le", "+Inf")})] == len(durations)
    assert read[f"{name}_count", frozenset(labels)] == len(durations)
    assert read[f"{name}_sum", frozenset(labels)] == pytest.approx(sum(durations))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n")))
def test_any_model_name_leaves_the_page_readable(name: str) -> None:
    metrics = Metrics()
    metrics.add(name).count("OK")
    key = (REQUEST_COUNT, frozenset({("model_name", name), ("status", "OK")}))
    assert samples(metrics)[key] == 1


def test_requests_for_unknown_models_share_the_empty_name() -> None:
    """Callers that make up names do not grow the page."""
    metrics = Metrics()
    for number in range(1000):
        metrics.of(f"made up {number}").count("NOT_FOUND")
    assert metrics.text().splitlines()[1:2] == [
        ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 1000'
    ]
    assert len(metrics.text()) < 2 * len(EMPTY)


def test_a_model_is_bound_once_and_counts_on() -> None:
    metrics = Metrics()
    bound = metrics.add("m")
    served = bound.served("Predict", "GRPC")
    assert metrics.add("m") is bound
    assert metrics.of("m") is bound
    assert bound.served("Predict", "GRPC") is served


def test_what_is_bound_stands_on_the_page_when_it_has_been_asked() -> None:
    """A warm-up binds it before any request."""
    metrics = Metrics()
    metrics.add("m").served("Predict", "GRPC")
    assert metrics.text() == EMPTY


def test_a_model_that_is_not_kept_leaves_the_page_and_its_holders_unharmed() -> None:
    metrics = Metrics()
    bound = metrics.add("m")
    bound.count("OK")
    metrics.keep(())
    bound.count("OK")
    assert metrics.text() == EMPTY
    assert metrics.add("m") is not bound


def test_a_model_that_is_kept_counts_on_and_a_new_one_has_series_at_once() -> None:
    metrics = Metrics()
    bound = metrics.add("m")
    metrics.keep(["m", "n"])
    assert metrics.of("m") is bound
    assert metrics.of("n") is not metrics.of("")


def test_the_series_of_unknown_models_stay() -> None:
    metrics = Metrics()
    metrics.of("").count("INVALID_ARGUMENT")
    metrics.keep(())
    metrics.of("nobody").count("NOT_FOUND")
    assert len([line for line in metrics.text().splitlines() if REQUEST_COUNT in line]) == 3


def test_latency_is_kept_apart_by_interface() -> None:
    metrics = Metrics()
    metrics.add("m").served("Predict", "GRPC").add(1)
    metrics.add("m").served("predict", "REST").add(1)
    counted = [labels for (name, labels) in samples(metrics) if name == f"{REQUEST_LATENCY}_count"]
    assert {
        frozenset({("model_name", "m"), ("API", api), ("entrypoint", entry)})
        for api, entry in (("Predict", "GRPC"), ("predict", "REST"))
    } == set(counted)


def test_loads_count_by_how_they_ended() -> None:
    metrics = Metrics()
    for succeeded in (True, False, True):
        metrics.add("m").count_load(succeeded)
    found = {
        dict(labels)["result"]: value
        for (name, labels), value in samples(metrics).items()
        if name == LOADS
    }
    assert found == {"ok": 2, "failed": 1}


def test_versions_are_counted_by_state_when_the_page_is_read() -> None:
    metrics, versions = Metrics(), [("m", "AVAILABLE")]
    metrics.show_versions(lambda: versions)
    assert f'{VERSIONS}{{model_name="m",state="AVAILABLE"}} 1' in metrics.text()
    versions[:] = [("m", "LOADING")] * 2
    assert f'{VERSIONS}{{model_name="m",state="LOADING"}} 2' in metrics.text()
    assert "AVAILABLE" not in metrics.text()


def test_signatures_are_counted_by_precision_when_the_page_is_read() -> None:
    metrics = Metrics()
    assert SIGNATURES not in metrics.text()
    metrics.show_precisions(lambda: [("m", "bf16"), ("m", "bf16"), ("n", "f32")])
    assert f'{SIGNATURES}{{model_name="m",precision="bf16"}} 2' in metrics.text()
    assert f'{SIGNATURES}{{model_name="n",precision="f32"}} 1' in metrics.text()


def test_the_memory_of_versions_is_told_when_the_page_is_read() -> None:
    metrics = Metrics()
    assert VERSION_MEMORY not in metrics.text()
    metrics.show_memory(lambda: [("m", 2, 1000)])
    assert f'{VERSION_MEMORY}{{model_name="m",version="2"}} 1000' in metrics.text()
