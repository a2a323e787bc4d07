"""Models of each format, as a version's directory and as a file, against its own library."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import onnx
import onnx.reference
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.tensors import Array
from tests.exporting import export
from tests.functional.asking import predict_request, predicted
from tests.functional.servers import ROOT, Server
from tests.functional.storage.serving import several
from tests.onnx_models import onnx_model

WEIGHTS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
BIAS = np.array([0.5, -0.5], np.float32)
X = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
PADDLE = ROOT / "tests" / "functional" / "formats" / "linear.pdmodel"
MAKE_TORCH = PADDLE.with_name("make_torch.py")
BY_PADDLE = [[13.5, 15.5], [40.5, 51.5]]
"""What paddlepaddle computes; `formats/make_paddle.py` prints it."""


def write_ir(directory: Path) -> tuple[Path, Array]:
    x = op.parameter([-1, 3], ov.Type.f32, name="x")
    x.output(0).set_names({"x"})
    y = op.add(op.matmul(x, op.constant(WEIGHTS), False, False), op.constant(BIAS))
    y.output(0).set_names({"y"})
    model = ov.Model([op.result(y)], [x], "linear")
    ov.save_model(model, str(directory / "linear.xml"), compress_to_fp16=False)
    return directory / "linear.xml", X @ WEIGHTS + BIAS


def write_onnx(directory: Path) -> tuple[Path, Array]:
    node = onnx.helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])]
    model = onnx_model(nodes, {"x": ["n", 3]}, {"y": ["n", 2]}, w=WEIGHTS, b=BIAS)
    onnx.save(model, directory / "linear.onnx")
    (answer,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": X})
    return directory / "linear.onnx", np.asarray(answer)


def write_frozen(directory: Path) -> tuple[Path, Array]:
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        y = tf.identity(tf.linalg.matmul(x, WEIGHTS) + BIAS, name="y")
        answer = session.run(y, {x: X})
    (directory / "linear.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return directory / "linear.pb", np.asarray(answer)


def write_lite(directory: Path) -> tuple[Path, Array]:
    module = tf.Module()
    function = tf.function(
        lambda x: {"y": tf.linalg.matmul(x, WEIGHTS) + BIAS},
        input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")],
    )
    module.f = function
    concrete = function.get_concrete_function()
    data = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module).convert()
    (directory / "linear.tflite").write_bytes(data)
    run = tf.lite.Interpreter(model_content=data).get_signature_runner()
    return directory / "linear.tflite", np.asarray(run(x=X)["y"])


def write_paddle(directory: Path) -> tuple[Path, Array]:
    for suffix in (".pdmodel", ".pdiparams"):
        copy(PADDLE.with_suffix(suffix), directory)
    return directory / PADDLE.name, np.array(BY_PADDLE, np.float32)


def write_torch(directory: Path, suffix: str) -> tuple[Path, Array]:
    made = directory.parent / "made"
    made.mkdir()
    export(MAKE_TORCH, made)
    file = (made / f"linear{suffix}").rename(directory / f"linear{suffix}")
    return file, np.load(made / "expected.npy")


FORMATS: Mapping[str, Callable[[Path], tuple[Path, Array]]] = {
    "ir": write_ir,
    "onnx": write_onnx,
    "frozen": write_frozen,
    "lite": write_lite,
    "paddle": write_paddle,
}
OF_TORCH: Mapping[str, Callable[[Path], tuple[Path, Array]]] = {
    "torch_export": partial(write_torch, suffix=".pt2"),
    "torch_script": partial(write_torch, suffix=".pt"),
}
NO_TORCH = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed; see `make drivers`"
)
NAMES = [*FORMATS, *(pytest.param(name, marks=NO_TORCH) for name in OF_TORCH)]
INPUTS = {"inputs": {"x": {"dtype": "float32", "shape": [-1, 3]}}}
"""What TorchScript does not say of itself."""
EXPECTED: dict[str, Array] = {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    models: dict[str, str | dict[str, Any]] = {}
    for name, write in {**FORMATS, **(OF_TORCH if find_spec("torch") else {})}.items():
        (root / name / "7").mkdir(parents=True)
        file, EXPECTED[name] = write(root / name / "7")
        keys = {"params": INPUTS} if name == "torch_script" else {}
        models[name] = {"base_path": str(root / name), **keys}
        models[f"{name}-file"] = {"base_path": str(file), **keys}
    # `torch.export` writes a pickle.
    flags = (*several(root / "c.json", models), "--inference_precision=f32", "--allow_pickle")
    with Server("ie_serving", *flags) as server:
        yield server.ready()


def over_grpc(server: Server, name: str, version: int) -> Any:
    (answer,) = predicted(server, predict_request(name, "", version, x=X)).values()
    return answer


def over_rest(server: Server, name: str, version: int) -> Any:
    target = f"/v1/models/{name}/versions/{version}:predict"
    reply = server.rest.post(target, json={"inputs": {"x": X.tolist()}})
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"]


@pytest.mark.parametrize("ask", [over_grpc, over_rest])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("as_file", "version"), [("", 7), ("-file", 1)])
def test_a_model_of_each_format_gives_the_numbers_of_its_library(
    server: Server, name: str, as_file: str, version: int, ask: Callable[..., Any]
) -> None:
    np.testing.assert_allclose(ask(server, f"{name}{as_file}", version), EXPECTED[name], rtol=1e-6)
