"""Malformed requests over both interfaces: refused by code and cause, and without consequences.

None hurts the next request, and none leaves a traceback in the log.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from ie_serving.core.values.errors import WHOLE
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE_FLAGS, Server, rpc_refused
from tests.process import PATIENCE_S

IMAGE = np.zeros((1, 64), np.float32)
ROW = [0.0] * 64
Request = Any
Change = Callable[[Request], object]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("ie_serving", "model", *SAMPLE_FLAGS) as server:
        yield server.ready()


@pytest.fixture(autouse=True)
def unhurt(server: Server) -> Iterator[None]:
    """After every case a good request is answered on both interfaces, and the log is clean."""
    yield
    assert server.prediction.Predict(good(), PATIENCE_S).outputs
    reply = server.rest.post("/v1/models/digits:predict", json={"instances": [ROW]})
    assert reply.status_code == 200, reply.text
    assert "Traceback" not in server.log


def good() -> Request:
    return predict_request("digits", image=IMAGE)


def image(**fields: Any) -> Change:
    """Replace the input's TensorProto."""

    def change(request: Request) -> None:
        request.inputs["image"].CopyFrom(tf.make_tensor_proto(IMAGE))
        proto = request.inputs["image"]
        for name, value in fields.items():
            if name == "dims":
                proto.tensor_shape.Clear()
                for size in value:
                    proto.tensor_shape.dim.add(size=size)
            elif name == "unknown_rank":
                proto.tensor_shape.Clear()
                proto.tensor_shape.unknown_rank = value
            else:
                setattr(proto, name, value)

    return change


def array(value: Any) -> Change:
    return lambda request: request.inputs["image"].CopyFrom(tf.make_tensor_proto(value))


def spec(**fields: Any) -> Change:
    def change(request: Request) -> None:
        for name, value in fields.items():
            if name == "version":
                request.model_spec.version.value = value
            else:
                setattr(request.model_spec, name, value)

    return change


def extra(request: Request) -> None:
    request.inputs["other"].CopyFrom(tf.make_tensor_proto(IMAGE))


def renamed(request: Request) -> None:
    del request.inputs["image"]
    request.inputs["picture"].CopyFrom(tf.make_tensor_proto(IMAGE))


INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION

PREDICT: list[tuple[str, Change, grpc.StatusCode, str]] = [
    ("no model spec", lambda r: r.ClearField("model_spec"), INVALID, "Missing ModelSpec"),
    ("no model name", spec(name=""), INVALID, "ModelSpec has no name specified"),
    ("unknown model", spec(name="x"), NOT_FOUND, "Servable not found for request: Latest(x)"),
    ("unknown version", spec(version=9), NOT_FOUND, "Specific(digits, 9)"),
    ("negative version", spec(version=-5), NOT_FOUND, "Specific(digits, -5)"),
    ("unknown label", spec(version_label="x"), INVALID, "Unrecognized servable version label: x"),
    ("unknown signature", spec(signature_name="x"), PRECONDITION, 'signature key "x" not found'),
    ("no inputs", lambda r: r.inputs.clear(), INVALID, "Missing but required: {image}"),
    ("an extra input", extra, INVALID, "Sent extra: {other}"),
    ("a misnamed input", renamed, INVALID, "Sent extra: {picture}"),
    ("unknown output", lambda r: r.output_filter.append("x"), INVALID, "output tensor alias not"),
    (
        "an output twice",
        lambda r: r.output_filter.extend(["digit", "digit"]),
        INVALID,
        "duplicate output tensor alias: digit",
    ),
    ("dtype 0", image(dtype=0), INVALID, "tensor parsing error: image"),
    ("dtype unheard of", image(dtype=99), INVALID, "tensor parsing error: image"),
    ("resource dtype", image(dtype=20), INVALID, "tensor parsing error: image"),
    ("too few bytes", image(tensor_content=b"1234"), INVALID, "tensor parsing error: image"),
    ("too many bytes", image(tensor_content=b"0" * 1000), INVALID, "tensor parsing error: image"),
    ("negative dimension", image(dims=[-1, 64]), INVALID, "tensor parsing error: image"),
    ("open rank", image(unknown_rank=True), INVALID, "tensor parsing error: image"),
    (
        "a terabyte declared, nothing sent",
        image(dims=[2**30, 256], tensor_content=b""),
        INVALID,
        "tensor parsing error: image",
    ),
    (
        "dimensions that overflow",
        image(dims=[2**62, 2**62], tensor_content=b""),
        INVALID,
        "tensor parsing error: image",
    ),
    ("wrong columns", array(np.zeros((1, 63), np.float32)), INVALID, "required shape [-1, 64]"),
    ("wrong rank", array(np.zeros(64, np.float32)), INVALID, "Obtained shape [64]"),
    ("rank 3", array(np.zeros((1, 1, 64), np.float32)), INVALID, "Obtained shape [1, 1, 64]"),
    ("a scalar", array(np.float32(1)), INVALID, "Obtained shape []"),
    ("strings", array(np.array([[b"x"] * 64])), INVALID, "float but string is provided"),
    ("booleans", array(np.zeros((1, 64), bool)), INVALID, "float but bool is provided"),
    ("complex", array(np.zeros((1, 64), np.complex64)), INVALID, "image"),
    ("doubles beyond float", array(np.full((1, 64), 1e300)), INVALID, "outside the range of float"),
]


@pytest.mark.parametrize(
    ("change", "code", "text"), [c[1:] for c in PREDICT], ids=[c[0] for c in PREDICT]
)
def test_predict_over_grpc(
    server: Server, change: Change, code: grpc.StatusCode, text: str
) -> None:
    request = good()
    change(request)
    with pytest.raises(grpc.RpcError) as refused:
        server.prediction.Predict(request, PATIENCE_S)
    assert refused.value.code() is code
    assert text in refused.value.details()


def metadata(fields: list[str], name: str = "digits") -> Request:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = name
    return request


def status(**fields: Any) -> Request:
    request = get_model_status_pb2.GetModelStatusRequest()
    spec(**fields)(request)
    return request


def reload(text: str) -> Request:
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config
    for name, path in [pair.split("=") for pair in text.split()]:
        config.add(name=name, base_path=path, model_platform="tensorflow")
    return request


OTHERS: list[tuple[str, str, Request, grpc.StatusCode, str]] = [
    ("GetModelMetadata", "no field", metadata([]), INVALID, "at least one metadata_field"),
    ("GetModelMetadata", "a field", metadata(["x"]), INVALID, "Metadata field x is not supported"),
    ("GetModelMetadata", "model", metadata(["signature_def"], "x"), NOT_FOUND, "Latest(x)"),
    (
        "GetModelMetadata",
        "no spec",
        get_model_metadata_pb2.GetModelMetadataRequest(),
        INVALID,
        "Missing ModelSpec",
    ),
    ("GetModelStatus", "model", status(name="x"), NOT_FOUND, "any versions of model x"),
    (
        "GetModelStatus",
        "version",
        status(name="digits", version=9),
        NOT_FOUND,
        "Could not find version 9 of model digits",
    ),
    (
        "GetModelStatus",
        "no spec",
        get_model_status_pb2.GetModelStatusRequest(),
        INVALID,
        "Missing ModelSpec",
    ),
    (
        "HandleReloadConfigRequest",
        "no list",
        model_management_pb2.ReloadConfigRequest(),
        INVALID,
        "Only ModelConfigList is currently supported",
    ),
    ("HandleReloadConfigRequest", "relative", reload("a=b"), INVALID, "absolute path or URI"),
    ("HandleReloadConfigRequest", "twice", reload("a=/a a=/b"), INVALID, "list model a multiple"),
]


@pytest.mark.parametrize(
    ("method", "request_", "code", "text"),
    [(c[0], *c[2:]) for c in OTHERS],
    ids=[f"{c[0]} {c[1]}" for c in OTHERS],
)
def test_other_methods_over_grpc(
    server: Server, method: str, request_: Request, code: grpc.StatusCode, text: str
) -> None:
    call = getattr(server.prediction, method, None) or getattr(server.model, method)
    with pytest.raises(grpc.RpcError) as refused:
        call(request_, PATIENCE_S)
    assert refused.value.code() is code
    assert text in refused.value.details()


@pytest.mark.parametrize("payload", [b"\xff", b"\x0a\x05ab", b"\x08\x01" * 1000 + b"\x0a\xff\xff"])
@pytest.mark.parametrize("method", ["Predict", "GetModelMetadata"])
def test_bytes_that_are_no_message(server: Server, method: str, payload: bytes) -> None:
    call = server.channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")
    with pytest.raises(grpc.RpcError) as refused:
        call(payload, PATIENCE_S)
    assert refused.value.code() is INVALID


def test_a_method_that_does_not_exist(server: Server) -> None:
    call = server.channel.unary_unary("/tensorflow.serving.SessionService/SessionRun")
    with rpc_refused("UNIMPLEMENTED"):
        call(b"", PATIENCE_S)


PATH = "/v1/models/digits:predict"
BODIES: list[tuple[str, str, Any, int, str]] = [
    ("empty body", PATH, b"", 400, "JSON Parse error: The document is empty"),
    ("blank body", PATH, b" ", 400, "The document is empty. at offset: 1"),
    ("not JSON", PATH, b"instances = [1]", 400, "Invalid value. at offset: 0"),
    ("cut off", PATH, b'{"instances": [[1, 2', 400, "JSON Parse error"),
    ("a list", PATH, b"[1]", 400, "Is not object"),
    ("a number", PATH, b"1", 400, "Is not object"),
    ("null", PATH, b"null", 400, "Is not object"),
    ("no key", PATH, b"{}", 400, "Missing 'inputs' or 'instances' key"),
    ("both keys", PATH, b'{"instances": [1], "inputs": [1]}', 400, "expecting only one of"),
    ("no list", PATH, b'{"instances": 1}', 400, "Expecting 'instances' to be an list/array"),
    ("empty list", PATH, b'{"instances": []}', 400, "No values in 'instances' array"),
    (
        "signature type",
        PATH,
        b'{"signature_name": 1}',
        400,
        "'signature_name' key must be a string",
    ),
    (
        "signature",
        PATH,
        b'{"signature_name": "x", "inputs": 1}',
        400,
        'Serving signature name: "x" not found in signature def',
    ),
    ("ragged rows", PATH, b'{"instances": [[1, 2], [3]]}', 400, "Expecting tensor size: 2 but got"),
    ("ragged in a row", PATH, b'{"instances": [[[1, 2], [3]]]}', 400, "unexpected size"),
    ("short row", PATH, {"instances": [ROW[1:]]}, 400, "required shape [-1, 64]"),
    ("null value", PATH, {"instances": [[None] * 64]}, 400, "is not of expected type: float"),
    ("string value", PATH, {"instances": [["a"] * 64]}, 400, "is not of expected type: float"),
    ("boolean value", PATH, {"instances": [[True] * 64]}, 400, "is not of expected type: float"),
    ("object value", PATH, {"instances": [[{"a": 1}] * 64]}, 400, "is not of expected type: float"),
    ("wrong name in a row", PATH, {"instances": [{"x": ROW}]}, 400, "does not have named input: x"),
    ("objects, then a list", PATH, {"instances": [{"image": ROW}, ROW]}, 400, "Expecting object"),
    (
        "a list, then objects",
        PATH,
        {"instances": [ROW, {"image": ROW}]},
        400,
        "Expecting value/list",
    ),
    ("wrong name in a column", PATH, {"inputs": {"x": [ROW]}}, 400, "image"),
    ("base64 for numbers", PATH, {"inputs": {"b64": "AAAA"}}, 400, "not of expected type: float"),
    ("a number too big", PATH, b'{"instances": [[1e400]]}', 400, "Number too big"),
    ("comment", PATH, b'{"instances": [[1]] // c\n}', 400, "JSON Parse error"),
    ("trailing comma", PATH, b'{"instances": [[1,]]}', 400, "Invalid value"),
    ("nested beyond reason", PATH, b'{"instances": ' + b"[" * 10000, 400, "JSON Parse error"),
    (
        "nested and closed",
        PATH,
        b'{"instances": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        400,
        "Encountered list at unexpected level: 32 expected < 32",
    ),
    ("unknown model", "/v1/models/x:predict", {"inputs": 1}, 404, "Latest(x)"),
    ("unknown version", "/v1/models/digits/versions/9:predict", {"inputs": 1}, 404, "(digits, 9)"),
    ("unknown label", "/v1/models/digits/labels/x:predict", {"inputs": 1}, 400, "label: x"),
    ("bad JSON, unknown model", "/v1/models/x:predict", b"{", 400, "JSON Parse error"),
    ("no verb", "/v1/models/digits", {"inputs": 1}, 400, "Malformed request: POST"),
    ("unknown verb", "/v1/models/digits:explain", {"inputs": 1}, 400, "Malformed request: POST"),
    ("version text", "/v1/models/digits/versions/x:predict", {}, 400, "Malformed request: POST"),
]


@pytest.mark.parametrize(
    ("path", "body", "code", "text"), [c[1:] for c in BODIES], ids=[c[0] for c in BODIES]
)
def test_predict_over_rest(server: Server, path: str, body: Any, code: int, text: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    reply = server.rest.post(path, content=content)
    assert reply.status_code == code
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


def test_gzip_that_is_none_and_a_bomb(serve: Serve) -> None:
    server = serve(
        "ie_serving",
        "model",
        *SAMPLE_FLAGS,
        "--max_message_bytes=1000000",
    )
    headers = {"Content-Encoding": "gzip"}
    broken = server.rest.post(PATH, content=b"not gzip", headers=headers)
    assert (broken.status_code, "not valid gzip data" in broken.text) == (400, True)
    bomb = gzip.compress(b"[" * 50_000_000)
    refused = server.rest.post(PATH, content=bomb, headers=headers)
    assert (refused.status_code, "1000000 bytes" in refused.text) == (413, True)
    large = server.rest.post(PATH, content=b" " * 2_000_000)
    assert large.status_code == 413
