"""SavedModels of which only a part can be served, and other files, over both interfaces."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    prediction_log_pb2,
)

from tests.functional.asking import over_grpc
from tests.functional.servers import Server, config_flag, rpc_refused
from tests.process import PATIENCE_S, Process, output_of

X = np.array([[1, 2], [3, -4]], np.float32)
Y = [[5.0], [-5.0]]
REFUSED = {
    "complex": "dtype number 8",
    "sparse": "'s' is no dense tensor",
    "lost": "refers to a node 'nowhere'",
    "serving_default": "SelfAdjointEig",
}
"""Signatures of `partly` that are left out, with a part of the cause."""


@pytest.fixture(scope="module")
def root(odd_exports: Path) -> Path:
    """The exports, with a warm-up, a signatures.json and a directory that holds no model."""
    version = odd_exports / "partly" / "1"
    records = version / "assets.extra" / "tf_serving_warmup_requests"
    records.parent.mkdir()
    with tf.io.TFRecordWriter(str(records)) as writer:
        for name in ("serving_default", "good"):
            log = prediction_log_pb2.PredictionLog()
            spec = log.predict_log.request.model_spec
            spec.name, spec.signature_name = "partly", name
            log.predict_log.request.inputs["x"].CopyFrom(tf.make_tensor_proto(X))
            writer.write(log.SerializeToString())
    entry = {"method": "classify", "outputs": {"scores": "y"}}
    (version / "signatures.json").write_text(json.dumps({"signatures": {"on_refused": entry}}))
    (odd_exports / "nothing" / "1").mkdir(parents=True)
    (odd_exports / "nothing" / "1" / "notes.txt").write_text("no model")
    return odd_exports


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    models: list[dict[str, object]] = [
        {"name": name, "base_path": str(root / name)}
        for name in ("partly", "hopeless", "text", "ranks", "nothing", "plain")
    ]
    models.append({"name": "lite", "base_path": str(root / "lite"), "prefer_tflite_model": True})
    with Server("ie_serving", "config", config_flag(root / "config.json", *models)) as server:
        yield server.ready()


def of_file(root: Path) -> dict[str, Any]:
    """Give the signatures of `partly` as its file declares them, or else its graph."""
    data = (root / "partly" / "1" / "saved_model.pb").read_bytes()
    (meta_graph,) = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    definitions = dict(meta_graph.signature_def)
    x = definitions["good"].inputs["x"]
    definitions["rank_in_graph"].inputs["x"].CopyFrom(x)
    return definitions


def test_metadata_lists_every_signature_as_the_file_declares_it(server: Server, root: Path) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "partly"
    reply = server.prediction.GetModelMetadata(request, PATIENCE_S)
    listed = get_model_metadata_pb2.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(listed)
    for name, definition in of_file(root).items():
        assert listed.signature_def[name] == definition, name
    assert listed.signature_def["declared"].defaults["keep"].float_val == [0.25]


def test_rest_metadata_lists_them_too(server: Server, root: Path) -> None:
    shown = server.rest.get("/v1/models/partly/metadata").json()["metadata"]["signature_def"]
    listed = get_model_metadata_pb2.SignatureDefMap()
    json_format.ParseDict({k: v for k, v in shown.items() if k != "@type"}, listed)
    for name, definition in of_file(root).items():
        assert listed.signature_def[name] == definition, name


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_to_one_that_is_left_out_says_why(server: Server, name: str) -> None:
    with rpc_refused("FAILED_PRECONDITION", REFUSED[name]):
        over_grpc(server, "partly", name, {"x": X})
    body = {"signature_name": name, "instances": X.tolist()}
    reply = server.rest.post("/v1/models/partly:predict", json=body)
    assert reply.status_code == 400, reply.text
    assert REFUSED[name] in reply.json()["error"]


def test_a_signature_of_signatures_json_shares_the_fate_of_its_base(server: Server) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "partly", "on_refused"
    request.input.example_list.examples.add()
    with rpc_refused(
        "FAILED_PRECONDITION", 'its base "serving_default" is not served', "SelfAdjointEig"
    ):
        server.prediction.Classify(request, PATIENCE_S)


def test_the_others_are_served(server: Server) -> None:
    assert over_grpc(server, "partly", "good", {"x": X})["y"].tolist() == Y
    assert over_grpc(server, "partly", "declared", {"x": X})["y"].tolist() == [[1.25], [-1.25]]
    body = {"signature_name": "good", "instances": X.tolist()}
    assert server.rest.post("/v1/models/partly:predict", json=body).json()["predictions"] == Y


def test_warm_up_goes_on_after_a_record_for_one_that_is_left_out(server: Server) -> None:
    (refused,) = [line for line in server.lines if "warm-up record refused model=partly" in line]
    assert "record=0" in refused
    assert "SelfAdjointEig" in refused
    (replayed,) = [line for line in server.lines if "warm-up replayed model=partly" in line]
    assert replayed.endswith("records=1")


def status(server: Server, model: str) -> tuple[int, int, str]:
    (one,) = server.status(model)
    shown = server.rest.get(f"/v1/models/{model}").json()["model_version_status"][0]["status"]
    assert shown["error_message"] == one.status.error_message
    return one.state, one.status.error_code, one.status.error_message


def test_the_status_of_a_version_that_serves_names_what_is_left_out(server: Server) -> None:
    state, code, message = status(server, "partly")
    assert (state, code) == (get_model_status_pb2.ModelVersionStatus.AVAILABLE, 0)
    for name, cause in REFUSED.items():
        assert f'signature "{name}" is left out' in message
        assert cause in message
    assert status(server, "text") == (get_model_status_pb2.ModelVersionStatus.AVAILABLE, 0, "")


def test_the_status_of_a_version_without_any_good_signature_is_the_list(server: Server) -> None:
    state, code, message = status(server, "hopeless")
    assert (state, code) == (get_model_status_pb2.ModelVersionStatus.LOADING, 2)
    for cause in REFUSED.values():
        assert cause in message


def test_a_directory_of_no_known_format_is_an_error_that_names_what_was_expected(
    server: Server,
) -> None:
    state, code, message = status(server, "nothing")
    assert (state, code) == (get_model_status_pb2.ModelVersionStatus.LOADING, 2)
    assert "the model is missing: expected *.xml with *.bin, saved_model.pb" in message
    assert any("ERROR - version failed to load model=nothing" in line for line in server.lines)


def test_a_saved_model_as_text_is_served(server: Server) -> None:
    assert over_grpc(server, "text", "", {"x": X})["y"].tolist() == Y
    example = tf.train.Example()
    example.features.feature["a"].float_list.value.extend([1, 2])
    inputs = {"examples": np.array([example.SerializeToString()], np.object_)}
    assert over_grpc(server, "text", "parse", inputs)["y"].tolist() == [[5.0]]
    body = {"instances": X.tolist()}
    assert server.rest.post("/v1/models/text:predict", json=body).json()["predictions"] == Y


@pytest.mark.parametrize("shape", [(3,), (2, 3), (), (1, 2, 3), (2, 1, 1, 2)], ids=str)
def test_inputs_of_unknown_rank_take_every_rank(server: Server, shape: tuple[int, ...]) -> None:
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    b = np.full((1,) * len(shape) if shape != (3,) else (), -1, np.float32)
    want = np.maximum(a, 0) * 2 + b
    assert np.array_equal(over_grpc(server, "ranks", "any_rank", {"a": a, "b": b})["y"], want)
    inputs = {"a": a.tolist(), "b": b.tolist()}
    body = {"signature_name": "any_rank", "inputs": inputs}
    reply = server.rest.post("/v1/models/ranks:predict", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.json()["outputs"] == want.tolist()


def test_a_rank_that_the_graph_does_not_take_is_refused_and_costs_nothing(server: Server) -> None:
    assert over_grpc(server, "ranks", "matrix", {"x": X})["y"].tolist() == Y
    with rpc_refused("INVALID_ARGUMENT", '"x" of rank 0'):
        over_grpc(server, "ranks", "matrix", {"x": np.float32(1)})
    answer = over_grpc(server, "ranks", "matrix", {"x": X})
    assert (answer["y"].tolist(), answer["same"].tolist()) == (Y, [b"k"])
    assert over_grpc(server, "ranks", "", {"x": X})["y"].tolist() == Y


def test_the_rank_of_the_graph_counts_where_the_signature_has_none(server: Server) -> None:
    assert over_grpc(server, "partly", "rank_in_graph", {"x": X})["y"].tolist() == Y
    with rpc_refused("INVALID_ARGUMENT"):
        over_grpc(server, "partly", "rank_in_graph", {"x": np.ones((1, 1, 2), np.float32)})


def test_a_tflite_model_is_served_with_its_signatures(server: Server) -> None:
    assert over_grpc(server, "lite", "", {"x": X})["y"].tolist() == Y
    two = over_grpc(server, "lite", "two", {"a": X, "b": np.array([2], np.float32)})
    assert two["sum"].tolist() == (X + 2).tolist()
    body = {"signature_name": "two", "inputs": {"a": X.tolist(), "b": [2]}}
    reply = server.rest.post("/v1/models/lite:predict", json=body)
    assert reply.json()["outputs"] == {"sum": (X + 2).tolist(), "product": (X * 2).tolist()}
    plain = over_grpc(server, "plain", "", {"serving_default_x": X})
    assert plain["StatefulPartitionedCall"].tolist() == Y


def test_check_tells_what_serves_each_signature_and_what_stands_against_it(root: Path) -> None:
    command = Process(
        "ie_serving", "check", f"--model_path={root / 'partly'}", "--inference_precision=f32"
    )
    assert command.exit_code() == 1
    signatures = re.findall(r"^  (\w+): (.+(?:\n    .+)*)", command.log, re.MULTILINE)
    lines = {name: text.replace("\n    ", "; ") for name, text in signatures}
    assert lines["good"] == "served by OpenVINO"
    assert lines["on_refused"].startswith('not served: its base "serving_default" is not served')
    for name, cause in REFUSED.items():
        assert lines[name].startswith("not served: ")
        assert cause in lines[name]
    cause = 'OpenVINO has no SelfAdjointEigV2 ("SelfAdjointEigV2"): export the model without'
    assert cause in lines["serving_default"]
    advice = "    TensorFlow can run it in a process of its own: set --tensorflow_fallback"
    assert advice in command.lines


def test_a_dry_run_of_tensorflow_model_server_says_the_same(root: Path) -> None:
    """Of a model that is served as a whole: the exit code is 0."""
    base = f"--model_base_path={root / 'ranks'}"
    lines = output_of("tensorflow_model_server", "--dry_run", "--model_name=m", base)
    by_rank = "served by OpenVINO, compiled for the ranks of each first request"
    assert lines == [
        "model m, version 1",
        f"  any_rank: {by_rank}",
        f"  matrix: {by_rank}",
        "  serving_default: served by OpenVINO",
    ]
