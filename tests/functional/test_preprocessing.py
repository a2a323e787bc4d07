"""Flags that say what is computed before the model, over both interfaces, against numpy."""

from pathlib import Path

import numpy as np
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
