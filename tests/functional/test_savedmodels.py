"""SavedModels as TensorFlow's users export them, over both interfaces, against TensorFlow."""

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
    regression_pb2,
)

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.exports.answers import assert_equal, configuration, expected, over_rest
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.savedmodel import exports

CASES = [(model, name) for model, names in exports.INPUTS.items() for name in names]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(exports.__file__, tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    file = configuration(root, exports.INPUTS)
    with Server("tensorflow_model_server", f"--model_config_file={file}") as server:
        yield server.ready()


@pytest.mark.parametrize(("model", "name"), CASES)
def test_grpc_predict_equals_tensorflow(server: Server, root: Path, model: str, name: str) -> None:
    inputs, outputs = expected(root, model, name)
    assert_equal(over_grpc(server, model, name, inputs), outputs)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_rest_predict_equals_tensorflow(server: Server, root: Path, model: str, name: str) -> None:
    inputs, outputs = expected(root, model, name)
    assert_equal(over_rest(server, model, name, inputs, outputs), outputs)


@pytest.mark.parametrize(("name", "keep"), [("serving_default", 0.5), ("declared_default", 0.25)])
def test_an_input_with_a_default_may_be_left_out(server: Server, name: str, keep: float) -> None:
    answer = over_grpc(server, "plain", name, {"x": exports.X})
    np.testing.assert_allclose(answer["y"], exports.X @ [[1], [2]] * keep, rtol=1e-5)
    body = {"signature_name": name, "inputs": {"x": exports.X.tolist()}}
    reply = server.rest.post("/v1/models/plain:predict", json=body)
    assert reply.status_code == 200, reply.text


def test_classify_regress_and_multi_inference_parse_in_the_graph(
    server: Server, root: Path
) -> None:
    examples = [tf.train.Example.FromString(data) for data in exports.EXAMPLES]
    _, scores = expected(root, "estimator", "serving_default")
    _, values = expected(root, "estimator", "regression")

    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.name = "estimator"
    classify.input.example_list.examples.extend(examples)
    reply = server.prediction.Classify(classify, PATIENCE_S)
    got = [[each.score for each in row.classes] for row in reply.result.classifications]
    np.testing.assert_allclose(got, scores["scores"], rtol=1e-5)

    regress = regression_pb2.RegressionRequest()
    regress.model_spec.name, regress.model_spec.signature_name = "estimator", "regression"
    regress.input.example_list.examples.extend(examples)
    answer = server.prediction.Regress(regress, PATIENCE_S)
    got_values = [each.value for each in answer.result.regressions]
    np.testing.assert_allclose(got_values, values["outputs"], rtol=1e-5)

    multi = inference_pb2.MultiInferenceRequest()
    for signature, method in (("serving_default", "classify"), ("regression", "regress")):
        task = multi.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "estimator", signature
    multi.input.example_list.examples.extend(examples)
    results = server.prediction.MultiInference(multi, PATIENCE_S).results
    assert results[0].classification_result == reply.result
    assert results[1].regression_result == answer.result


def test_rest_classify_and_regress(server: Server, root: Path) -> None:
    _, scores = expected(root, "estimator", "serving_default")
    rows = [{"a": [1.0, 2.0], "b": 3, "w": 0.5}, {"a": [0.5, -1.0]}]
    reply = server.rest.post("/v1/models/estimator:classify", json={"examples": rows})
    assert reply.status_code == 200, reply.text
    got = [[score for _, score in row] for row in reply.json()["results"]]
    np.testing.assert_allclose(got, scores["scores"][:2], rtol=1e-5)
    body = {"signature_name": "regression", "examples": rows}
    reply = server.rest.post("/v1/models/estimator:regress", json=body)
    _, values = expected(root, "estimator", "regression")
    np.testing.assert_allclose(reply.json()["results"], values["outputs"][:2], rtol=1e-5)


@pytest.mark.parametrize(
    ("features", "fault"),
    [
        ({}, "Feature: a (data type: float) is required but could not be found."),
        (
            {"a": [1, 2]},
            "Name: <unknown>, Key: a, Index: 0.  Data types don't match."
            " Data type: int64 but expected type: float",
        ),
        (
            {"a": [1.0]},
            "Name: <unknown>, Key: a, Index: 0.  Number of float values != expected."
            "  Values size: 1 but output shape: [2]",
        ),
    ],
)
def test_a_fault_of_an_example_is_named_as_tensorflow_names_it(
    server: Server, features: dict[str, Any], fault: str
) -> None:
    examples = exports.strings(exports.example(**features))
    with rpc_refused("INVALID_ARGUMENT", fault):
        over_grpc(server, "estimator", "predict", {"examples": examples})


def test_one_bad_signature_costs_no_other_and_says_why(server: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "module"
    reply = server.prediction.GetModelMetadata(request, PATIENCE_S)
    listed = get_model_metadata_pb2.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(listed)
    bad = {"lines", "__saved_model_init_op"}
    assert set(listed.signature_def) == {*exports.INPUTS["module"], *bad}
    with rpc_refused("FAILED_PRECONDITION", "DecodeCSV"):
        over_grpc(server, "module", "lines", {"s": exports.strings(b"1")})
    body = {"signature_name": "lines", "instances": ["1"]}
    assert "DecodeCSV" in server.rest.post("/v1/models/module:predict", json=body).text
