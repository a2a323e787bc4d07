"""Traces by OpenTelemetry, and `Server-Timing`: a real server, and a real receiver of OTLP."""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_hex
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.functional.asking import predict_request
from tests.functional.graph_models import total
from tests.functional.servers import Server
from tests.functional.test_transports import TRANSPORTS
from tests.process import PATIENCE_S, until
from tests.unit.engines.openvino.models import linear

TOLD = """
TEXT = {"dtype": "string", "shape": []}

class Told:
    def metadata(self):
        x = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": x}, "outputs": {"parent": TEXT, "state": TEXT}}
    def execute(self, inputs, ctx):
        if inputs["x"][0] < 0:
            raise ValueError("hunter2")
        return {"parent": ctx.headers["traceparent"], "state": ctx.headers.get("tracestate", "")}
"""
SERVER, INTERNAL = 2, 1
"""Kinds of spans, as OTLP has them."""
ERROR = 2
"""Code of a status."""
BODY = {"inputs": {"x": [[31337.0, 2.0, 3.0, 4.0]]}}


class Span:
    """One that was received."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.name: str = message.name
        self.id: str = message.span_id.hex()
        self.parent: str = message.parent_span_id.hex()
        self.trace: str = message.trace_id.hex()
        self.began, self.ended = message.start_time_unix_nano, message.end_time_unix_nano

    @property
    def attributes(self) -> dict[str, Any]:
        return _values(self.message.attributes)

    @property
    def links(self) -> list[str]:
        return [link.span_id.hex() for link in self.message.links]

    @property
    def linked_traces(self) -> list[str]:
        return [link.trace_id.hex() for link in self.message.links]


def _values(pairs: Any) -> dict[str, Any]:
    values = ((each.key, each.value) for each in pairs)
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values}


class Collector(ThreadingHTTPServer):
    """Takes spans, as a collector does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.received: list[bytes] = []
        self.spans: list[Span] = []
        self.resource: dict[str, Any] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self, data: bytes) -> None:
        self.received.append(data)
        for each in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.resource = _values(each.resource.attributes)
            self.spans += [Span(span) for scope in each.scope_spans for span in scope.spans]

    def of(self, trace: str) -> dict[str, Span]:
        """Wait for the whole trace, which comes at once; give its spans by name."""
        until(lambda: any(span.trace == trace for span in list(self.spans)))
        return {span.name: span for span in list(self.spans) if span.trace == trace}

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        self.server.take(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with closing(Collector()) as started:
        yield started


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("traces")
    linear(root / "scaler" / "1", 2.0)
    total(root / "scorer" / "1")
    (root / "told" / "1").mkdir(parents=True)
    (root / "told" / "1" / "kernel.py").write_text(TOLD)
    gathering = {"base_path": "scaler", "max_batch_size": 16, "batch_timeout_micros": 20_000}
    models = {
        "scaler": {},
        "scorer": {},
        "told": {"kernel": "kernel.py:Told"},
        # In lanes, so that requests wait for each other.
        "batched": {**gathering, "execution": "async", "num_batch_threads": 1},
    }
    graph = {
        "name": "scored",
        "steps": {
            "scale": {"model": "scaler", "in": {"x": "request.x"}},
            "score": {"model": "scorer", "in": {"x": "scale.y"}},
        },
        "outputs": {"score": "score.score"},
    }
    entries = [{"config": {"name": name, "base_path": name, **own}} for name, own in models.items()]
    path = root / "config.json"
    path.write_text(json.dumps({"model_config_list": entries, "graphs": [graph]}))
    return path


@pytest.fixture(scope="module", params=TRANSPORTS)
def server(request: pytest.FixtureRequest, file: Path, collector: Collector) -> Iterator[Server]:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "NO_PROXY": "*",
    }
    flags = ("--allow_python", "--server_timing", f"--grpc_transport={request.param}")
    flags += ("--file_system_poll_wait_seconds=0",)
    with Server("ie_serving", "config", f"--config_path={file}", *flags, env=variables) as started:
        yield started.ready()


def context() -> tuple[str, str, str]:
    """Make up a context: trace id, span id, traceparent."""
    trace, span = token_hex(16), token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


def request(model: str) -> Any:
    made = predict_request(model, x=np.float32(BODY["inputs"]["x"]))
    return made


def within(outer: Span, *inner: Span) -> bool:
    """Tell whether spans lie in another one, one after the other, to a microsecond."""
    times = [outer.began, *(time for span in inner for time in (span.began, span.ended))]
    times.append(outer.ended)
    return all(a <= b + 1000 for a, b in itertools.pairwise(times))


def test_a_request_over_grpc_has_its_spans(server: Server, collector: Collector) -> None:
    trace, parent, header = context()
    metadata = (("traceparent", header), ("x-request-id", "r-7"))
    server.prediction.Predict(request("scaler"), PATIENCE_S, metadata=metadata)
    spans = collector.of(trace)
    own = spans["tensorflow.serving.PredictionService/Predict"]
    assert (own.parent, own.message.kind, own.message.status.code) == (parent, SERVER, 0)
    attributes = own.attributes
    assert attributes.pop("client.address") == "127.0.0.1"
    assert 0 < attributes.pop("client.port") < 65536
    assert attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": "tensorflow.serving.PredictionService/Predict",
        "rpc.response.status_code": "OK",
        "ie_serving.model.name": "scaler",
        "ie_serving.model.version": 1,
        "ie_serving.request.id": "r-7",
    }
    parts = [spans[name] for name in ("decode", "infer", "encode")]
    assert within(own, *parts)
    assert {part.parent for part in parts} == {own.id}
    assert {part.message.kind for part in parts} == {INTERNAL}
    assert spans["infer"].attributes["ie_serving.model.name"] == "scaler"
    assert collector.resource["service.name"] == "shop"


def test_a_request_over_rest(server: Server, collector: Collector) -> None:
    """Whose body is large, and comes in pieces."""
    trace, parent, header = context()
    text = json.dumps({"inputs": {"x": BODY["inputs"]["x"] * 9000}}).encode()
    reply = server.rest.post(
        "/v1/models/scaler/versions/1:predict",
        content=iter([text[:9], text[9:-9], text[-9:]]),
        headers={"traceparent": header},
    )
    assert reply.status_code == 200
    spans = collector.of(trace)
    route = "/v1/models/{model}/versions/{version}:predict"
    own = spans[f"POST {route}"]
    assert (own.parent, own.message.kind) == (parent, SERVER)
    assert own.attributes == own.attributes | {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": route,
        "url.path": "/v1/models/scaler/versions/1:predict",
        "url.scheme": "http",
        "ie_serving.model.version": 1,
    }
    assert within(own, *(spans[name] for name in ("receive", "decode", "infer", "encode")))


def test_each_step_of_a_graph_has_its_inference(server: Server, collector: Collector) -> None:
    trace, _, header = context()
    url = "/v1/models/scored:predict"
    server.rest.post(url, json=BODY, headers={"traceparent": header}).raise_for_status()
    until(lambda: "step score" in collector.of(trace))
    spans = [span for span in collector.spans if span.trace == trace]
    steps = {span.name: span for span in spans if span.name.startswith("step ")}
    assert within(steps["step scale"], steps["step scale"])
    inferences = [span for span in spans if span.name == "infer"]
    of = {span.parent: span.attributes["ie_serving.model.name"] for span in inferences}
    assert of == {steps["step scale"].id: "scaler", steps["step score"].id: "scorer"}


def test_a_batch_links_to_its_requests(server: Server, collector: Collector) -> None:
    traces: set[str] = set()

    def ask() -> Any:
        trace, _, header = context()
        traces.add(trace)
        metadata = (("traceparent", header),)
        return server.prediction.Predict.future(request("batched"), PATIENCE_S, metadata=metadata)

    def shared() -> list[Span]:
        """Ask many times at once; give batches of more than one request. A lone one has none."""
        for call in [ask() for _ in range(24)]:
            call.result()
        linking = [span for span in list(collector.spans) if len(span.links) > 1]
        return [span for span in linking if {*span.linked_traces} <= traces]

    until(lambda: bool(shared()))
    largest = max(shared(), key=lambda span: len(span.links))
    assert largest.name == "batch"
    assert largest.attributes == {
        "ie_serving.model.name": "batched",
        "ie_serving.model.version": 1,
        "ie_serving.batch.requests": len(largest.links),
    }
    assert (largest.parent, largest.trace in traces) == ("", False)

    def linked() -> set[str]:
        return {span.parent for span in list(collector.spans) if largest.id in span.links}

    until(lambda: linked() == {*largest.links})


def test_the_span_of_a_failed_request_has_its_status(server: Server, collector: Collector) -> None:
    """By OpenTelemetry's conventions a client's fault is no error of the server's span."""
    trace, _, header = context()
    with suppress(grpc.RpcError):
        server.prediction.Predict(
            request("absent"), PATIENCE_S, metadata=(("traceparent", header),)
        )
    own = collector.of(trace)["tensorflow.serving.PredictionService/Predict"]
    assert own.attributes["rpc.response.status_code"] == "NOT_FOUND"
    assert (own.message.status.code, "error.type" in own.attributes) == (0, False)
    trace, _, header = context()
    body, headers = {"inputs": {"x": [-1.0]}}, {"traceparent": header}
    reply = server.rest.post("/v1/models/told:predict", json=body, headers=headers)
    assert reply.status_code == 500
    own = collector.of(trace)["POST /v1/models/{model}:predict"]
    assert (own.message.status.code, own.attributes["error.type"]) == (ERROR, "500")


def test_a_kernel_gets_the_context_of_its_request(server: Server, collector: Collector) -> None:
    trace, _, header = context()
    headers = {"traceparent": header, "tracestate": "rojo=00f067aa0ba902b7"}
    body = {"inputs": {"x": [1.0]}}
    reply = server.rest.post("/v1/models/told:predict", json=body, headers=headers)
    own = collector.of(trace)["POST /v1/models/{model}:predict"]
    assert reply.json()["outputs"] == {
        "parent": f"00-{trace}-{own.id}-01",
        "state": "rojo=00f067aa0ba902b7",
    }
    assert own.message.trace_state == "rojo=00f067aa0ba902b7"
    assert "infer" in collector.of(trace)


def test_a_request_that_is_not_sampled_is_not_sent(server: Server, collector: Collector) -> None:
    """And what is sent holds no data, headers or queries."""
    trace, _, header = context()
    not_sampled = f"{header[:-2]}00"
    metadata = (("traceparent", not_sampled),)
    server.prediction.Predict(request("scaler"), PATIENCE_S, metadata=metadata)
    server.prediction.Predict(request("scaler"), PATIENCE_S)
    last, _, header = context()
    secret = {"traceparent": header, "authorization": "Bearer hunter2"}
    server.rest.post("/v1/models/scaler:predict?key=hunter2", json=BODY, headers=secret)
    collector.of(last)
    known = {span.trace for span in collector.spans}
    assert trace not in known
    assert not re.search(rb"hunter2|31337", b"".join(collector.received))


def test_replies_over_rest_tell_their_times(server: Server) -> None:
    reply = server.rest.post("/v1/models/scaler:predict", json=BODY)
    given = dict(re.findall(r"(\w+);dur=([0-9.]+)", reply.headers["server-timing"]))
    assert [*given] == ["decode", "queue", "infer", "encode", "total"]
    *parts, whole = map(float, given.values())
    assert 0 < sum(parts) <= whole + 0.005
    assert "x-request-id" not in reply.headers
    page = server.rest.get("/v1/models")
    assert re.fullmatch(r"total;dur=[0-9.]+", page.headers["server-timing"])
