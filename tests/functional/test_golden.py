"""A version that does not answer its golden requests does not serve; the one before goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.load import AVAILABLE, END, IMAGE, LOADING, Load, failure, states
from tests.functional.servers import SAMPLE, Server
from tests.process import PATIENCE_S, until

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


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
    flags = ("--file_system_poll_wait_seconds=0.1", "--inference_precision=f32")
    return serve("ie_serving", "model", "--model_name=digits", f"--model_path={repository}", *flags)


def by_openvino() -> dict[str, Array]:
    """What OpenVINO answers to the image, without a server."""
    model = ov.Core().compile_model(SAMPLE / "2" / "model.xml", "CPU", EXACT)
    answer = model(np.array(IMAGE, np.float32))
    return {port.get_any_name(): answer[port] for port in model.outputs}


def as_json(**changed: Any) -> bytes:
    """Record a request as REST has it with OpenVINO's answer, some of its outputs changed."""
    request = {"inputs": {"image": IMAGE}}
    outputs = {name: array.tolist() for name, array in by_openvino().items()}
    golden = {"request": request, "response": {"outputs": {**outputs, **changed}}}
    return json.dumps({"requests": [golden]}).encode()


def as_record(path: Path, change: float) -> bytes:
    """Record a request as gRPC has it with OpenVINO's answer, its floats changed by some."""
    log = prediction_log_pb2.PredictionLog()
    recorded = log.predict_log
    recorded.request.model_spec.name = "digits"
    recorded.request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGE, tf.float32))
    for name, array in by_openvino().items():
        changed = array + array.dtype.type(change if array.dtype.kind == "f" else 0)
        recorded.response.outputs[name].CopyFrom(tf.make_tensor_proto(changed))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(log.SerializeToString())
    return path.read_bytes()


def answers_as_openvino(server: Server, version: int) -> None:
    """Ask over both interfaces, for the default version, which is to be this one."""
    request = predict_request("digits", image=tf.make_tensor_proto(IMAGE, tf.float32))
    reply = server.prediction.Predict(request, PATIENCE_S)
    assert reply.model_spec.version.value == version
    body = {"inputs": {"image": IMAGE}}
    shown = server.rest.post("/v1/models/digits:predict", json=body).json()["outputs"]
    for name, expected in by_openvino().items():
        for found in (tf.make_ndarray(reply.outputs[name]), np.array(shown[name])):
            np.testing.assert_allclose(found, expected, atol=1e-6)


def causes(server: Server, version: int) -> tuple[str, str]:
    """Why a version does not serve, over REST and over gRPC."""
    (status,) = server.status("digits", version)
    return failure(server, version), status.status.error_message


def test_a_version_that_answers_otherwise_does_not_serve(serve: Serve, repository: Path) -> None:
    server = serving(serve, repository)
    put(repository, 3, "golden.json", as_json(digit=[11]))
    until(lambda: states(server).get(3) == LOADING and failure(server, 3) != "")
    fault = 'golden request requests[0] of golden.json: output "digit" differs in 1 of 1 values'
    assert all(fault in cause for cause in causes(server, 3))
    assert states(server)[2] == AVAILABLE
    answers_as_openvino(server, 2)
    (repository / "3" / "golden.json").write_bytes(as_json())
    until(lambda: states(server) == {2: END, 3: AVAILABLE})
    answers_as_openvino(server, 3)


def test_files_that_are_none_fail_their_versions_while_others_are_answered(
    serve: Serve, repository: Path
) -> None:
    """Hostile ones, as they come with a model from elsewhere."""
    server = serving(serve, repository)
    worker = server.pids()[-1]
    pair = json.loads(as_json())["requests"][0]
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
    put(repository, 3, "golden.tfrecord", as_record(tmp_path / "made", change))
    if serves:
        until(lambda: states(server) == {2: END, 3: AVAILABLE})
        answers_as_openvino(server, 3)
        return
    until(lambda: states(server).get(3) == LOADING and failure(server, 3) != "")
    for cause in causes(server, 3):
        assert "golden request record 0 of golden.tfrecord: output" in cause
        assert "by 0.5 where" in cause
    answers_as_openvino(server, 2)
