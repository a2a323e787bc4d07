"""Triton's extensions of the Open Inference Protocol, asked by Triton's own clients."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, SAMPLE_FLAGS, Server
from tests.tables import named_by

Refused = InferenceServerException
FLAGS = (
    *SAMPLE_FLAGS,
    "--log_level=info",
    *("--max_batch_size=16", "--batch_timeout_micros=500"),
    '--model_version_policy={"specific": {"versions": [1, 2]}}',
)


@pytest.fixture(scope="module", params=["http2", "grpcio"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server("ie_serving", "model", *FLAGS, f"--grpc_transport={request.param}") as server:
        yield server.ready()


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    is_http = request.param == "http"
    module, port = (triton_http, server.rest_port) if is_http else (triton_grpc, server.port)
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


def plain(found: Any) -> Any:
    """What both clients give, as Python values."""
    if isinstance(found, (dict, list)):
        return found
    return MessageToDict(found, preserving_proto_field_name=True)


def test_the_configuration_of_a_model_is_told(client: Any) -> None:
    found = plain(client.get_model_config("digits", "2"))
    config = found.get("config", found)
    assert config["max_batch_size"] == 2**31 - 1
    assert config["version_policy"] == {"specific": {"versions": pytest.approx(["1", "2"])}} or (
        config["version_policy"] == {"specific": {"versions": [1, 2]}}
    )
    (image,) = config["input"]
    assert (image["name"], image["data_type"], [*map(int, image["dims"])]) == (
        *("image", "TYPE_FP32"),
        [64],
    )
    assert {each["name"]: each["data_type"] for each in config["output"]} == {
        "digit": "TYPE_INT32",
        "probabilities": "TYPE_FP32",
    }
    assert config["instance_group"][0]["kind"] == "KIND_CPU"
    assert config["dynamic_batching"]["preferred_batch_size"] == [16]
    assert int(config["dynamic_batching"]["max_queue_delay_microseconds"]) == 500
    with pytest.raises(Refused, match="none"):
        client.get_model_config("none")


@named_by(
    "method path",
    ("method", "path", "status", "text"),
    [
        ("DELETE", "/v2/models/digits/versions/1/nonsense", 404, "no path"),
        ("POST", "/v2/models/digits/versions/1/generate_stream", 501, "no generate"),
        ("POST", "/v2/trace/setting", 400, "has to be a JSON object"),
        ("POST", "/v2/models/digits/config", 405, "GET"),
        ("DELETE", "/v2/logging", 405, "GET"),
    ],
)
def test_errors_are_json(server: Server, method: str, path: str, status: int, text: str) -> None:
    reply = server.rest.request(method, path)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json")
    assert text in json.loads(reply.content)["error"]


def test_the_server_names_its_extensions(client: Any) -> None:
    found = plain(client.get_server_metadata())["extensions"]
    assert {"model_configuration", "model_repository", "logging", "trace"} <= {*found}


def classes(client: Any, wanted: int, **more: Any) -> Any:
    module = triton_http if isinstance(client, triton_http.InferenceServerClient) else triton_grpc
    pixels = (np.arange(2 * 64, dtype=np.float32) % 17).reshape(2, 64)
    image = module.InferInput("image", [2, 64], "FP32")
    image.set_data_from_numpy(pixels)
    outputs = [
        module.InferRequestedOutput("probabilities", class_count=wanted, **more),
        module.InferRequestedOutput("digit"),
    ]
    return client.infer("digits", [image], outputs=outputs, request_id="7")


def test_classes_of_an_output_are_answered(client: Any) -> None:
    reply = classes(client, 3)
    values = client_values(client)
    for row, found in zip(values, reply.as_numpy("probabilities"), strict=True):
        best = sorted(range(10), key=lambda index: -row[index])[:3]
        assert [text.decode() for text in found] == [f"{row[i]:f}:{i}" for i in best]
    assert reply.as_numpy("digit").tolist() == values.argmax(axis=1).tolist()
    assert classes(client, 1000).as_numpy("probabilities").shape == (2, 10)


def client_values(client: Any) -> Any:
    module = triton_http if isinstance(client, triton_http.InferenceServerClient) else triton_grpc
    image = module.InferInput("image", [2, 64], "FP32")
    image.set_data_from_numpy((np.arange(2 * 64, dtype=np.float32) % 17).reshape(2, 64))
    return client.infer("digits", [image]).as_numpy("probabilities")


def test_classes_are_answered_as_json(server: Server) -> None:
    body = {
        "inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [1.0] * 64}],
        "outputs": [{"name": "probabilities", "parameters": {"classification": 1}}],
    }
    (output,) = server.rest.post("/v2/models/digits/infer", json=body).json()["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [1, 1])
    assert re.fullmatch(r"\d\.\d{6}:\d", output["data"][0])
    for wrong in (0, "many", True, 1.5):
        body["outputs"][0]["parameters"] = {"classification": wrong}
        refused = server.rest.post("/v2/models/digits/infer", json=body)
        assert refused.status_code == 400
        assert '"classification" of output "probabilities"' in refused.json()["error"]


def test_labels_of_classes_come_from_a_file(serve: Serve, tmp_path: Path) -> None:
    version = tmp_path / "1"
    shutil.copytree(SAMPLE / "1", version)
    labels = [f"digit {number}" for number in range(10)]
    (version / "labels.txt").write_text("\n".join(labels))
    signature = {
        "method": "classify",
        "outputs": {"scores": "probabilities"},
        "labels": "labels.txt",
    }
    (version / "signatures.json").write_text(json.dumps({"signatures": {"labelled": signature}}))
    server = serve("ie_serving", "model", "--model_name=digits", f"--model_path={tmp_path}")
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        (first, _) = classes(client, 1).as_numpy("probabilities")
    _, index, label = first[0].decode().split(":")
    assert label == labels[int(index)]
