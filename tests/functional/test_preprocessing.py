"""Flags that say what is computed before the model, over both interfaces, against numpy."""

from pathlib import Path

import grpc
import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from ie_serving.core.tensors import DataType
from tests.functional.conftest import Serve
from tests.functional.servers import Server
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


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Server:
    unary(tmp_path / "1", [1, 3, 224, 224], DataType.FP32, lambda x: op.multiply(x, np.float32(1)))
    return serve("ie_serving", "--model_name=image", f"--model_path={tmp_path}", *FLAGS)


def test_an_image_of_opencv_is_answered_as_its_normalised_form(server: Server) -> None:
    image = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 3), np.uint8)
    rgb = (image[..., ::-1].astype(np.float32) - [123.675, 116.28, 103.53]) / [
        58.395,
        57.12,
        57.375,
    ]
    expected = rgb.transpose(0, 3, 1, 2)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "image"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(image))
    reply = server.prediction.Predict(request, PATIENCE_S)
    np.testing.assert_allclose(tf.make_ndarray(reply.outputs["y"]), expected, rtol=1e-4, atol=1e-5)
    answered = server.rest.post("/v1/models/image:predict", json={"inputs": image.tolist()})
    np.testing.assert_allclose(answered.json()["outputs"], expected, rtol=1e-4, atol=1e-5)


def test_metadata_shows_what_the_client_sends(server: Server) -> None:
    signatures = server.rest.get("/v1/models/image/metadata").json()["metadata"]["signature_def"]
    taken = signatures["signatureDef"]["serving_default"]["inputs"]["x"]
    assert taken["dtype"] == "DT_UINT8"
    assert [dim["size"] for dim in taken["tensorShape"]["dim"]] == ["1", "4", "6", "3"]


@pytest.fixture
def resizing(serve: Serve, tmp_path: Path) -> Server:
    unary(tmp_path / "1", [1, 3, 12, 10], DataType.FP32, lambda x: op.multiply(x, np.float32(1)))
    flags = ("--layout=NHWC:NCHW", "--precision=uint8", "--resize=linear", "--mean=[1,2,3]")
    command = ("ie_serving", "--model_name=image", f"--model_path={tmp_path}")
    return serve(*command, *flags, "--inference_precision=f32")


def resized(file: Path, image: np.ndarray) -> np.ndarray:
    """Ask OpenVINO directly, with an image of floats whose size is fixed."""
    core = ov.Core()
    steps = ov.preprocess.PrePostProcessor(core.read_model(file))
    tensor = steps.input().tensor().set_layout(ov.Layout("NHWC"))
    tensor.set_spatial_static_shape(*image.shape[1:3])
    steps.input().model().set_layout(ov.Layout("NCHW"))
    linear = ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR
    steps.input().preprocess().resize(linear).mean([1.0, 2.0, 3.0])
    compiled = core.compile_model(steps.build(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer: np.ndarray = compiled(image.astype(np.float32))[0]
    return answer


def test_images_of_any_size_are_resized_to_the_models(resizing: Server, tmp_path: Path) -> None:
    drawn = np.random.default_rng(2)
    for height, width in ((12, 10), (31, 17), (5, 40), (31, 17)):
        image = drawn.integers(0, 256, (1, height, width, 3), np.uint8)
        expected = resized(tmp_path / "1" / "model.xml", image)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "image"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(image))
        reply = resizing.prediction.Predict(request, PATIENCE_S)
        np.testing.assert_allclose(
            tf.make_ndarray(reply.outputs["y"]), expected, rtol=1e-4, atol=1e-3
        )
        answered = resizing.rest.post("/v1/models/image:predict", json={"inputs": image.tolist()})
        np.testing.assert_allclose(answered.json()["outputs"], expected, rtol=1e-4, atol=1e-3)


def test_an_image_of_no_height_is_refused(resizing: Server) -> None:
    image = np.zeros((1, 0, 4, 3), np.uint8)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "image"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(image))
    with pytest.raises(grpc.RpcError) as refused:
        resizing.prediction.Predict(request, PATIENCE_S)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    reply = resizing.rest.post("/v1/models/image:predict", json={"inputs": [[]]})
    assert reply.status_code == 400
