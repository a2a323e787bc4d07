"""A server finds a faster way on the requests of its clients, and answers alike all the time."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from tests.functional.asking import predict_request
from tests.functional.servers import Server
from tests.functional.storage.serving import several
from tests.onnx_models import save_repeated
from tests.process import PATIENCE_S, until

ROWS, WIDTH, STEPS = 400, 64, 30
DONE = "live tuning done"


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_requests_of_one_shape_are_computed_faster_and_alike(tmp_path: Path, setting: str) -> None:
    file = save_repeated(tmp_path / "m" / "1" / "model.onnx", STEPS)
    x = np.random.default_rng(5).standard_normal((ROWS, WIDTH)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(file).run(None, {"x": x})
    entry = {"base_path": str(tmp_path / "m"), "live_tuning": setting, "driver": "openvino"}
    with Server("ie_serving", *several(tmp_path / "c.json", {"m": entry})) as server:
        server.ready()
        request = predict_request("m", x=x)

        def over_grpc() -> None:
            outputs = server.prediction.Predict(request, PATIENCE_S).outputs
            np.testing.assert_allclose(tf.make_ndarray(outputs["y"]), expected, 1e-5, 1e-5)

        def asked() -> bool:
            for _ in range(50):
                over_grpc()
            return setting == "off" or DONE in server.log

        until(asked)
        body = {"inputs": {"x": x.tolist()}}
        found = server.rest.post("/v1/models/m:predict", json=body).json()["outputs"]
        np.testing.assert_allclose(np.array(found, np.float32), expected, 1e-5, 1e-5)
        others = predict_request("m", x=x[:3])
        outputs = server.prediction.Predict(others, PATIENCE_S).outputs
        np.testing.assert_allclose(tf.make_ndarray(outputs["y"]), expected[:3], 1e-5, 1e-5)
        assert (f'{DONE} way="known shapes"' in server.log) == (setting == "auto")
