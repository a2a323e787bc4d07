"""SavedModels whose strings and tables the host computes, over both interfaces, as TensorFlow."""

import base64
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2

from tests.exporting import export
from tests.functional.asking import over_grpc
from tests.functional.servers import Server, config_flag, rpc_refused
from tests.process import PATIENCE_S
from tests.unit.engines.savedmodel.host import exports

CASES = [
    (model, name, number)
    for model, names in exports.CALLS.items()
    for name, calls in names.items()
    for number in range(len(calls))
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(exports.__file__, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    entries = [
        {"name": name, "base_path": str(root / name), "inference_precision": "f32"}
        for name in exports.CALLS
    ]
    with Server("ie_serving", "config", config_flag(root / "config.json", *entries)) as server:
        yield server.ready()


def expected(root: Path, model: str, name: str, number: int = 0) -> tuple[Any, Any]:
    path = root / model / "expected" / f"{name}-{number}.pickle"
    pair: tuple[Any, Any] = pickle.loads(path.read_bytes())
    return pair


def predict(server: Server, model: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    made = {
        alias: tf.make_tensor_proto(value, tf.string if value.dtype == np.object_ else None)
        for alias, value in inputs.items()
    }
    return over_grpc(server, model, name, made)


def assert_equal(answer: dict[str, Any], outputs: dict[str, Any]) -> None:
    assert answer.keys() == outputs.keys()
    for alias, output in outputs.items():
        got, want = np.asarray(answer[alias]), np.asarray(output)
        if want.dtype.kind in "fiub":
            assert got.shape == want.shape, alias
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=alias)
        else:
            assert got.tolist() == want.tolist(), alias


@pytest.mark.parametrize(("model", "name", "number"), CASES)
def test_grpc_predict_equals_tensorflow(
    server: Server, root: Path, model: str, name: str, number: int
) -> None:
    inputs, outputs = expected(root, model, name, number)
    answer = predict(server, model, name, inputs)
    assert_equal(answer, outputs)
    for alias, want in outputs.items():
        assert answer[alias].shape == np.shape(want), alias


@pytest.mark.parametrize(("model", "name", "number"), CASES)
def test_rest_predict_equals_tensorflow(
    server: Server, root: Path, model: str, name: str, number: int
) -> None:
    inputs, outputs = expected(root, model, name, number)
    values = {alias: as_json(value.tolist()) for alias, value in inputs.items()}
    body = {"signature_name": name, "inputs": values}
    reply = server.rest.post(f"/v1/models/{model}:predict", json=body)
    assert reply.status_code == 200, reply.text
    answer = reply.json()["outputs"]
    for alias, got in (answer if len(outputs) > 1 else {next(iter(outputs)): answer}).items():
        want = np.asarray(outputs[alias])
        if want.dtype.kind in "fiub":
            np.testing.assert_allclose(got, want.tolist(), rtol=1e-5, atol=1e-6, err_msg=alias)
        else:
            assert got == as_text(want.tolist()), alias


def as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def as_text(value: Any) -> Any:
    return [as_text(each) for each in value] if isinstance(value, list) else value.decode()


def test_classify_gives_the_classes_that_a_table_names(server: Server, root: Path) -> None:
    _, outputs = expected(root, "classifier", "predict")
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "classifier"
    request.input.example_list.examples.extend(
        tf.train.Example.FromString(data) for data in exports.EXAMPLES
    )
    rows = server.prediction.Classify(request, PATIENCE_S).result.classifications
    assert [[each.label.encode() for each in row.classes] for row in rows] == outputs[
        "classes"
    ].tolist()
    scores = [[each.score for each in row.classes] for row in rows]
    np.testing.assert_allclose(scores, outputs["scores"], rtol=1e-5)
    body = {"examples": [{"fruit": "banana", "size": 1.0}]}
    reply = server.rest.post("/v1/models/classifier:classify", json=body)
    assert [label.encode() for label, _ in reply.json()["results"][0]] == outputs["classes"][
        0
    ].tolist()


def test_rows_of_strings_are_a_batch(server: Server, root: Path) -> None:
    _, outputs = expected(root, "tables", "embed")
    body = {
        "signature_name": "embed",
        "instances": [{"word": word.decode()} for word in exports.WORDS],
    }
    reply = server.rest.post("/v1/models/tables:predict", json=body)
    assert reply.status_code == 200, reply.text
    rows = reply.json()["predictions"]
    assert [row["ids"] for row in rows] == outputs["ids"].tolist()
    np.testing.assert_allclose([row["y"] for row in rows], outputs["y"], rtol=1e-5)


def test_a_text_that_is_no_number_is_the_clients_mistake(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(server, "tables", "numbers", {"s": np.array([[b"1", b"x", b"2"]], np.object_)})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    fault = "StringToNumberOp could not correctly convert string: x"
    assert fault in caught.value.details()
    body = {"signature_name": "numbers", "instances": [["1", "x", "2"]]}
    reply = server.rest.post("/v1/models/tables:predict", json=body)
    assert reply.status_code == 400
    assert fault in reply.json()["error"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("formatted", "StringFormat"),
        ("codes", "UnicodeTranscode"),
        ("again", "and call them one after the other"),
    ],
)
def test_a_signature_that_the_host_cannot_run_is_left_out_by_name(
    server: Server, name: str, fault: str
) -> None:
    inputs = {"x": exports.X} if name == "again" else {"s": exports.WORDS}
    with rpc_refused("FAILED_PRECONDITION", fault):
        predict(server, "tables", name, inputs)
