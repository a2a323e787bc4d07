"""The Prometheus page: TensorFlow Serving's names, labels and text."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.telemetry.metrics.page import (
    COMPARED,
    LINES_AT_ONCE,
    LOADS,
    SIGNATURES,
    VERSIONS,
    Metrics,
)
from ie_serving.telemetry.metrics.tensorflow_families import (
    LONGEST_NAME,
    MOST_ASKED,
    REQUEST_COUNT,
    REQUEST_LATENCY,
)
from ie_serving.telemetry.metrics.text import BOUNDS_US
from tests.unit.telemetry.pages import GRPC, REST, fail, of, samples, serve

EMPTY = """\
# TYPE :tensorflow:serving:request_count counter
# TYPE :tensorflow:serving:request_latency histogram
"""


def test_a_page_without_requests_has_no_series_of_them() -> None:
    assert Metrics().text() == EMPTY


def test_the_page_is_that_of_tensorflow_serving() -> None:
    """No HELP, no `_total`, labels in its order, six digits in `le`, one newline at the end."""
    metrics = Metrics()
    serve(metrics, "resnet", GRPC, 20e-6)
    lines = metrics.text().partition("# HELP")[0].split("\n")
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


def test_the_buckets_are_those_of_tensorflow_serving() -> None:
    metrics = Metrics()
    serve(metrics, "m", REST, 1e-6)
    bounds = re.findall(rf'^{REQUEST_LATENCY}.*le="([^"]+)"', metrics.text(), re.MULTILINE)
    assert len(bounds) == 33 + 1
    assert bounds[:8] == ["10", "18", "32.4", "58.32", "104.976", "188.957", "340.122", "612.22"]
    assert "1.27482e+06" in bounds


@given(st.lists(st.floats(0, 1e12), min_size=1))
def test_buckets_are_cumulative_and_hold_every_duration(durations: list[float]) -> None:
    metrics = Metrics()
    for duration in durations:
        serve(metrics, "m", GRPC, duration / 1e6)
    read = samples(metrics)
    assert read[
        f"{REQUEST_COUNT}_total", frozenset({("model_name", "m"), ("status", "OK")})
    ] == len(durations)
    name = ":tensorflow:serving:request_latency"
    labels = {("model_name", "m"), ("API", "Predict"), ("entrypoint", "GRPC")}
    for bound in BOUNDS_US:
        key = (f"{name}_bucket", frozenset({*labels, ("le", f"{bound:g}")}))
        assert read[key] == sum(duration / 1e6 <= bound / 1e6 for duration in durations)
    assert read[f"{name}_bucket", frozenset({*labels, ("le", "+Inf")})] == len(durations)
    assert read[f"{name}_count", frozenset(labels)] == len(durations)
    assert read[f"{name}_sum", frozenset(labels)] == pytest.approx(sum(durations))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n")))
def test_any_model_name_leaves_the_page_readable(name: str) -> None:
    metrics = Metrics()
    metrics.add(name)
    fail(metrics, name, "INTERNAL")
    labels = frozenset({("model_name", name), ("status", "INTERNAL")})
    assert samples(metrics)[f"{REQUEST_COUNT}_total", labels] == 1


def test_requests_for_unknown_models_have_the_name_that_was_asked_for() -> None:
    """Callers that make up names grow the page by a hundred lines at most; then they share ""."""
    metrics = Metrics()
    for number in range(1000):
        fail(metrics, f"made up {number}" + "x" * 1000, "NOT_FOUND")
    counted = of(metrics, f"{REQUEST_COUNT}_total", "model_name", status="NOT_FOUND")
    assert counted.pop(("",)) == 1000 - MOST_ASKED
    assert set(counted.values()) == {1}
    assert len(counted) == MOST_ASKED
    assert max(len(name) for (name,) in counted) == LONGEST_NAME
    assert len(metrics.text().splitlines()) < MOST_ASKED + 12
    assert "made up" not in "".join(line for line in metrics.text().splitlines() if line[0] != ":")


def test_a_model_is_bound_once_and_counts_on() -> None:
    metrics = Metrics()
    bound = metrics.add("m")
    served = metrics.served("m", GRPC)
    assert metrics.add("m") is bound
    assert metrics.of("m") is bound
    assert metrics.served("m", GRPC) is served


def test_a_bound_series_stands_on_the_page_once_it_has_been_asked() -> None:
    """A warm-up binds it before any request."""
    metrics = Metrics()
    metrics.served("m", GRPC)
    assert metrics.text() == EMPTY


def test_a_model_that_is_not_kept_leaves_the_page_and_its_holders_unharmed() -> None:
    metrics = Metrics()
    bound = metrics.add("m")
    bound.requests.count(GRPC, "INTERNAL")
    metrics.keep(())
    bound.requests.count(GRPC, "INTERNAL")
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
    fail(metrics, "", "INVALID_ARGUMENT")
    metrics.keep(())
    fail(metrics, "nobody", "NOT_FOUND")
    assert metrics.text().count(f"\n{REQUEST_COUNT}{{") == 2


def test_latency_is_kept_apart_by_interface() -> None:
    metrics = Metrics()
    serve(metrics, "m", GRPC, 1e-6)
    serve(metrics, "m", REST, 1e-6)
    assert of(metrics, f"{REQUEST_LATENCY}_count", "model_name", "API", "entrypoint") == {
        ("m", "Predict", "GRPC"): 1,
        ("m", "predict", "REST"): 1,
    }


def test_loads_count_by_how_they_ended() -> None:
    metrics = Metrics()
    for succeeded in (True, False, True):
        metrics.add("m").count_load("/models/m", 1, succeeded)
    assert of(metrics, LOADS, "result") == {("ok",): 2, ("failed",): 1}


def test_versions_are_counted_by_state_when_the_page_is_read() -> None:
    metrics, versions = Metrics(), [("m", 1, "AVAILABLE")]
    metrics.show_states(lambda: versions)
    assert f'{VERSIONS}{{model_name="m",state="AVAILABLE"}} 1' in metrics.text()
    versions[:] = [("m", 1, "LOADING"), ("m", 2, "LOADING")]
    assert f'{VERSIONS}{{model_name="m",state="LOADING"}} 2' in metrics.text()
    assert "AVAILABLE" not in metrics.text()


def test_signatures_are_counted_by_precision_when_the_page_is_read() -> None:
    metrics = Metrics()
    assert SIGNATURES not in metrics.text()
    metrics.show_precisions(lambda: [("m", "bf16"), ("m", "bf16"), ("n", "f32")])
    assert f'{SIGNATURES}{{model_name="m",precision="bf16"}} 2' in metrics.text()
    assert f'{SIGNATURES}{{model_name="n",precision="f32"}} 1' in metrics.text()


def test_signatures_are_counted_by_what_comparing_them_has_shown() -> None:
    metrics = Metrics()
    assert COMPARED not in metrics.text()
    metrics.show_compared(lambda: [("m", "alike"), ("m", "alike"), ("n", "not_compared")])
    assert f'{COMPARED}{{model_name="m",result="alike"}} 2' in metrics.text()
    assert f'{COMPARED}{{model_name="n",result="not_compared"}} 1' in metrics.text()


async def test_other_tasks_run_while_the_states_of_many_models_are_read() -> None:
    """10,000 models on demand, of which none is asked, held up every request for 0.4 s."""
    metrics, turns = Metrics(), 0
    metrics.show_states(lambda: (("m", n, "START") for n in range(20 * LINES_AT_ONCE)))

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    page = bytes(await metrics.own_page())
    others.cancel()
    assert turns >= 20
    assert f'{VERSIONS}{{model_name="m",state="START"}} {20 * LINES_AT_ONCE}\n' in page.decode()
    assert b"\n\n" not in page


async def test_requests_share_the_page_of_several_workers_while_it_is_written() -> None:
    """Each of 60 scrapes at once asked every worker for a page, and the last waited for all."""
    metrics, begun, may_end = Metrics(), 0, asyncio.Event()

    async def united() -> bytes:
        nonlocal begun
        begun += 1
        await may_end.wait()
        return b"page %d" % begun

    metrics.united = united
    asked = [asyncio.create_task(metrics.page()) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    may_end.set()
    assert await asyncio.gather(*asked[1:]) == [b"page 1"] * 2
    assert await metrics.page() == b"page 2"


def test_models_that_are_not_asked_have_no_series() -> None:
    metrics = Metrics()
    metrics.keep(["asked", "idle"])
    before = metrics.text()
    metrics.of("asked").count_load("/models/asked", 1, True)
    assert metrics.of("asked") is metrics.add("asked")
    assert metrics.of("idle") is not metrics.of("unknown") is metrics.of("")
    assert "asked" in metrics.text()
    assert not {"asked", "idle"} & {*before.split('"')}


async def test_a_version_that_comes_while_states_are_read_keeps_its_counts() -> None:
    metrics = Metrics()
    states = [("m", 1, "AVAILABLE")]

    def read() -> Iterator[tuple[str, int, str]]:
        yield from list(states)
        if len(states) == 1:  # the first page has read them
            states.append(("m", 2, "AVAILABLE"))
            metrics.add("m").count_load("/models/m", 2, True)

    metrics.show_states(read)
    metrics.add("m").count_load("/models/m", 1, True)
    await metrics.own_page()
    assert {version for version, *_ in metrics.of("m").attempts} == {"1", "2"}
