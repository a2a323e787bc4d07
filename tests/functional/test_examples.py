"""Classify, Regress and MultiInference on Examples, over both interfaces; warm-up records."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    inference_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from tests.functional.asking import over_grpc
from tests.functional.conftest import Serve
from tests.functional.servers import ROOT, SAMPLE, Server, rpc_refused
from tests.process import PATIENCE_S

HELD_OUT = json.loads((ROOT / "examples" / "digits" / "held_out.json").read_text())
IMAGES = HELD_OUT["image"][:3]
DIGITS = HELD_OUT["digit"][:3]
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SIGNATURES = {
    "name_it": {
        "method": "classify",
        "features": {"image": "pixels"},
        "outputs": {"scores": "probabilities"},
        "labels": "labels.txt",
    },
    "number_it": {
        "method": "regress",
        "features": {"image": "pixels"},
        "outputs": {"outputs": "digit"},
    },
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("digits")
    shutil.copytree(SAMPLE / "2", base / "2")
    (base / "2" / "signatures.json").write_text(json.dumps({"signatures": SIGNATURES}))
    (base / "2" / "labels.txt").write_text("\n".join(LABELS))
    return base


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with Server(
        "ie_serving", "model", "--model_name=digits", f"--model_path={repository}"
    ) as server:
        yield server.ready()


def example(pixels: list[float]) -> Any:
    values = tf.train.Feature(float_list=tf.train.FloatList(value=pixels))
    return tf.train.Example(features=tf.train.Features(feature={"pixels": values}))


def fill(request: Any, signature: str) -> Any:
    request.model_spec.name = "digits"
    request.model_spec.signature_name = signature
    request.input.example_list.examples.extend(example(image) for image in IMAGES)
    return request


def best(classes: Any) -> str:
    return str(max(classes, key=lambda entry: entry.score).label)


def test_classify_names_the_digits_over_both_interfaces(server: Server) -> None:
    request = fill(classification_pb2.ClassificationRequest(), "name_it")
    response = server.prediction.Classify(request, PATIENCE_S)
    named = [best(entry.classes) for entry in response.result.classifications]
    assert named == [LABELS[digit] for digit in DIGITS]
    assert response.model_spec.version.value == 2
    assert response.model_spec.signature_name == "name_it"
    body = {"signature_name": "name_it", "examples": [{"pixels": image} for image in IMAGES]}
    reply = server.rest.post("/v1/models/digits:classify", json=body).json()
    over_rest = [max(entry, key=lambda pair: pair[1])[0] for entry in reply["results"]]
    assert over_rest == named


def test_regress_gives_the_digits_over_both_interfaces(server: Server) -> None:
    request = fill(regression_pb2.RegressionRequest(), "number_it")
    response = server.prediction.Regress(request, PATIENCE_S)
    assert [entry.value for entry in response.result.regressions] == DIGITS
    body = {"signature_name": "number_it", "examples": [{"pixels": image} for image in IMAGES]}
    reply = server.rest.post("/v1/models/digits:regress", json=body)
    assert reply.json() == {"results": [float(digit) for digit in DIGITS]}


def test_multi_inference_runs_both_in_order(server: Server) -> None:
    request = inference_pb2.MultiInferenceRequest()
    for signature, method in (("number_it", "regress"), ("name_it", "classify")):
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name = "digits"
        task.model_spec.signature_name = signature
    request.input.example_list.examples.extend(example(image) for image in IMAGES)
    first, second = server.prediction.MultiInference(request, PATIENCE_S).results
    assert [entry.value for entry in first.regression_result.regressions] == DIGITS
    classified = second.classification_result.classifications
    assert [best(entry.classes) for entry in classified] == [LABELS[digit] for digit in DIGITS]


def test_a_context_fills_what_examples_lack(server: Server) -> None:
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = "digits"
    request.model_spec.signature_name = "number_it"
    listed = request.input.example_list_with_context
    listed.context.CopyFrom(example(IMAGES[0]))
    listed.examples.extend([tf.train.Example(), example(IMAGES[1])])
    response = server.prediction.Regress(request, PATIENCE_S)
    assert [entry.value for entry in response.result.regressions] == DIGITS[:2]


def test_predict_takes_serialized_examples(server: Server) -> None:
    serialized = [example(image).SerializeToString() for image in IMAGES]
    outputs = over_grpc(server, "digits", "name_it", {"inputs": serialized})
    scores, classes = outputs["scores"], outputs["classes"]
    chosen = classes[np.arange(3), scores.argmax(axis=1)]
    assert [label.decode() for label in chosen] == [LABELS[digit] for digit in DIGITS]


def test_metadata_shows_the_signatures(server: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "digits"
    response = server.prediction.GetModelMetadata(request, PATIENCE_S)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    named = signatures.signature_def["name_it"]
    assert named.method_name == "tensorflow/serving/classify"
    assert named.inputs["inputs"].dtype == tf.string.as_datatype_enum
    assert set(named.outputs) == {"classes", "scores"}
    assert "serving_default" in signatures.signature_def


@pytest.mark.parametrize(
    ("signature", "pixels", "text"),
    [
        pytest.param(
            "nothing",
            IMAGES[0],
            "No signature was found with the name: nothing",
            id="no such signature",
        ),
        pytest.param(
            "serving_default",
            IMAGES[0],
            "No classification inputs found in SignatureDef",
            id="a signature without Examples",
        ),
        pytest.param(
            "serving_default",
            IMAGES[0],
            "; say signature_name: name_it",
            id="the signature to name instead",
        ),
        pytest.param(
            "number_it",
            IMAGES[0],
            "Expected classification signature outputs to contain",
            id="outputs that are no classes",
        ),
        pytest.param(
            "name_it",
            IMAGES[0][:5],
            'example 0: feature "pixels" has 5 values',
            id="too few values",
        ),
    ],
)
def test_an_example_that_cannot_be_classified_is_refused(
    server: Server, signature: str, pixels: list[float], text: str
) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "digits"
    request.model_spec.signature_name = signature
    request.input.example_list.examples.append(example(pixels))
    with rpc_refused("INVALID_ARGUMENT", text):
        server.prediction.Classify(request, PATIENCE_S)
    body = {"signature_name": signature, "examples": [{"pixels": pixels}]}
    reply = server.rest.post("/v1/models/digits:classify", json=body)
    assert reply.status_code == 400
    assert text in reply.json()["error"]


def records() -> Iterator[Any]:
    """One warm-up record of each kind that is replayed."""
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = "whatever it was recorded as"
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(np.array(IMAGES, np.float32)))
    yield log
    log = prediction_log_pb2.PredictionLog()
    fill(log.classify_log.request, "name_it")
    yield log
    log = prediction_log_pb2.PredictionLog()
    fill(log.regress_log.request, "number_it")
    yield log


def write_records(version: Path, *logs: Any) -> None:
    directory = version / "assets.extra"
    directory.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(directory / "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def test_warm_up_records_are_replayed(serve: Serve, repository: Path, tmp_path: Path) -> None:
    shutil.copytree(repository / "2", tmp_path / "2")
    write_records(tmp_path / "2", *records())
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={tmp_path}")
    assert "warm-up replayed" in server.log
    assert "records=3" in server.log


def test_a_bad_record_is_passed_over_with_a_line(
    serve: Serve, repository: Path, tmp_path: Path
) -> None:
    shutil.copytree(repository / "2", tmp_path / "2")
    bad = prediction_log_pb2.PredictionLog()
    bad.predict_log.request.inputs["other"].CopyFrom(tf.make_tensor_proto([1.0]))
    write_records(tmp_path / "2", bad, *records())
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={tmp_path}")
    assert "warm-up record refused" in server.log
    assert "records=3" in server.log
    body = {"instances": IMAGES}
    assert server.rest.post("/v1/models/digits:predict", json=body).status_code == 200
