"""TensorFlow Serving's other tutorials: the calls are those that their pages and clients make."""

import base64
import importlib.util
import json
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2

from tests.functional import half_plus_two, tutorial_models
from tests.functional.asking import predict_request
from tests.functional.exports.answers import configuration
from tests.functional.servers import Server
from tests.process import PATIENCE_S

MODELS = ["mnist", "half_plus_three", "half_plus_two", "resnet"]
HAS_PILLOW = importlib.util.find_spec("PIL") is not None
IMAGES = np.random.default_rng(5).random((20, 784)).astype(np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("tutorials")
    tutorial_models.write_mnist(root / "mnist")
    tutorial_models.write_half_plus_three(root / "half_plus_three")
    tutorial_models.write_resnet(root / "resnet")
    half_plus_two.export(root / "half_plus_two")
    models = dict.fromkeys(MODELS)
    if HAS_PILLOW:
        tutorial_models.write_resnet_of_jpeg(root / "resnet_of_jpeg")
        models["resnet_of_jpeg"] = None
    config = configuration(root, models)
    with Server("tensorflow_model_server", f"--model_config_file={config}") as server:
        yield server.ready()


def test_the_mnist_client_finds_the_digit_of_each_image(server: Server) -> None:
    """It sends one image for each call, several calls at a time, and reads `float_val`."""
    calls = []
    for image in IMAGES:
        request = predict_request(
            "mnist", "predict_images", images=tf.make_tensor_proto(image, shape=[1, image.size])
        )
        calls.append(server.prediction.Predict.future(request, PATIENCE_S))
    for image, call in zip(IMAGES, calls, strict=True):
        scores = np.array(call.result().outputs["scores"].float_val)
        np.testing.assert_allclose(scores, tutorial_models.mnist(image), rtol=1e-5)


def test_mnist_classifies_examples_by_default(server: Server) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "mnist"
    for image in IMAGES[:2]:
        feature = request.input.example_list.examples.add().features.feature
        feature["x"].float_list.value.extend(image)
    result = server.prediction.Classify(request, PATIENCE_S).result
    for image, found in zip(IMAGES, result.classifications, strict=False):
        scores = tutorial_models.mnist(image)
        best = np.argsort(-scores)
        assert [each.label for each in found.classes] == [str(digit) for digit in best]
        got = [each.score for each in found.classes]
        np.testing.assert_allclose(got, scores[best], rtol=1e-5)


def curl(server: Server, url: str, body: str) -> object:
    """Post as `curl -d` does."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = server.rest.post(url, content=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_rest_page_asks_half_plus_three(server: Server) -> None:
    url = "/v1/models/half_plus_three"
    assert server.rest.get(url).json() == {
        "model_version_status": [
            {
                "version": "123",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    answer = curl(server, f"{url}:predict", '{"instances": [1.0,2.0,5.0]}')
    assert answer == {"predictions": [3.5, 4.0, 5.5]}
    examples = '"examples": [{"x": 1.0}, {"x": 2.0}]'
    body = f'{{"signature_name": "tensorflow/serving/regress", {examples}}}'
    assert curl(server, f"{url}:regress", body) == {"results": [3.5, 4.0]}
    body = f'{{"signature_name": "tensorflow/serving/classify", {examples}}}'
    assert curl(server, f"{url}:classify", body) == {"results": [[["", 3.5]], [["", 4.0]]]}
    reply = server.rest.post("/v1/models/half:predict", content='{"instances": [1.0,5.0]}')
    assert reply.status_code == 404
    assert reply.json()["error"].startswith("Servable not found for request: Latest(half)")


def test_the_docker_page_asks_half_plus_two(server: Server) -> None:
    url = "/v1/models/half_plus_two"
    answer = curl(server, f"{url}:predict", '{"instances": [1.0, 2.0, 5.0]}')
    assert answer == {"predictions": [2.5, 3.0, 4.5]}
    page = server.rest.get(f"{url}/metadata").json()
    assert page["model_spec"] == {
        "name": "half_plus_two",
        "signature_name": "",
        "version": "123",
    }
    signatures = page["metadata"]["signature_def"]["signature_def"]
    default = signatures["serving_default"]
    assert default["method_name"] == "tensorflow/serving/predict"
    assert default["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert [dim["size"] for dim in default["inputs"]["x"]["tensor_shape"]["dim"]] == ["-1", "1"]
    assert signatures["regress_x_to_y"]["inputs"]["inputs"]["dtype"] == "DT_STRING"


def test_the_resnet_clients_send_the_image_as_a_tensor(server: Server) -> None:
    """Over REST as nested lists of doubles, over gRPC as floats, with their time limits."""
    pixels = np.random.default_rng(2).integers(0, 256, (24, 32, 3), np.uint8)
    image = np.expand_dims(pixels / 255.0, 0)
    body = json.dumps({"instances": image.tolist()})
    for _ in range(3):
        reply = server.rest.post("/v1/models/resnet:predict", content=body)
        reply.raise_for_status()
    over_rest = reply.json()["predictions"][0]

    request = predict_request("resnet", "serving_default", input_1=image.astype(np.float32))
    over_grpc = server.prediction.Predict(request, PATIENCE_S).outputs["activation_49"].float_val

    logits = pixels.reshape(-1, 3).mean(axis=0) / 255 @ tutorial_models.KERNEL
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(over_rest, expected, rtol=1e-4)
    np.testing.assert_allclose(over_grpc, expected, rtol=1e-4)


@pytest.mark.skipif(not HAS_PILLOW, reason="the server decodes images with Pillow")
def test_the_resnet_clients_send_the_image_as_a_file(server: Server) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (20, 30, 3), np.uint8)
    file = bytes(tf.io.encode_jpeg(pixels).numpy())
    encoded = base64.b64encode(file).decode("utf-8")
    reply = server.rest.post(
        "/v1/models/resnet_of_jpeg:predict", content=f'{{"instances" : [{{"b64": "{encoded}"}}]}}'
    )
    reply.raise_for_status()
    prediction = reply.json()["predictions"][0]

    image = tutorial_models.image_of(file).numpy()
    logits = image.mean(axis=(0, 1)) @ tutorial_models.KERNEL
    expected = np.exp(logits) / np.exp(logits).sum()
    assert prediction["classes"] == int(np.argmax(expected))
    np.testing.assert_allclose(prediction["probabilities"], expected, rtol=1e-4)

    request = predict_request(
        "resnet_of_jpeg", "serving_default", image_bytes=tf.make_tensor_proto(file, shape=[1])
    )
    outputs = server.prediction.Predict(request, PATIENCE_S).outputs
    np.testing.assert_allclose(outputs["probabilities"].float_val, expected, rtol=1e-4)


def test_warm_up_files_of_the_page_are_replayed(server: Server) -> None:
    """One record of each kind of request that TensorFlow Serving replays."""
    replayed = [line for line in server.lines if "warm-up replayed" in line]
    assert len(replayed) == 2
    assert any("model=mnist" in line and "records=1" in line for line in replayed)
    assert any("model=half_plus_three" in line and "records=3" in line for line in replayed)
