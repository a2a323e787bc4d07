"""Either transport of gRPC carries the same: the server's own HTTP/2, and grpcio's."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tensorflow_serving.apis import prediction_service_pb2_grpc

from ie_serving.core.values.errors import WHOLE
from tests.functional.asking import predict_request
from tests.functional.servers import SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S

TRANSPORTS = ("http2", "grpcio")
ROWS_OF_8_MB = 8 * 1024 * 1024 // (64 * 4)
SERVICE = "tensorflow.serving.PredictionService"
ROUND_ROBIN = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


def start(transport: str) -> Server:
    return Server("ie_serving", "model", *SAMPLE_FLAGS, f"--grpc_transport={transport}")


@pytest.fixture(scope="module", params=TRANSPORTS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with closing(start(request.param)) as server:
        yield server.ready()


def predict(rows: int = 1, **spec: str) -> Any:
    image = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64) % 17
    return predict_request(spec.get("name", "digits"), spec.get("signature", ""), image=image)


def rows_of(reply: Any) -> int:
    return int(reply.outputs["digit"].tensor_shape.dim[0].size)


@pytest.mark.parametrize("rows", [1, 100, ROWS_OF_8_MB])
def test_predict_answers_small_and_large_requests(server: Server, rows: int) -> None:
    """Small and of 8 MB."""
    assert rows_of(server.prediction.Predict(predict(rows), PATIENCE_S)) == rows


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_request_is_answered(server: Server, compression: grpc.Compression) -> None:
    reply = server.prediction.Predict(predict(100), PATIENCE_S, compression=compression)
    assert rows_of(reply) == 100


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (
            predict(name="none"),
            grpc.StatusCode.NOT_FOUND,
            "Servable not found for request: Latest(none)",
        ),
        (
            predict(signature="none"),
            grpc.StatusCode.FAILED_PRECONDITION,
            'Serving signature key "none" not found.',
        ),
        (
            predict(name="\u00e9\n%41"),
            grpc.StatusCode.NOT_FOUND,
            "Servable not found for request: Latest(\u00e9\n%41)",
        ),
    ],
    ids=["unknown model", "unknown signature", "any characters"],
)
def test_an_error_has_its_code_and_its_text(
    server: Server, request_: Any, code: grpc.StatusCode, text: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        server.prediction.Predict(request_, PATIENCE_S)
    assert refused.value.code() is code
    assert refused.value.details() == text
    whole = unquote(dict(refused.value.trailing_metadata())[WHOLE])
    assert whole.startswith(text) and "digits" in whole[len(text) :]


@pytest.mark.parametrize("size", [10, 5_000_000], ids=["small", "large"])
def test_an_unknown_method_is_unimplemented(server: Server, size: int) -> None:
    """Refused before the request is there; the client is not confused."""
    with rpc_refused("UNIMPLEMENTED"):
        server.channel.unary_unary(f"/{SERVICE}/None")(bytes(size), timeout=PATIENCE_S)


def test_a_request_ends_at_its_deadline(server: Server) -> None:
    with rpc_refused("DEADLINE_EXCEEDED"):
        server.prediction.Predict(predict(ROWS_OF_8_MB), 0.001)
    assert rows_of(server.prediction.Predict(predict(), PATIENCE_S)) == 1


def test_a_cancelled_call(server: Server) -> None:
    with _standing_still(server):  # else the reply may be there before the cancellation
        call = server.prediction.Predict.future(predict(ROWS_OF_8_MB), PATIENCE_S)
        call.cancel()
    with pytest.raises(grpc.FutureCancelledError):
        call.result()
    assert rows_of(server.prediction.Predict(predict(), PATIENCE_S)) == 1


@contextmanager
def _standing_still(server: Server) -> Iterator[None]:
    worker = server.pids()[1]
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def test_many_calls_on_one_channel(server: Server) -> None:
    """More at a time than there are threads, and each gets its own reply."""
    sizes = [1 + i % 50 for i in range(200)]
    calls = [server.prediction.Predict.future(predict(n), PATIENCE_S) for n in sizes]
    assert [rows_of(call.result()) for call in calls] == sizes


def test_health_is_told_for_each_service(server: Server) -> None:
    health = health_pb2_grpc.HealthStub(server.channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for name in ("", SERVICE):
        asked = health_pb2.HealthCheckRequest(service=name)
        assert health.Check(asked, timeout=PATIENCE_S).status == serving
        watch = health.Watch(asked, timeout=PATIENCE_S)
        assert next(watch).status == serving
        watch.cancel()
    with rpc_refused("NOT_FOUND"):
        health.Check(health_pb2.HealthCheckRequest(service="none"), timeout=PATIENCE_S)


def test_reflection_describes_the_services(server: Server) -> None:
    """The client of grpcio, which grpcurl resembles."""
    database = ProtoReflectionDescriptorDatabase(server.channel)
    assert {SERVICE, "grpc.health.v1.Health"} <= set(database.get_services())
    file = database.FindFileContainingSymbol(SERVICE)
    assert "PredictionService" in [service.name for service in file.service]


def test_a_server_that_ends_under_load_fails_no_call() -> None:
    """As in a rolling update: a client of two servers, one of which is told to stop.

    Of our own transport only: grpcio's answers CANCELLED to a call that comes while it stops.
    """
    with closing(start("http2")) as leaving, closing(start("http2")) as staying:
        leaving.ready()
        staying.ready()
        addresses = f"ipv4:127.0.0.1:{leaving.port},127.0.0.1:{staying.port}"
        options = [("grpc.service_config", ROUND_ROBIN)]
        with grpc.insecure_channel(addresses, options=options) as channel:
            grpc.channel_ready_future(channel).result(PATIENCE_S)
            stub: Any = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            ended = threading.Event()

            def ask() -> int:
                count = 0
                while not ended.is_set() or not count:
                    assert rows_of(stub.Predict(predict(50), PATIENCE_S)) == 50
                    count += 1
                return count

            with ThreadPoolExecutor(8) as threads:
                asking = [threads.submit(ask) for _ in range(8)]
                try:
                    stub.Predict(predict(), PATIENCE_S)
                    assert leaving.stop() == 0
                    stub.Predict(predict(), PATIENCE_S)
                finally:
                    ended.set()
                assert all(each.result(PATIENCE_S) for each in asking)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_watch_is_told_that_the_server_ends(transport: str) -> None:
    with closing(start(transport)) as server:
        server.ready()
        health = health_pb2_grpc.HealthStub(server.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        server.popen.terminate()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert list(watch) == []
        assert server.exit_code() == 0
