"""Malformed requests that no row of the conformance table is: refused by code and cause.

None hurts the next request, and none leaves a traceback in the log.
"""

import gzip
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from tensorflow_serving.apis import get_model_metadata_pb2

from ie_serving.core.values.errors import WHOLE
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S

IMAGE = np.zeros((1, 64), np.float32)
ROW = [0.0] * 64
PATH = "/v1/models/digits:predict"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("ie_serving", "model", *SAMPLE_FLAGS) as server:
        yield server.ready()


@pytest.fixture(autouse=True)
def unhurt(server: Server) -> Iterator[None]:
    """After every case a good request is answered on both interfaces, and the log is clean."""
    yield
    assert server.prediction.Predict(predict_request("digits", image=IMAGE), PATIENCE_S).outputs
    reply = server.rest.post(PATH, json={"instances": [ROW]})
    assert reply.status_code == 200, reply.text
    assert "Traceback" not in server.log


def of_size(*sizes: int) -> Callable[[Any], object]:
    """Declare a tensor of which nothing is sent."""

    def change(tensor: Any) -> None:
        tensor.Clear()
        tensor.dtype = 1
        for size in sizes:
            tensor.tensor_shape.dim.add(size=size)

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(lambda tensor: setattr(tensor, "dtype", 99), "parsing error: image", id="99"),
        pytest.param(lambda tensor: setattr(tensor, "dtype", 20), "parsing error: image", id="20"),
        pytest.param(of_size(2**62, 2**62), "tensor parsing error: image", id="overflow"),
        pytest.param(of_size(), "Obtained shape []", id="a scalar"),
    ],
)
def test_a_malformed_tensor_over_grpc_is_refused(
    server: Server, change: Callable[[Any], object], text: str
) -> None:
    request = predict_request("digits", image=IMAGE)
    change(request.inputs["image"])
    with rpc_refused("INVALID_ARGUMENT", text):
        server.prediction.Predict(request, PATIENCE_S)


def test_nothing_is_asked_of_metadata(server: Server) -> None:
    with rpc_refused("INVALID_ARGUMENT", "Missing ModelSpec"):
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        server.prediction.GetModelMetadata(request, PATIENCE_S)


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a\x05ab", b"\x08\x01" * 1000 + b"\x0a\xff\xff"])
@pytest.mark.parametrize("method", ["Predict", "GetModelMetadata"])
def test_bytes_that_are_no_message_are_refused(server: Server, method: str, payload: bytes) -> None:
    call = server.channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")
    with rpc_refused("INVALID_ARGUMENT"):
        call(payload, PATIENCE_S)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b'{"instances": [[1, 2', "JSON Parse error", id="cut off"),
        pytest.param(f'{{"instances": [{ROW[1:]}]}}', "required shape [-1, 64]", id="short row"),
        pytest.param(b'{"inputs": [{"a": 1}]}', "not of expected type: float", id="an object"),
        pytest.param(b'{"inputs": {"b64": "AAAA"}}', "not of expected type: float", id="base64"),
        pytest.param(
            b'{"instances": ' + b"[" * 5000 + b"]" * 5000 + b"}",
            "Encountered list at unexpected level: 32 expected < 32",
            id="nested",
        ),
    ],
)
def test_bodies_over_rest(server: Server, body: str | bytes, text: str) -> None:
    reply = server.rest.post(PATH, content=body)
    assert reply.status_code == 400
    assert reply.headers["Content-Type"] == "application/json"
    assert text in reply.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", "/v1/models/x:predict", "Servable not found for request: Latest(x)"),
        ("GET", "/v1/models/x/metadata", "Servable not found for request: Latest(x)"),
        ("GET", "/v1/models/x", "Could not find any versions of model x"),
    ],
)
def test_the_text_is_whole_and_a_header_helps(
    server: Server, method: str, path: str, text: str
) -> None:
    reply = server.rest.request(method, path, content=b'{"instances": []}')
    assert reply.json() == {"error": text}
    assert unquote(reply.headers[WHOLE]) == f"{text}: no such model; served models: digits"


def test_a_bomb_of_gzip_and_a_body_over_the_limit(serve: Serve) -> None:
    server = serve(
        "ie_serving",
        "model",
        *SAMPLE_FLAGS,
        "--max_message_bytes=1000000",
    )
    bomb = gzip.compress(b"[" * 50_000_000)
    refused = server.rest.post(PATH, content=bomb, headers={"Content-Encoding": "gzip"})
    assert (refused.status_code, "1000000 bytes" in refused.text) == (413, True)
    large = server.rest.post(PATH, content=b" " * 2_000_000)
    assert large.status_code == 413
