"""`ie_serving tune` on a real model: what it prints can be served, over both interfaces."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from ie_serving.commands.tune.report import AS_IT_IS
from tests.functional.asking import predict_request
from tests.functional.batching_models import Direct, perceptron
from tests.functional.conftest import Serve
from tests.functional.servers import config_flag
from tests.functional.test_batching import outputs
from tests.process import PATIENCE_S, Process, output_of

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 16)


def golden(path: Path, model: Path) -> Path:
    """Write a request with its reply, as OpenVINO gives it."""
    response = {"outputs": {"y": Direct(model)(X)["y"].tolist()}}
    entry = {"request": {"inputs": {"x": X.tolist()}}, "response": response}
    path.write_text(json.dumps({"requests": [entry]}))
    return path


def test_settings_that_tune_prints_are_served(serve: Serve, tmp_path: Path) -> None:
    model = perceptron(tmp_path / "m" / "1")
    requests = golden(tmp_path / "asked.json", model)
    config, output = tmp_path / "config.json", tmp_path / "tuned.json"
    entry = {"name": "m", "base_path": "m", "inference_precision": "f32"}
    flags = (config_flag(config, entry), f"--requests={requests}", f"--output={output}")
    lines = output_of("ie_serving", "tune", *flags, "--seconds=2", "--concurrency=4")
    assert lines[:2] == [
        "model m, version 1",
        "requests: 1 of asked.json; 4 callers at a time",
    ]
    assert lines[3].startswith(AS_IT_IS)
    found = json.loads(output.read_text())
    assert {"max_batch_size": 4} in [each["keys"] for each in found["tried"]]
    assert (json.dumps(found["keys"]) in lines) == (found["keys"] != {})
    # Whatever won on this machine: keys that were tried are keys that are served.
    keys = {**found["tried"][1]["keys"], **found["keys"], "inference_precision": "f32"}
    server = serve("ie_serving", "config", config_flag(config, {**entry, **keys}))
    over_grpc = outputs(server.prediction.Predict(predict_request("m", x=X), PATIENCE_S))["y"]
    body = {"inputs": {"x": X.tolist()}}
    over_rest = server.rest.post("/v1/models/m:predict", json=body).json()["outputs"]
    expected = Direct(model)(X)["y"]
    np.testing.assert_allclose(over_grpc, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.array(over_rest), expected, rtol=1e-5, atol=1e-6)


def test_a_model_that_cannot_be_tuned_is_told_with_its_cause(tmp_path: Path) -> None:
    record = tf.io.TFRecordWriter(str(tmp_path / "empty.tfrecord"))
    record.close()
    perceptron(tmp_path / "m" / "1")
    flags = (f"--model_path={tmp_path / 'm'}", f"--requests={tmp_path / 'empty.tfrecord'}")
    process = Process("ie_serving", "tune", *flags)
    assert process.exit_code() == 1
    assert "the model answers none of its Predicts" in process.lines[-1]
