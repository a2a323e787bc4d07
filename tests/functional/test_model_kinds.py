"""Kinds of models that people bring are answered over both interfaces as their own runtimes do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from ie_serving.core.values.tensors import Array
from tests.functional.asking import predict_request
from tests.functional.model_kinds import KINDS, SIZE, sent, write_quantized
from tests.functional.servers import PLAIN, Server
from tests.functional.storage.serving import several
from tests.process import PATIENCE_S, output_of

QUANTIZED = "quantized"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    for name, kind in KINDS.items():
        (root / name / "1").mkdir(parents=True)
        onnx.save_model(kind.make(), root / name / "1" / "model.onnx")
    (root / QUANTIZED / "1").mkdir(parents=True)
    write_quantized(root / QUANTIZED / "1" / "model.onnx")
    return root


LITE = {
    "nearest": "nearest",
    "counting": "counting",
    "recurrent": "recurrent",
    "svdf": "svdf",
    "mediapipe": "transposed",
    "mediapipe_valid": "transposed_valid",
}
"""Models of TFLite, each with the file that LiteRT, the judge, runs for it."""
UNREAD = {
    "unknown": "Landmarks2TransformMatrix is no operation of TensorFlow Lite",
    "select": "FlexRoll is TensorFlow's own operation Roll: serve the SavedModel",
    "examples": "ParseExampleV2 is TensorFlow's own operation ParseExampleV2: serve the",
    "micro": "SVDF has a state of 8 bits, which TensorFlow Lite Micro alone takes",
}


@pytest.fixture(scope="module")
def server(root: Path, lite_exports: Path) -> Iterator[Server]:
    models = {name: {"base_path": str(root / name), "driver": "openvino"} for name in KINDS}
    models |= {name: {"base_path": str(lite_exports / name)} for name in (*LITE, *UNREAD)}
    models[QUANTIZED] = {"base_path": str(root / QUANTIZED)}
    models["by_openvino"] = {"base_path": str(root / QUANTIZED), "driver": "openvino"}
    flags = several(root / "c.json", models)
    with Server("ie_serving", *flags, "--inference_precision=f32") as server:
        yield server.ready()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_onnx_answers_as_onnxruntime_does(server: Server, root: Path, name: str) -> None:
    session = onnxruntime.InferenceSession(root / name / "1" / "model.onnx")
    for x in sent(KINDS[name]):
        (expected,) = session.run(["y"], {"x": x})
        for found in answers(server, name, x):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


SOONER = r"since a request took [\d.]+ ms, and [\d.]+ ms by OpenVINO"


@pytest.mark.parametrize(("name", "rtol"), [(QUANTIZED, 1e-5), ("by_openvino", 1e-2)])
def test_a_dynamically_quantized_onnx_answers_as_onnxruntime_does(
    server: Server, root: Path, name: str, rtol: float
) -> None:
    session = onnxruntime.InferenceSession(root / QUANTIZED / "1" / "model.onnx")
    x = np.random.default_rng(41).normal(size=(2, 5, SIZE)).astype(np.float32)
    (expected,) = session.run(["y"], {"x": x})
    for found in answers(server, name, x):
        np.testing.assert_allclose(found, expected, rtol, rtol * expected.max())


def test_the_log_and_check_tell_which_engine_serves_a_quantized_onnx_and_why(
    server: Server, root: Path
) -> None:
    others = [line for line in server.lines if "served by another engine" in line]
    (told,) = (line for line in others if f"/{QUANTIZED}/" in line)
    assert "engine=onnxruntime" in told
    assert re.search(SOONER.removeprefix("since "), told)
    compared = r"compared with onnxruntime \S+ on \d+ requests"
    for driver, served in (
        ("auto", rf"served by onnxruntime, {SOONER}"),
        ("openvino", rf"served by OpenVINO; {compared}"),
    ):
        flags = (f"--model_path={root / QUANTIZED}", f"--driver={driver}")
        lines = output_of("ie_serving", "check", *flags)
        assert re.search(f"serving_default: {served}$", lines[-1]), lines


def answers(server: Server, name: str, x: Array) -> Iterator[Array]:
    """Ask over gRPC, and over REST."""
    request = predict_request(name, x=x)
    (found,) = server.prediction.Predict(request, PATIENCE_S).outputs.values()
    yield tf.make_ndarray(found)
    body = json.dumps({"inputs": x.tolist()})
    url = f"{server.url}/v1/models/{name}:predict"
    yield np.array(
        httpx.post(url, content=body, timeout=PATIENCE_S, verify=PLAIN).json()["outputs"]
    )


@pytest.mark.parametrize(("name", "judge"), LITE.items())
def test_a_kind_of_tflite_answers_as_litert_does(
    server: Server, lite_exports: Path, name: str, judge: str
) -> None:
    judging = Interpreter(str(lite_exports / judge / "1" / "model.tflite"))
    (given,), (made,) = judging.get_input_details(), judging.get_output_details()
    x = (4 * np.random.default_rng(41).standard_normal(given["shape"])).astype(given["dtype"])
    judging.allocate_tensors()
    judging.set_tensor(given["index"], x)
    judging.invoke()
    # Twice over each interface: no request sees the variables of another.
    for found in (*answers(server, name, x), *answers(server, name, x)):
        np.testing.assert_allclose(found, judging.get_tensor(made["index"]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "why"), UNREAD.items(), ids=UNREAD)
def test_a_tflite_that_no_engine_reads_says_why(server: Server, name: str, why: str) -> None:
    (version,) = server.status(name)
    rest = httpx.get(f"{server.url}/v1/models/{name}", timeout=PATIENCE_S, verify=PLAIN).json()
    told = rest["model_version_status"][0]["status"]["error_message"]
    for said in (version.status.error_message, told):
        assert why in said


@pytest.mark.parametrize("name", ["counting", "recurrent"])
def test_check_tells_which_engine_serves_and_what_of_its_state(
    lite_exports: Path, name: str
) -> None:
    told = "".join(output_of("ie_serving", "check", f"--model_path={lite_exports / name}"))
    assert "served by LiteRT; its variables as the file has them, for each request, since" in told
    assert "it keeps state in variables from one call to the next" in told
