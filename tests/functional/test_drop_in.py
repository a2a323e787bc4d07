"""`tensorflow_model_server` in place of the original: flags, models, calls and answers are its.

What the original's own test of its command asks, tensorflow_model_server_test.py, 30 tests, is
asked here, in our words; tracing by `tensorflow.ProfilerService` in `test_profiler.py`.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.exporting import export
from tests.functional import drop_in_models
from tests.functional.conftest import Serve
from tests.functional.servers import Server, rpc_refused
from tests.process import PATIENCE_S, Process
from tests.tables import named_by

GENERATIONS = ["half_plus_two", "second_generation"]
"""A graph of TensorFlow 1, and a module of TensorFlow 2, with the same signatures."""
VERSION = 123
METRICS = "/monitoring/prometheus/metrics"

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(drop_in_models.__file__, tmp_path_factory.mktemp("drop_in"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    """One server with every flag that the original's test sets, and all its models."""
    models, monitoring, batching = (root / name for name in ("models", "monitoring", "batching"))
    write(models, *sorted(root.iterdir()))
    monitoring.write_text(f'prometheus_config: {{\n  enable: true,\n  path: "{METRICS}"\n}}\n')
    batching.write_text("max_batch_size { value: 128 }\nbatch_timeout_micros { value: 0 }\n")
    with Server(
        "tensorflow_model_server",
        f"--model_config_file={models}",
        f"--monitoring_config_file={monitoring}",
        "--rest_api_timeout_in_ms=5000",
        f"--grpc_socket_path={root / 'grpc.sock'}",
        "--grpc_channel_arguments=grpc.max_connection_age_ms=2000,grpc.lb_policy_name=grpclb",
        "--enable_batching",
        f"--batching_parameters_file={batching}",
        "--prefer_tflite_model=true",
    ) as server:
        yield server.ready(100)


def write(file: Path, *bases: Path) -> None:
    entries = ",".join(
        f'\n  config: {{\n    name: "{base.name}",\n    base_path: "{base}",\n'
        f'    model_platform: "tensorflow"\n  }}'
        for base in bases
    )
    file.write_text(f"model_config_list: {{\n{entries}\n\n}}")


def named(request: Any, model: str, signature: str = "") -> Any:
    request.model_spec.name, request.model_spec.signature_name = model, signature
    return request


def with_example(request: Any) -> Any:
    feature = request.input.example_list.examples.add().features.feature["x"]
    feature.float_list.value.append(2.0)
    return request


def predict(
    prediction: Any, model: str, signature: str = "serving_default", rank: int = 1, *only: str
) -> Any:
    request = named(predict_pb2.PredictRequest(output_filter=only), model, signature)
    request.inputs["x"].dtype = types_pb2.DT_FLOAT
    request.inputs["x"].float_val.append(2.0)
    for _ in range(rank):
        request.inputs["x"].tensor_shape.dim.add(size=1)
    reply = prediction.Predict(request, PATIENCE_S)
    assert answered(reply) == (model, signature)
    assert list(reply.outputs) == ["y"]
    assert reply.outputs["y"].dtype == types_pb2.DT_FLOAT
    (value,) = reply.outputs["y"].float_val
    return value


def answered(reply: Any) -> tuple[str, str]:
    assert reply.model_spec.version.value == VERSION
    return reply.model_spec.name, reply.model_spec.signature_name


def test_the_status_of_a_version_that_serves_is_told(server: Server) -> None:
    request = named(get_model_status_pb2.GetModelStatusRequest(), "half_plus_two")
    (status,) = server.model.GetModelStatus(request, PATIENCE_S).model_version_status
    assert (status.version, status.status.error_code) == (VERSION, 0)
    of_rest = {
        "version": "123",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    reply = server.rest.get("/v1/models/half_plus_two")
    assert reply.json() == {"model_version_status": [of_rest]}


def test_metadata_are_told_over_grpc(server: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    reply = server.prediction.GetModelMetadata(named(request, "half_plus_two"), PATIENCE_S)
    assert answered(reply) == ("half_plus_two", "")
    assert list(reply.metadata) == ["signature_def"]


def dense(name: str) -> dict[str, Any]:
    dims = [{"size": size, "name": ""} for size in ("-1", "1")]
    return {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": dims, "unknown_rank": False},
        "name": f"{name}:0",
    }


EXAMPLES = {
    "dtype": "DT_STRING",
    "tensor_shape": {"dim": [], "unknown_rank": True},
    "name": "tf_example:0",
}
DECLARED = {
    "serving_default": ("predict", {"x": dense("x")}, {"y": dense("y")}),
    "regress_x_to_y": ("regress", {"inputs": EXAMPLES}, {"outputs": dense("y")}),
    "regress_x_to_y2": ("regress", {"inputs": EXAMPLES}, {"outputs": dense("y2")}),
    "regress_x2_to_y3": ("regress", {"inputs": dense("x2")}, {"outputs": dense("y3")}),
    "classify_x_to_y": ("classify", {"inputs": EXAMPLES}, {"scores": dense("y")}),
    "classify_x2_to_y3": ("classify", {"inputs": dense("x2")}, {"scores": dense("y3")}),
}


def test_metadata_over_rest_is_the_whole_of_what_the_export_declares(server: Server) -> None:
    signatures = {
        name: {
            "inputs": inputs,
            "outputs": outputs,
            "method_name": f"tensorflow/serving/{method}",
            "defaults": {},
        }
        for name, (method, inputs, outputs) in DECLARED.items()
    }
    assert server.rest.get("/v1/models/half_plus_two/metadata").json() == {
        "model_spec": {"name": "half_plus_two", "signature_name": "", "version": "123"},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


@pytest.mark.parametrize("model", GENERATIONS)
def test_classify_answers_as_the_original(server: Server, model: str) -> None:
    request = named(classification_pb2.ClassificationRequest(), model, "classify_x_to_y")
    reply = server.prediction.Classify(with_example(request), PATIENCE_S)
    assert answered(reply) == (model, "classify_x_to_y")
    (found,) = reply.result.classifications
    assert [(each.label, each.score) for each in found.classes] == [("", 3.0)]


@pytest.mark.parametrize("model", GENERATIONS)
def test_regress_answers_as_the_original(server: Server, model: str) -> None:
    request = named(regression_pb2.RegressionRequest(), model, "regress_x_to_y")
    reply = server.prediction.Regress(with_example(request), PATIENCE_S)
    assert answered(reply) == (model, "regress_x_to_y")
    assert [each.value for each in reply.result.regressions] == [3.0]


@pytest.mark.parametrize("model", GENERATIONS)
def test_several_inferences_in_one_call(server: Server, model: str) -> None:
    request = inference_pb2.MultiInferenceRequest()
    for method in ("regress", "classify"):
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        named(task, model, f"{method}_x_to_y")
    reply = server.prediction.MultiInference(with_example(request), PATIENCE_S)
    regressed, classified = reply.results
    assert answered(regressed) == (model, "regress_x_to_y")
    assert answered(classified) == (model, "classify_x_to_y")
    assert regressed.regression_result.regressions[0].value == 3.0
    assert classified.classification_result.classifications[0].classes[0].score == 3.0


@pytest.mark.parametrize("only", [(), ("y",)], ids=["all outputs", "filtered"])
@pytest.mark.parametrize(
    ("model", "value"), [("half_plus_two", 3.0), ("second_generation", 3.0), ("half_plus_three", 4)]
)
def test_predict_answers_for_the_models_of_a_file(
    server: Server, model: str, value: float, only: tuple[str, ...]
) -> None:
    """With a tensor that lacks the last dimension, which is 1: the original's client sends it."""
    assert predict(server.prediction, model, "serving_default", 1, *only) == value


@named_by(
    "model signature",
    ("model", "signature", "value"),
    [
        ("lite", "serving_default", 3.0),
        ("lite_with_signature", "serving_default", 3.0),
        ("of_any_rank", "serving_default", 12.0),
        ("constants", "other", 2.0),
        ("constants", "serving_default", 1.0),
        ("unknown_operations", "serving_default", 3.0),
    ],
)
def test_predict_answers_for_every_kind_of_export(
    server: Server, model: str, signature: str, value: float
) -> None:
    assert predict(server.prediction, model, signature) == value


@pytest.mark.skipif(importlib.util.find_spec("tf_keras") is None, reason="no tf_keras")
@pytest.mark.parametrize("model", ["keras", "keras_mirrored"])
def test_predict_answers_for_models_of_keras(server: Server, model: str) -> None:
    assert predict(server.prediction, model, rank=2) == 2.0


def test_predict_answers_over_a_unix_socket(server: Server, root: Path) -> None:
    with grpc.insecure_channel(f"unix:{root / 'grpc.sock'}") as channel:
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert predict(prediction, "half_plus_two") == 3.0


@pytest.mark.parametrize(
    ("verb", "body", "answer"),
    [
        (
            "classify",
            {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}]},
            {"results": [[["", 3.0]]]},
        ),
        (
            "regress",
            {"signature_name": "regress_x_to_y", "examples": [{"x": 2.0}]},
            {"results": [3.0]},
        ),
        ("predict", {"instances": [2.0, 3.0, 4.0]}, {"predictions": [3.0, 3.5, 4.0]}),
        ("predict", {"inputs": [2.0, 3.0, 4.0]}, {"outputs": [3.0, 3.5, 4.0]}),
    ],
    ids=["classify", "regress", "rows", "columns"],
)
def test_the_verbs_of_rest(server: Server, verb: str, body: object, answer: object) -> None:
    reply = server.rest.post(f"/v1/models/half_plus_two:{verb}", json=body)
    assert (reply.status_code, reply.json()) == (200, answer)


def test_metrics_stand_where_the_monitoring_file_says(server: Server) -> None:
    assert "# TYPE" in server.rest.get(METRICS).text


def test_a_missing_model_is_told_in_the_word_that_clients_wait_for(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as missing:
        server.prediction.Predict(named(predict_pb2.PredictRequest(), "missing"), PATIENCE_S)
    assert "Servable" in missing.value.details()


def test_there_is_a_profiler(server: Server) -> None:
    """On by default; a profile of no time is refused."""
    call = server.channel.unary_unary("/tensorflow.ProfilerService/Profile")
    with rpc_refused("INVALID_ARGUMENT"):
        call(b"", timeout=PATIENCE_S)


def test_a_changed_file_is_served_by_a_server_that_polls_it_and_no_other(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "models.config"
    write(file, root / "half_plus_two")
    poll = "--model_config_file_poll_wait_seconds="
    polling, other = (
        serve("tensorflow_model_server", f"--model_config_file={file}", f"{poll}{seconds}")
        for seconds in (1, 0)
    )
    write(file, root / "half_plus_three")
    polling.line("model=half_plus_three .*state=AVAILABLE")
    assert predict(polling.prediction, "half_plus_three") == 4.0
    assert predict(other.prediction, "half_plus_two") == 3.0


def test_a_file_that_cannot_be_parsed_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text("improperly formatted file")
    process = Process("tensorflow_model_server", f"--model_config_file={file}")
    assert process.exit_code() == 255
    assert "Error parsing text-format tensorflow.serving.ModelServerConfig" in process.log
