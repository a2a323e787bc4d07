"""Which requests are traced, and what their spans say."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry import trace
from ie_serving.telemetry.log.events import MASK
from ie_serving.telemetry.request import trace_context
from ie_serving.telemetry.request.entry import (
    CURRENT,
    MOST_PARTS,
    RequestEntry,
    RequestPart,
    RequestTarget,
    now,
)
from ie_serving.telemetry.request.observers import ObservedInferences, RequestWatch, of_steps
from ie_serving.telemetry.request.trace_context import Parent, Trace
from ie_serving.telemetry.trace import traces
from ie_serving.telemetry.trace.spans import route_of
from ie_serving.telemetry.trace.traces import Traces
from tests.tables import named_by

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MILLISECOND = 1_000_000
ON, OFF = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize("given", [ON, f"00-{TRACE}-{SPAN}-ff", f"cc-{TRACE}-{SPAN}-01-more"])
def test_a_context_of_the_standard_is_taken(given: str) -> None:
    """Source: W3C Trace Context, and its examples."""
    found = trace_context.read(given, "a=b")
    assert found == Parent(int(TRACE, 16), int(SPAN, 16), True, "a=b")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="nothing"),
        pytest.param(ON[:-1], id="a character too few"),
        pytest.param(ON.upper(), id="capitals"),
        pytest.param(f"{ON}-more", id="more behind"),
        pytest.param(f"ff{ON[2:]}", id="version ff"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="no span"),
        pytest.param(f"00-{TRACE}-{SPAN}-0x", id="no flags"),
        pytest.param(f" {ON}", id="a blank before"),
    ],
)
def test_a_header_that_is_no_context_begins_a_trace(given: str) -> None:
    assert trace_context.read(given) is None


def test_a_context_is_handed_on_as_it_is_read() -> None:
    own = Trace(int(TRACE, 16), int(SPAN, 16), state="a=b")
    assert own.headers == {"traceparent": ON, "tracestate": "a=b"}
    assert own._replace(state="").headers == {"traceparent": ON}
    assert trace_context.read(ON, "a" * 8193) == trace_context.read(ON)


@pytest.mark.parametrize(
    ("sampler", "argument", "header", "kept"),
    [
        pytest.param("parentbased_always_on", "", "", True, id="always on by a parent or none"),
        pytest.param("parentbased_always_on", "", OFF, False, id="off by its parent"),
        pytest.param("parentbased_always_off", "", ON, True, id="on by its parent"),
        pytest.param("always_off", "", ON, False, id="always off"),
        pytest.param("always_on", "", OFF, True, id="always on"),
        pytest.param("traceidratio", "0", ON, False, id="a share of 0"),
        pytest.param(
            "parentbased_traceidratio", "0", "", False, id="a share of 0 without a parent"
        ),
        pytest.param(
            "parentbased_traceidratio", "1", "no context", True, id="a share of 1 without a parent"
        ),
        pytest.param("parentbased_traceidratio", "0", ON, True, id="a share of 0 on by its parent"),
        pytest.param("parentbased_traceidratio", "1e-05", "", False, id="a small share"),
    ],
)
def test_the_sampler_of_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, header: str, kept: bool
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument or "1")
    made = Traces("", InMemorySpanExporter())
    found = made.begin("/x", header, "")
    assert (found is not None) is kept
    if found and header in (ON, OFF):
        assert (found.trace_id, found.parent_id) == (int(TRACE, 16), int(SPAN, 16))
    made.close()


@pytest.mark.parametrize("ratio", ["0.25", "1e-05", "0.0", "1.0"])
def test_a_share_is_kept_as_the_library_keeps_it(
    monkeypatch: pytest.MonkeyPatch, ratio: str
) -> None:
    """So that services which are asked one after another keep the same traces."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
    made = Traces("", InMemorySpanExporter())
    library = TraceIdRatioBased(float(ratio))
    bound = library.get_bound_for_rate(float(ratio))
    for trace_id in {1, bound - 1, bound, bound + 1, bound + (1 << 64), (1 << 128) - 1} - {-1, 0}:
        monkeypatch.setattr(traces, "getrandbits", lambda _, given=trace_id: given)
        kept = library.should_sample(None, trace_id, "/x").decision is Decision.RECORD_AND_SAMPLE
        assert (made.begin("/x", "", "") is not None) is kept
    made.close()


def begun(trace: Trace | None, client: object, *asked: str) -> RequestEntry:
    """Make the entry of a request as the transports do."""
    entry = RequestEntry()
    entry.began, entry.client, entry.trace, entry.parts = now(), client, trace, []
    entry.asked = RequestTarget(*asked)
    return entry


def spans_of(
    watch: RequestWatch, exporter: InMemorySpanExporter, entry: RequestEntry
) -> dict[str, Any]:
    watch.end(entry)
    watch.close()
    return {span.name: span for span in exporter.get_finished_spans()}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def watch(exporter: InMemorySpanExporter) -> RequestWatch:
    return RequestWatch(None, Traces("", exporter), timing=False)


def test_only_what_is_kept_has_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what is sampled out costs no more than the decision."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    made = RequestWatch(None, Traces("", InMemorySpanExporter()), timing=False)
    assert (made.trace("/s/Predict", "", ""), made.every) == (None, False)
    made.close()
    assert RequestWatch(None, None, timing=True).every


def test_inferences_and_steps_are_noted_with_their_requests(
    watch: RequestWatch, exporter: InMemorySpanExporter
) -> None:
    trace, client = watch.trace("/pkg.S/Predict", ON, ""), ("10.0.0.7", 51)
    entry = begun(trace, client, "gRPC", "Predict", "/pkg.S/Predict")
    CURRENT.set(entry)
    record = ObservedInferences("m", 3)
    record.ran.append(1e-6)
    record.waited(2e-6)
    steps: list[tuple[str, float]] = []
    of_steps(lambda *step: steps.append(step))("one", 1.0)
    entry.code = "INTERNAL"
    spans = spans_of(watch, exporter, entry)
    assert [*spans] == ["pkg.S/Predict", "step one", "queue", "infer"]
    assert (len(record.durations), len(record.waits), steps) == (1, 1, [("one", 1.0)])
    queue, infer = spans["queue"], spans["infer"]
    assert queue.end_time == infer.start_time
    assert infer.end_time - infer.start_time == pytest.approx(1000, abs=1)
    assert infer.parent.span_id == spans["step one"].context.span_id
    assert infer.attributes == {"ie_serving.model.name": "m", "ie_serving.model.version": 3}
    own = spans["pkg.S/Predict"]
    assert (own.status.status_code.name, own.attributes["error.type"]) == ("ERROR", "INTERNAL")
    assert own.attributes["client.address"] == "10.0.0.7"


def test_a_state_that_is_none_is_left_out_without_a_word(
    watch: RequestWatch, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger could fill the log with it."""
    trace = watch.trace("/pkg.S/Predict", ON, "whatever; a stranger sends")
    entry = begun(trace, None, "gRPC", "Predict", "/pkg.S/Predict")
    entry.code = "OK"
    (span,) = spans_of(watch, exporter, entry).values()
    assert (len(span.context.trace_state), caplog.messages) == (0, [])


def test_a_batch_has_the_time_in_which_it_ran(
    watch: RequestWatch, exporter: InMemorySpanExporter
) -> None:
    """As of requests, in nanoseconds since 1970, although nothing but its parts is noted of it."""
    trace = watch.trace("/pkg.S/Predict", ON, "") if watch.trace else None
    before, entry, own = time.time_ns(), begun(trace, None, "gRPC", "Predict", "/p"), RequestEntry()
    own.began = now()
    watch.batch(own, [(entry, 0.0)])
    watch.close()
    (span,) = exporter.get_finished_spans()
    assert before - MILLISECOND < span.start_time <= span.end_time < time.time_ns() + MILLISECOND


def test_a_path_is_masked_as_in_the_logs(
    watch: RequestWatch, exporter: InMemorySpanExporter
) -> None:
    trace = watch.trace("/x", ON, "") if watch.trace else None
    entry = begun(trace, None, "REST", "GET", "/x/api_key=hunter2")
    entry.code = 404
    (span,) = spans_of(watch, exporter, entry).values()
    assert span.attributes["url.path"] == f"/x/api_key={MASK}"


def test_parts_of_a_request_are_bounded() -> None:
    entry = RequestEntry()
    entry.add(RequestPart("infer", "m", 1, 0.0, 1.0))
    assert entry.parts is None
    entry.parts = []
    for _ in range(MOST_PARTS + 1):
        entry.add(RequestPart("infer", "m", 1, 0.0, 1.0))
    CURRENT.set(entry)
    record = ObservedInferences("m", 2)
    record.ran.append(1.0)
    record.waited(1.0)
    assert len(entry.parts) == MOST_PARTS
    assert {part.waited_s for part in entry.parts} == {0.0}


@named_by(
    "path",
    ("path", "code", "route"),
    [
        ("/v1/models/m:predict", 200, "/v1/models/{model}:predict"),
        (
            "/v1/models/m/versions/12:classify",
            404,
            "/v1/models/{model}/versions/{version}:classify",
        ),
        ("/v1/models/m/labels/a/metadata", 200, "/v1/models/{model}/labels/{label}/metadata"),
        ("/v2/models/m/ready", 503, "/v2/models/{model}/ready"),
        ("/metrics", 200, "/metrics"),
        ("/a/stranger's/path", 404, ""),
        ("/v1/models/m:guess", 400, ""),
    ],
)
def test_routes_are_few(path: str, code: int, route: str) -> None:
    """A program that counts spans by name counts as many names as there are routes."""
    assert route_of(path, code) == route


def test_a_collector_that_hangs_holds_the_end_up_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hanging(SpanExporter):
        ended = threading.Event()

        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            self.ended.wait()
            return SpanExportResult.FAILURE

        def shutdown(self) -> None:
            pass

    monkeypatch.setattr(traces, "CLOSE_S", 0.05)
    made = RequestWatch(None, Traces("", Hanging()), timing=False)
    trace = made.trace("/pkg.S/Predict", ON, "")
    entry = begun(trace, None, "gRPC", "Predict", "/pkg.S/Predict")
    entry.code = "OK"
    made.end(entry)
    made.close()
    Hanging.ended.set()


def test_an_exporter_that_cannot_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trace.check("", "grpc")
    trace.check("http://collector:4318/v1/traces", "http/protobuf")
    with pytest.raises(ServingError, match='"grpc" is asked for'):
        trace.check("http://collector:4317/v1/traces", "grpc")
    monkeypatch.setattr(trace, "EXPORTER", "opentelemetry.absent.http")
    with pytest.raises(ServingError, match="extra otel"):
        trace.check("http://collector:4318/v1/traces", "http/protobuf")
