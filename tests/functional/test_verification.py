"""Models of ONNX are compared with onnxruntime before they serve, over both interfaces."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.servers import PLAIN, Server
from tests.functional.storage.serving import several
from tests.onnx_models import save_onnx
from tests.process import PATIENCE_S, Process, output_of

MICROSOFT = "com.microsoft"
FLOATS = onnx.TensorProto.FLOAT
X = np.array([[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]], np.float32)
Y = np.array([[[[2.875, 4.5], [9.375, 11.0]]]], np.float32)
"""X at 0.6 of its size, linear with antialias. Source: ONNX, `resize_downsample_scales_linear_\
antialias`, rounded to two columns."""


def write(directory: Path, node: Any, x: list[Any], y: list[Any], **constants: Any) -> None:
    file, domains = directory / "model.onnx", {"com.microsoft": 1}
    save_onnx(file, [node], {"x": x}, {"y": y}, opset=18, domains=domains, **constants)


def write_resize(directory: Path) -> None:
    """OpenVINO's front end drops `antialias` without a word."""
    scales = np.array([1, 1, 0.6, 0.6], np.float32)
    inputs = ["x", "", "s"]
    node = onnx.helper.make_node("Resize", inputs, ["y"], mode="linear", antialias=1)
    write(directory, node, [1, 1, 4, 4], [1, 1, 2, 2], s=scales)


def write_relu(directory: Path) -> None:
    """OpenVINO's ReLU of NaN is 0."""
    write(directory, onnx.helper.make_node("Relu", ["x"], ["y"]), ["n", 2], ["n", 2])


def write_echo(directory: Path) -> None:
    """OpenVINO has no such operator."""
    node = onnx.helper.make_node("SampleOp", ["x"], ["y"], domain="com.microsoft")
    write(directory, node, ["n", 2], ["n", 2])


def write_sum(directory: Path) -> None:
    """OpenVINO drops the axes, of which there are none."""
    write(directory, onnx.helper.make_node("ReduceSum", ["x", "axes"], ["y"]), ["n", 2], [1, 1])
    model = onnx.load(directory / "model.onnx")
    kind = onnx.TensorProto.INT64
    model.graph.input.append(onnx.helper.make_tensor_value_info("axes", kind, [0]))
    onnx.save_model(model, directory / "model.onnx")


def write_attention(directory: Path) -> None:
    """OpenVINO computed lengths of 16 and more wrongly, once it had computed one of 1."""
    make = onnx.helper.make_node
    nodes = [
        make("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        make("MatMul", ["x", "t"], ["s"]),
        make("Softmax", ["s"], ["p"]),
        make("MatMul", ["p", "x"], ["y"]),
    ]
    save_onnx(directory / "model.onnx", nodes, {"x": ["n", "l", 8]}, {"y": ["n", "l", 8]})


def write_heads(directory: Path) -> None:
    """OpenVINO's front end adds a bias to keys and values by head, too."""
    make = onnx.helper.make_node
    nodes = [
        make("Reshape", ["x", "form"], ["r"]),
        make("Transpose", ["r"], ["k"], perm=[0, 2, 1, 3]),
        make("MultiHeadAttention", ["x", "k", "k", "b"], ["y"], domain=MICROSOFT, num_heads=2),
    ]
    ends, form = ({"x": ["n", "l", 8]}, {"y": ["n", "l", 8]}), np.int64([0, 0, 2, 4])
    bias = np.arange(24, dtype=np.float32) / 24
    save_onnx(directory / "model.onnx", nodes, *ends, domains={MICROSOFT: 1}, form=form, b=bias)


MODELS: Mapping[str, Callable[[Path], None]] = {
    "attention": write_attention,
    "heads": write_heads,
    "resize": write_resize,
    "relu": write_relu,
    "echo": write_echo,
    "sum": write_sum,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name, make in MODELS.items():
        make(root / name / "1")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    models = {name: {"base_path": str(root / name)} for name in MODELS}
    flags = several(root / "c.json", models)
    with Server("ie_serving", *flags, "--inference_precision=f32") as server:
        yield server.ready()


@pytest.fixture(scope="module")
def lite(lite_exports: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    names = ("most",)
    models = {name: {"base_path": str(lite_exports / name)} for name in names}
    flags = several(tmp_path_factory.mktemp("lite") / "c.json", models)
    with Server("ie_serving", *flags, "--inference_precision=f32") as server:
        yield server.ready()


def answers(server: Server, name: str, x: Array, output: str = "y") -> Iterator[Array]:
    """Ask over gRPC, and over REST."""
    request = predict_request(name, x=x)
    yield tf.make_ndarray(server.prediction.Predict(request, PATIENCE_S).outputs[output])
    body = json.dumps({"inputs": x.tolist()})
    url = f"{server.url}/v1/models/{name}:predict"
    yield np.array(
        json.loads(httpx.post(url, content=body, timeout=PATIENCE_S, verify=PLAIN).text)["outputs"]
    )


def test_another_engine_answers_for_a_model_that_openvino_computes_wrongly(server: Server) -> None:
    for y in answers(server, "resize", X):
        np.testing.assert_allclose(y, Y, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 40])
def test_an_attention_is_right_for_any_length(server: Server, length: int) -> None:
    x = np.random.default_rng(3).standard_normal((2, length, 8)).astype(np.float32)
    shares = np.exp(x @ x.swapaxes(1, 2))
    for y in answers(server, "attention", x):
        expected = shares / shares.sum(-1, keepdims=True) @ x
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_keys_by_head_get_no_bias(server: Server, root: Path) -> None:
    x = np.random.default_rng(4).standard_normal((2, 5, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(root / "heads/1/model.onnx"))
    (expected,) = session.run(None, {"x": x})
    for y in answers(server, "heads", x):
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_another_engine_answers_for_a_model_that_openvino_cannot_run(server: Server) -> None:
    x = np.array([[1, -2]], np.float32)
    for y in answers(server, "echo", x):
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("x", [[[np.nan, -1]], [[1, -1], [np.nan, 2]]])
def test_requests_with_nan_go_to_another_engine(server: Server, x: list[list[float]]) -> None:
    sent = np.array(x, np.float32)
    for y in answers(server, "relu", sent):
        np.testing.assert_array_equal(y, np.maximum(sent, 0))


def test_an_input_that_changes_nothing_may_be_given_or_not(server: Server) -> None:
    x = np.array([[1, 2]], np.float32)
    request = predict_request("sum", x=x)
    for _ in ("without", "with"):
        reply = server.prediction.Predict(request, PATIENCE_S)
        assert tf.make_ndarray(reply.outputs["y"]).tolist() == [[3]]
        request.inputs["axes"].CopyFrom(tf.make_tensor_proto(np.zeros(0, np.int64)))
    for more in ({}, {"axes": []}):
        body = json.dumps({"inputs": {"x": x.tolist(), **more}})
        url = f"{server.url}/v1/models/sum:predict"
        found = httpx.post(url, content=body, timeout=PATIENCE_S, verify=PLAIN)
        assert found.json() == {"outputs": [[3]]}


def test_findings_are_logged(server: Server) -> None:
    assert "served by another engine" in server.log
    assert "engines compared" in server.log
    assert "engine=OpenVINO handed_over=NaN" in server.log


def test_check_tells_what_was_found(root: Path) -> None:
    told = "".join(output_of("ie_serving", "check", f"--model_path={root / 'relu'}"))
    assert "served by OpenVINO; compared with onnxruntime" in told
    told = "".join(output_of("ie_serving", "check", f"--model_path={root / 'resize'}"))
    assert 'served by onnxruntime, since Resize "y": OpenVINO does not compute antialias=1' in told


def test_openvino_by_name_serves_nothing_that_differs(root: Path) -> None:
    path = f"--model_path={root / 'resize'}"
    with Process("ie_serving", "check", path, "--driver=openvino") as command:
        assert command.exit_code(PATIENCE_S) == 1
        assert "driver auto lets onnxruntime serve it" in command.log


def test_requests_with_nan_to_a_tflite_are_refused_by_name(lite: Server) -> None:
    x = np.array([[1, 3, 2]], np.float32)
    for y in answers(lite, "most", x):
        assert y.tolist() == [3]
    x[0, 1] = np.nan
    cause = 'input "x": OpenVINO may compute requests with NaN wrongly'
    with pytest.raises(grpc.RpcError, match="send others") as refused:
        lite.prediction.Predict(predict_request("most", x=x), PATIENCE_S)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    body = json.dumps({"inputs": x.tolist()})
    url = f"{lite.url}/v1/models/most:predict"
    found = httpx.post(url, content=body, timeout=PATIENCE_S, verify=PLAIN)
    assert found.status_code == 400
    for said in (str(refused.value.details()), found.json()["error"]):
        assert said.startswith(cause)


def test_a_second_engine_that_only_compares_is_no_part_of_the_server(lite: Server) -> None:
    others = b"verification.child"
    own = [p for p in lite.pids() if others not in Path(f"/proc/{p}/cmdline").read_bytes()]
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in own)
    assert "openvino" in maps
    assert "ai_edge_litert" not in maps
