"""Flags that say what is computed before the model, over both interfaces.

The numbers are those of OpenVINO called directly, with the same steps before the model.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from ie_serving.core.values.tensors import DataType
from tests.functional.asking import predict_request
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import unary

FLAGS = (
    "--layout=NHWC:NCHW",
    "--mean=[123.675,116.28,103.53]",
    "--scale=[58.395,57.12,57.375]",
    "--shape=(1,4,6,3)",
    "--color_format=BGR:RGB",
    "--precision=uint8:fp32",
)
"""As OpenVINO Model Server's documentation has them for ResNet-50 of the ONNX zoo."""


RESIZING = ("--layout=NHWC:NCHW", "--precision=uint8", "--resize=linear", "--mean=[1,2,3]")
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def serving(root: Path, shape: list[int], *flags: str) -> Iterator[Server]:
    """Serve a model that gives its input back, of planes."""
    unary(root / "1", shape, DataType.FP32, lambda x: op.multiply(x, np.float32(1)))
    command = ("ie_serving", "--model_name=image", f"--model_path={root}")
    with Server(*command, *flags, "--inference_precision=f32") as server:
        yield server.ready()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("image")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    yield from serving(root / "ovms", [1, 3, 224, 224], *FLAGS)


@pytest.fixture(scope="module")
def resizing(root: Path) -> Iterator[Server]:
    yield from serving(root / "resizing", [1, 3, 12, 10], *RESIZING)


def request_of(image: np.ndarray) -> predict_pb2.PredictRequest:
    return predict_request("image", x=image)


def answered(server: Server, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ask over gRPC and over REST."""
    reply = server.prediction.Predict(request_of(image), PATIENCE_S)
    shown = server.rest.post("/v1/models/image:predict", json={"inputs": image.tolist()})
    return tf.make_ndarray(reply.outputs["y"]), np.array(shown.json()["outputs"])


def signatures(server: Server, model: str = "image") -> list[dict[str, Any]]:
    """Give the signature as metadata show it over gRPC and over REST."""
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = model
    reply = server.prediction.GetModelMetadata(request, PATIENCE_S)
    held = get_model_metadata_pb2.SignatureDefMap()
    assert reply.metadata["signature_def"].Unpack(held)
    shown = server.rest.get(f"/v1/models/{model}/metadata").json()["metadata"]["signature_def"]
    over_rest: dict[str, Any] = shown["signatureDef"]["serving_default"]
    return [MessageToDict(held.signature_def["serving_default"]), over_rest]


def by_openvino(file: Path, image: np.ndarray) -> np.ndarray:
    """Ask OpenVINO directly, with its own steps for `FLAGS`."""
    core = ov.Core()
    model = core.read_model(file)
    model.reshape([1, 3, *image.shape[1:3]])
    steps = ov.preprocess.PrePostProcessor(model)
    tensor = steps.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    tensor.set_color_format(ov.preprocess.ColorFormat.BGR)
    steps.input().model().set_layout(ov.Layout("NCHW"))
    prepared = steps.input().preprocess().convert_element_type(ov.Type.f32)
    prepared.convert_color(ov.preprocess.ColorFormat.RGB)
    prepared.mean([123.675, 116.28, 103.53]).scale([58.395, 57.12, 57.375])
    answer: np.ndarray = core.compile_model(steps.build(), "CPU", EXACT)(image)[0]
    return answer


def test_an_image_of_opencv_is_answered_as_its_normalised_form(server: Server, root: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 3), np.uint8)
    expected = by_openvino(root / "ovms" / "1" / "model.xml", image)
    mean, scale = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    normalised = (image[..., ::-1].astype(np.float32) - mean) / scale
    np.testing.assert_allclose(expected, normalised.transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5)
    for found in answered(server, image):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_metadata_shows_what_the_client_sends(server: Server, resizing: Server) -> None:
    sent = {server: ["1", "4", "6", "3"], resizing: ["1", "-1", "-1", "3"]}
    for asked, sizes in sent.items():
        for signature in signatures(asked):
            taken, given = signature["inputs"]["x"], signature["outputs"]["y"]
            assert (taken["dtype"], given["dtype"]) == ("DT_UINT8", "DT_FLOAT")
            assert [dim["size"] for dim in taken["tensorShape"]["dim"]] == sizes


def resized(file: Path, image: np.ndarray) -> np.ndarray:
    """Ask OpenVINO directly, with an image of floats whose size is fixed."""
    core = ov.Core()
    steps = ov.preprocess.PrePostProcessor(core.read_model(file))
    tensor = steps.input().tensor().set_layout(ov.Layout("NHWC"))
    tensor.set_spatial_static_shape(*image.shape[1:3])
    steps.input().model().set_layout(ov.Layout("NCHW"))
    linear = ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR
    steps.input().preprocess().resize(linear).mean([1.0, 2.0, 3.0])
    compiled = core.compile_model(steps.build(), "CPU", EXACT)
    answer: np.ndarray = compiled(image.astype(np.float32))[0]
    return answer


def test_images_of_any_size_are_resized_to_the_models(resizing: Server, root: Path) -> None:
    drawn = np.random.default_rng(2)
    for height, width in ((12, 10), (31, 17), (5, 40), (31, 17)):
        image = drawn.integers(0, 256, (1, height, width, 3), np.uint8)
        expected = resized(root / "resizing" / "1" / "model.xml", image)
        for found in answered(resizing, image):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_an_image_of_no_height_is_refused(resizing: Server) -> None:
    with rpc_refused("INVALID_ARGUMENT"):
        resizing.prediction.Predict(request_of(np.zeros((1, 0, 4, 3), np.uint8)), PATIENCE_S)
    reply = resizing.rest.post("/v1/models/image:predict", json={"inputs": [[]]})
    assert reply.status_code == 400
