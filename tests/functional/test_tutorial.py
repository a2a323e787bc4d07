"""TensorFlow Serving's first tutorial, half_plus_two, word for word against this server.

The model is exported by real tensorflow in the layout of saved_model_half_plus_two_cpu. Flags, the
image's environment, configuration files, `curl`'s body and the answer are the tutorial's.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from tests.functional import half_plus_two
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import Server
from tests.process import PATIENCE_S

COMMAND = "tensorflow_model_server"
URL = "/v1/models/half_plus_two:predict"
BODY = '{"instances": [1.0, 2.0, 5.0]}'
CURL = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"}
"""What `curl -d` sends."""
ANSWER = '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}'

CONFIG = """
# as in the guide to configuration
model_config_list {
  config {
    name: 'half_plus_two'
    base_path: 'PATH'
    model_platform: 'tensorflow'
    model_version_policy { specific { versions: 123 } }
    version_labels { key: 'stable' value: 123 }
  }
}
"""


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("testdata") / "saved_model_half_plus_two_cpu"
    half_plus_two.export(path)
    return path


def ask(server: Server, url: str = URL) -> str:
    reply = server.rest.post(url, content=BODY, headers=CURL)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    return reply.text


def over_grpc(server: Server, x: Any, label: str = "") -> predict_pb2.PredictResponse:
    request = predict_request("half_plus_two", x=tf.make_tensor_proto(x, dtype=tf.float32))
    if label:
        request.model_spec.version_label = label
    return server.prediction.Predict(request, PATIENCE_S)


def test_the_tutorial_runs_as_printed(serve: Serve, base_path: Path) -> None:
    server = serve(COMMAND, "--model_name=half_plus_two", f"--model_base_path={base_path}")
    assert ask(server) == ANSWER
    assert json.loads(ask(server)) == {"predictions": [2.5, 3.0, 4.5]}
    assert ask(server, "/v1/models/half_plus_two/versions/123:predict") == ANSWER


def test_grpc_answers_the_same(serve: Serve, base_path: Path) -> None:
    server = serve(COMMAND, "--model_name=half_plus_two", f"--model_base_path={base_path}")
    column = over_grpc(server, [[1.0], [2.0], [5.0]])
    assert column.model_spec.version.value == 123
    assert tf.make_ndarray(column.outputs["y"]).tolist() == [[2.5], [3.0], [4.5]]
    row = over_grpc(server, [1.0, 2.0, 5.0])
    assert tf.make_ndarray(row.outputs["y"]).tolist() == [2.5, 3.0, 4.5]


def test_signatures_are_those_of_the_export(serve: Serve, base_path: Path) -> None:
    """Those that take Examples among them: their ParseExample is the server's."""
    server = serve(COMMAND, "--model_name=half_plus_two", f"--model_base_path={base_path}")
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "half_plus_two"
    response = server.prediction.GetModelMetadata(request, PATIENCE_S)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    default = signatures.signature_def["serving_default"]
    assert (default.inputs["x"].name, default.outputs["y"].name) == ("x:0", "y:0")
    assert [dim.size for dim in default.inputs["x"].tensor_shape.dim] == [-1, 1]
    assert set(signatures.signature_def) == {
        "serving_default",
        "regress_x2_to_y3",
        "classify_x2_to_y3",
        "regress_x_to_y",
        "regress_x_to_y2",
        "classify_x_to_y",
    }


def test_the_image_is_told_by_its_environment(serve: Serve, tmp_path: Path) -> None:
    half_plus_two.export(tmp_path / "half_plus_two")
    environment = {"MODEL_NAME": "half_plus_two", "MODEL_BASE_PATH": str(tmp_path)}
    server = serve(COMMAND, env=environment)
    assert ask(server) == ANSWER


def test_the_flags_of_the_entry_point(serve: Serve, tmp_path: Path) -> None:
    """`--model_base_path=${MODEL_BASE_PATH}/${MODEL_NAME}` wins over the environment."""
    half_plus_two.export(tmp_path / "half_plus_two")
    server = serve(
        COMMAND,
        "--model_name=half_plus_two",
        f"--model_base_path={tmp_path}/half_plus_two",
        env={"MODEL_NAME": "model", "MODEL_BASE_PATH": "/models"},
    )
    assert ask(server) == ANSWER


def test_configuration_files_set_labels_and_metrics(
    serve: Serve, base_path: Path, tmp_path: Path
) -> None:
    config, monitoring = tmp_path / "models.config", tmp_path / "monitoring.config"
    config.write_text(CONFIG.replace("PATH", str(base_path)))
    monitoring.write_text(
        'prometheus_config {\n  enable: true,\n  path: "/monitoring/prometheus/metrics"\n}\n'
    )
    server = serve(
        COMMAND,
        f"--model_config_file={config}",
        f"--monitoring_config_file={monitoring}",
        "--allow_version_labels_for_unavailable_models=true",
    )
    assert ask(server, "/v1/models/half_plus_two/labels/stable:predict") == ANSWER
    assert over_grpc(server, [[1.0]], "stable").model_spec.version.value == 123
    page = server.rest.get("/monitoring/prometheus/metrics")
    assert page.headers["Content-Type"] == "text/plain"
    count = ':tensorflow:serving:request_count{model_name="half_plus_two",status="OK"} 2'
    assert count in page.text.splitlines()
    assert ':tensorflow:serving:request_latency_count{model_name="half_plus_two",' in page.text


def test_a_label_at_start_needs_no_flag(serve: Serve, base_path: Path, tmp_path: Path) -> None:
    """Unlike the original, which refuses to start: here it waits for the version it names."""
    config = tmp_path / "models.config"
    config.write_text(CONFIG.replace("PATH", str(base_path)))
    server = serve(COMMAND, f"--model_config_file={config}")
    assert ask(server, "/v1/models/half_plus_two/labels/stable:predict") == ANSWER
