"""The sample over both interfaces: the same numbers as OpenVINO itself, on the held-out digits."""

import json
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
import psutil
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2

from tests.functional.asking import predict_request, predicted
from tests.functional.conftest import Serve
from tests.functional.servers import ROOT, SAMPLE, SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S

HELD_OUT = json.loads((ROOT / "examples" / "digits" / "held_out.json").read_text())
IMAGES = np.array(HELD_OUT["image"], np.float32)
DIGITS = np.array(HELD_OUT["digit"])
IDLE_MEMORY = 200 * 2**20
START_S = 1.0
"""Processor time in seconds of the whole start; the clock's would depend on what else runs."""


@cache
def directly(version: int) -> dict[str, Any]:
    """What OpenVINO computes in f32 without a server in between."""
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    model = ov.Core().compile_model(SAMPLE / str(version) / "model.xml", "CPU", hint)
    outputs = model(IMAGES)
    return {port.get_any_name(): outputs[port] for port in model.outputs}


def over_grpc(
    server: Server, version: int | None, images: Any, model: str = "digits"
) -> dict[str, Any]:
    return predicted(server, predict_request(model, "", version, image=images))


def over_rest(
    server: Server, version: int | None, images: Any, model: str = "digits"
) -> dict[str, Any]:
    chosen = "" if version is None else f"/versions/{version}"
    reply = server.rest.post(
        f"/v1/models/{model}{chosen}:predict", json={"inputs": {"image": images.tolist()}}
    )
    assert reply.status_code == 200, reply.text
    return {name: np.array(values) for name, values in reply.json()["outputs"].items()}


@pytest.mark.parametrize("ask", [over_grpc, over_rest])
@pytest.mark.parametrize("version", [1, 2])
def test_the_numbers_are_openvinos_own(digits: Server, ask: Any, version: int) -> None:
    expected, got = directly(version), ask(digits, version, IMAGES)
    assert got.keys() == expected.keys()
    np.testing.assert_allclose(got["probabilities"], expected["probabilities"], atol=1e-6)
    np.testing.assert_array_equal(got["digit"], expected["digit"])


@pytest.mark.parametrize("ask", [over_grpc, over_rest])
def test_most_held_out_digits_are_recognised_by_the_default_version(
    digits: Server, ask: Any
) -> None:
    assert (ask(digits, None, IMAGES)["digit"] == DIGITS).mean() > 0.95


def test_clients_of_2020_may_send_doubles_and_bytes(digits: Server) -> None:
    expected = over_grpc(digits, 2, IMAGES)
    for dtype in (np.float64, np.uint8):
        got = over_grpc(digits, 2, IMAGES.astype(dtype))
        np.testing.assert_array_equal(got["probabilities"], expected["probabilities"])


def test_row_form_names_each_output_of_each_row(digits: Server) -> None:
    rows = [{"image": image.tolist()} for image in IMAGES[:3]]
    reply = digits.rest.post("/v1/models/digits:predict", json={"instances": rows}).json()
    assert [set(row) for row in reply["predictions"]] == [{"probabilities", "digit"}] * 3
    unnamed = digits.rest.post("/v1/models/digits:predict", json={"instances": IMAGES[:3].tolist()})
    assert unnamed.json() == reply


def signatures_of(
    response: get_model_metadata_pb2.GetModelMetadataResponse,
) -> get_model_metadata_pb2.SignatureDefMap:
    """Unpack them: the packed bytes of equal maps differ, since their order is by chance."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    return signatures


def test_metadata_is_the_same_over_both_interfaces(digits: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "digits"
    request.metadata_field.append("signature_def")
    response = digits.prediction.GetModelMetadata(request, PATIENCE_S)
    signatures = signatures_of(response)
    image = signatures.signature_def["serving_default"].inputs["image"]
    assert image.dtype == tf.float32.as_datatype_enum
    assert [dim.size for dim in image.tensor_shape.dim] == [-1, 64]
    shown = json_format.ParseDict(
        digits.rest.get("/v1/models/digits/metadata").json(), type(response)()
    )
    assert shown.model_spec == response.model_spec
    assert signatures_of(shown) == signatures


def test_status_is_the_same_over_both_interfaces(digits: Server) -> None:
    status = [(s.version, s.state) for s in digits.status("digits")]
    assert status == [(2, 30), (1, 30)]
    shown = digits.rest.get("/v1/models/digits").json()["model_version_status"]
    assert [(s["version"], s["state"]) for s in shown] == [("2", "AVAILABLE"), ("1", "AVAILABLE")]
    assert digits.rest.get("/v1/models").json() == {"models": ["digits"]}


def test_the_server_process_never_imports_tensorflow(digits: Server) -> None:
    for pid in digits.pids():
        files = {mapped.path for mapped in psutil.Process(pid).memory_maps()}
        assert not [
            path for path in files if "/tensorflow/python/" in path or "libtensorflow" in path
        ]


def test_start_is_quick_and_idle_memory_small(serve: Serve) -> None:
    """Limits with room for noisy machines; `make bench-quick` gives the figures."""
    command = ("ie_serving", "model", *SAMPLE_FLAGS)
    server = serve(*command, executed=True)
    assert server.spent_s() < 3 * START_S
    over_grpc(server, None, IMAGES[:1])
    memory = sum(psutil.Process(pid).memory_info().rss for pid in server.pids())
    assert memory < IDLE_MEMORY
