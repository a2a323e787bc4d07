"""Encoded images reach a model in the colours that models of its format are trained with."""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import openvino.opset15 as op
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.functional.asking import predict_request
from tests.functional.servers import PLAIN, Server
from tests.functional.storage.serving import several
from tests.onnx_models import save_onnx
from tests.process import PATIENCE_S, output_of
from tests.unit.engines.openvino.models import parameter, result, save
from tests.unit.wire.image.pictures import encoded

SHAPE = (None, 2, 3, 3)
RED = encoded(np.broadcast_to(np.array([200, 30, 1], np.uint8), (2, 3, 3)))
IN_RGB, IN_BGR = [200, 30, 1], [1, 30, 200]


def write_ir(directory: Path) -> None:
    x = parameter("x", [-1, 2, 3, 3])
    save(directory, [result("y", op.reduce_mean(x, op.constant([1, 2]), False))], [x])


def write_onnx(directory: Path) -> None:
    node = onnx.helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2], keepdims=0)
    x, y = {"x": ["n", 2, 3, 3]}, {"y": ["n", 3]}
    save_onnx(directory / "mean.onnx", [node], x, y, opset=13)


def write_frozen(directory: Path) -> None:
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, SHAPE, name="x")
        tf.reduce_mean(x, [1, 2], name="y")
    (directory / "mean.pb").write_bytes(graph.as_graph_def().SerializeToString())


def write_saved_model(directory: Path) -> None:
    module = tf.Module()
    module.f = _mean()
    tf.saved_model.save(module, str(directory), signatures=module.f)


def write_lite(directory: Path) -> None:
    concrete = _mean().get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
    (directory / "mean.tflite").write_bytes(converter.convert())


def _mean() -> Any:
    spec = tf.TensorSpec(SHAPE, tf.float32, name="x")
    return tf.function(lambda x: {"y": tf.reduce_mean(x, [1, 2])}, input_signature=[spec])


MODELS: Mapping[str, tuple[Callable[[Path], None], Mapping[str, str], list[int]]] = {
    "ir": (write_ir, {}, IN_BGR),
    "onnx": (write_onnx, {}, IN_RGB),
    "onnxruntime": (write_onnx, {"driver": "onnxruntime"}, IN_RGB),
    "frozen": (write_frozen, {}, IN_RGB),
    "saved_model": (write_saved_model, {}, IN_RGB),
    "lite": (write_lite, {}, IN_RGB),
    "ir_of_rgb": (write_ir, {"color_format": "RGB"}, IN_RGB),
    "onnx_of_bgr": (write_onnx, {"color_format": "BGR"}, IN_BGR),
}
"""What writes each, the keys of its configuration, and the means of its three channels."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    models: dict[str, str | dict[str, Any]] = {}
    for name, (write, keys, _) in MODELS.items():
        directory = root / name / "1"
        directory.mkdir(parents=True)
        write(directory)
        models[name] = {"base_path": str(root / name), **keys}
    flags = (*several(root / "c.json", models), "--inference_precision=f32")
    with Server("ie_serving", *flags) as server:
        yield server.ready()


@pytest.mark.parametrize("name", MODELS)
def test_an_image_comes_in_the_colours_of_its_models_format(server: Server, name: str) -> None:
    wanted = [MODELS[name][2]]
    body = {"instances": [{"b64": base64.b64encode(RED).decode()}]}
    reply = httpx.post(
        f"{server.url}/v1/models/{name}:predict", json=body, timeout=PATIENCE_S, verify=PLAIN
    )
    assert reply.json() == {"predictions": wanted}
    request = predict_request(name, x=tf.make_tensor_proto([RED], shape=[1]))
    (answer,) = server.prediction.Predict(request, PATIENCE_S).outputs.values()
    assert tf.make_ndarray(answer).tolist() == wanted


@pytest.mark.parametrize("name", MODELS)
def test_people_are_told_the_colours(server: Server, root: Path, name: str) -> None:
    """In metadata of the Open Inference Protocol, on the page, and by `check`."""
    colours = "BGR" if MODELS[name][2] == IN_BGR else "RGB"
    metadata = httpx.get(f"{server.url}/v2/models/{name}", timeout=PATIENCE_S, verify=PLAIN).json()
    (taken,) = metadata["inputs"]
    assert taken["parameters"] == {"encoded_image": f"2 x 3 {colours}"}
    assert "parameters" not in metadata["outputs"][0]
    page = httpx.get(f"{server.url}/page/models/{name}", timeout=PATIENCE_S, verify=PLAIN).text
    assert f'"image": "2 x 3 {colours}"' in page
    if not MODELS[name][1]:
        lines = output_of("ie_serving", "check", f"--model_path={root / name}")
        advice = ": for a model trained with RGB set color_format to RGB"
        form = f"2 x 3 {colours}" + (advice if colours == "BGR" else "")
        assert f"({form})" in "".join(lines)


def test_the_log_tells_the_colours_once_a_model(server: Server) -> None:
    for colours, means in (("RGB", IN_RGB), ("BGR", IN_BGR)):
        wanted = [name for name, (_, _, each) in MODELS.items() if each == means]
        assert server.log.count(f'image="2 x 3 {colours}"') == len(wanted)
