"""A version that does not answer its golden requests does not serve; the one before goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc

from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, IMAGE, LOADING, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.process import until


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    base = tmp_path / "digits"
    shutil.copytree(SAMPLE / "2", base / "2")
    return base


def put(repository: Path, number: int, name: str, content: bytes) -> None:
    """Copy the sample's second version in, with a file of golden requests, in one step."""
    made = repository.parent / f"made-{number}"
    shutil.copytree(SAMPLE / "2", made)
    (made / name).write_bytes(content)
    made.rename(repository / str(number))


def serving(serve: Serve, repository: Path) -> Server:
    often = "--file_system_poll_wait_seconds=0.1"
    return serve("ie_serving", "model", "--model_name=digits", f"--model_path={repository}", often)


def as_json(server: Server, **changed: Any) -> bytes:
    """Record a request over REST with the server's own reply, some of its outputs changed."""
    request = {"inputs": {"image": IMAGE}}
    reply = server.rest.post("/v1/models/digits:predict", json=request).json()["outputs"]
    golden = {"request": request, "response": {"outputs": {**reply, **changed}}}
    return json.dumps({"requests": [golden]}).encode()


def as_record(server: Server, path: Path, change: float) -> bytes:
    """Record a request over gRPC with the server's own reply, its numbers changed by some."""
    log = prediction_log_pb2.PredictionLog()
    recorded = log.predict_log
    recorded.request.model_spec.name = "digits"
    recorded.request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGE, tf.float32))
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        reply: predict_pb2.PredictResponse = prediction_service_pb2_grpc.PredictionServiceStub(
            channel
        ).Predict(recorded.request, timeout=30)
    for name, tensor in reply.outputs.items():
        array = tf.make_ndarray(tensor)
        if np.issubdtype(array.dtype, np.floating):
            array = array + np.array(change, array.dtype)
        recorded.response.outputs[name].CopyFrom(tf.make_tensor_proto(array))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(log.SerializeToString())
    return path.read_bytes()


def test_a_version_that_answers_otherwise_does_not_serve(serve: Serve, repository: Path) -> None:
    server = serving(serve, repository)
    right = as_json(server)
    put(repository, 3, "golden.json", as_json(server, digit=[11]))
    until(lambda: states(server).get(3) == LOADING and failure(server, 3) != "")
    fault = 'golden request requests[0] of golden.json: output "digit" differs in 1 of 1 values'
    assert fault in failure(server, 3)
    assert states(server)[2] == AVAILABLE
    (repository / "3" / "golden.json").write_bytes(right)
    until(lambda: states(server) == {2: END, 3: AVAILABLE})


def test_files_that_are_none_fail_their_versions_while_others_are_answered(
    serve: Serve, repository: Path
) -> None:
    """Hostile ones, as they come with a model from elsewhere."""
    server = serving(serve, repository)
    worker = server.pids()[-1]
    pair = json.loads(as_json(server))["requests"][0]
    said = {
        b'{"requests": ' + b"[" * 5_000_000: "JSON Parse error",
        json.dumps({"requests": [{**pair, "rtol": float("nan")}]}).encode(): "a finite number",
        json.dumps({"requests": [{**pair, "response": {"outputs": {}}}]}).encode(): "no output",
        json.dumps(
            {"requests": [{**pair, "request": {"inputs": [["x"]]}}]}
        ).encode(): "requests[0]",
        b" " * (65 << 20): "larger than 64 MB",
        b"": "The document is empty",
    }
    with Load(server) as load:
        for version, content in enumerate(said, 3):
            put(repository, version, "golden.json", content)
            until(lambda version=version: failure_of(server, version) != "")  # type: ignore[misc]
            assert said[content] in failure(server, version)
    assert load.failures == []
    assert states(server)[2] == AVAILABLE
    assert server.pids()[-1] == worker
    assert "Traceback" not in server.log


def failure_of(server: Server, version: int) -> str:
    """Why a version does not serve; empty while it is not seen yet."""
    return failure(server, version) if version in states(server) else ""


@pytest.mark.parametrize(("change", "serves"), [(0.0, True), (0.5, False)])
def test_records_of_prediction_logs(
    serve: Serve, repository: Path, tmp_path: Path, change: float, serves: bool
) -> None:
    server = serving(serve, repository)
    put(repository, 3, "golden.tfrecord", as_record(server, tmp_path / "made", change))
    if serves:
        until(lambda: states(server) == {2: END, 3: AVAILABLE})
        return
    until(lambda: states(server).get(3) == LOADING and failure(server, 3) != "")
    assert "golden request record 0 of golden.tfrecord: output" in failure(server, 3)
    assert "by 0.5 where" in failure(server, 3)
