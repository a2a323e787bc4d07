"""Kinds of models that people bring are answered over both interfaces as their own runtimes do."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from tests.functional.model_kinds import KINDS, sent
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    for name, kind in KINDS.items():
        (root / name / "1").mkdir(parents=True)
        onnx.save_model(kind.make(), root / name / "1" / "model.onnx")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    models = {
        name: {"base_path": str(root / name), "driver": kind.driver} for name, kind in KINDS.items()
    }
    flags = several(root / "c.json", models)
    with closing(Server("ie_serving", *flags, "--inference_precision=f32")) as server:
        yield server.ready()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_onnx_answers_as_onnxruntime_does(server: Server, root: Path, name: str) -> None:
    session = onnxruntime.InferenceSession(root / name / "1" / "model.onnx")
    for x in sent(KINDS[name]):
        (expected,) = session.run(["y"], {"x": x})
        request = predict_pb2.PredictRequest()
        request.model_spec.name = name
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
        found = tf.make_ndarray(server.prediction.Predict(request, PATIENCE_S).outputs["y"])
        body = json.dumps({"inputs": x.tolist()})
        url = f"{server.url}/v1/models/{name}:predict"
        rest = np.array(httpx.post(url, content=body, timeout=PATIENCE_S).json()["outputs"])
        for each in (found, rest):
            assert each.shape == expected.shape
            np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-6)
