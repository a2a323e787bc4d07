"""Whatever bytes a request holds, it gets an answer with a code, soon, and costs little memory."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import predict_pb2

from tests.functional.cost import ROW, cheap
from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.process import PATIENCE_S

MEGABYTE = 2**20
LIMIT = 100 * MEGABYTE
VERBS = ("predict", "classify", "regress")
METHODS = (
    "PredictionService/Predict",
    "PredictionService/Classify",
    "PredictionService/Regress",
    "PredictionService/MultiInference",
    "PredictionService/GetModelMetadata",
    "ModelService/GetModelStatus",
)
"""Not HandleReloadConfigRequest: some bytes are a request to serve nothing, and it would."""
NESTED = 500_000
ODD_EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("ie_serving", "model", *SAMPLE_FLAGS, f"--max_message_bytes={LIMIT}") as server:
        yield server.ready()


def post(server: Server, body: bytes, verb: str = "predict") -> tuple[int, Any]:
    reply = server.rest.post(f"/v1/models/digits:{verb}", content=body)
    assert reply.headers["Content-Type"] == "application/json"
    return reply.status_code, reply.json()


def send(server: Server, method: str, payload: bytes) -> str:
    call: Any = server.channel.unary_unary(f"/tensorflow.serving.{method}")
    try:
        call(payload, PATIENCE_S)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


FRAGMENTS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"instances", b"inputs", b"b64", b"1", b"e9"]
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.lists(FRAGMENTS, max_size=30).map(b"".join),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=12,
    ).map(lambda value: json.dumps({"instances": value, "examples": value}).encode()),
)


@ODD_EXAMPLES
@example(body=b'{"instances": {"\\u0000": null}}', verb="predict")
@given(body=BODIES, verb=st.sampled_from(VERBS))
def test_any_rest_body_is_answered(server: Server, body: bytes, verb: str) -> None:
    """No body is the caller's fault and the server's at once: never a 5xx."""
    code, document = post(server, body, verb)
    assert code == 200 or (400 <= code < 500 and document["error"])


def test_no_rest_body_left_a_traceback(server: Server) -> None:
    assert "Traceback" not in server.log


@ODD_EXAMPLES
@given(payload=st.binary(max_size=200), method=st.sampled_from(METHODS))
def test_any_grpc_payload_is_answered(server: Server, payload: bytes, method: str) -> None:
    assert send(server, method, payload) in {
        "OK",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "FAILED_PRECONDITION",
    }


@ODD_EXAMPLES
@given(data=st.data())
def test_a_good_request_with_bytes_changed_is_answered(server: Server, data: st.DataObject) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "digits"
    tensor = request.inputs["image"]
    tensor.dtype = 1
    for size in (1, 64):
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.extend(ROW)
    payload = bytearray(request.SerializeToString())
    for at in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=4)):
        payload[at] = data.draw(st.integers(0, 255))
    code = send(server, "PredictionService/Predict", bytes(payload))
    assert code in {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"instances": ' + b"[" * NESTED + b"]" * NESTED + b"}", id="instances"),
        pytest.param(b'{"inputs": ' + b"[" * NESTED + b"]" * NESTED + b"}", id="inputs"),
        pytest.param(
            b'{"inputs": ' + b'{"a":' * NESTED + b"1" + b"}" * NESTED + b"}", id="objects"
        ),
        pytest.param(b'{"examples": [' + b"[" * NESTED + b"]" * NESTED + b"]}", id="examples"),
        pytest.param(b'{"signature_name": ' + b"[" * NESTED + b"]" * NESTED + b"}", id="a name"),
        pytest.param(b"[" * NESTED, id="open"),
        pytest.param(b"[" * NESTED + b"]" * NESTED, id="no object"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "classify"])
def test_half_a_million_levels_are_refused(server: Server, body: bytes, verb: str) -> None:
    with cheap(server, 300 * MEGABYTE):
        code, document = post(server, body, verb)
        assert code == 400
        assert len(document["error"]) < 2000


def test_half_a_million_levels_under_an_ignored_key_are_ignored(server: Server) -> None:
    """TensorFlow Serving's own test case."""
    nested = "[" * NESTED + "]" * NESTED
    with cheap(server, 300 * MEGABYTE):
        code, _ = post(server, f'{{"ignored": {nested}, "instances": [{ROW}]}}'.encode())
        assert code == 200


@pytest.mark.parametrize("sent", ["nothing", "one value", "one byte"])
def test_a_terabyte_that_is_declared_is_refused(server: Server, sent: str) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "digits"
    tensor = request.inputs["image"]
    tensor.dtype = 1
    for size in (2**32, 64):
        tensor.tensor_shape.dim.add(size=size)
    if sent == "one value":
        tensor.float_val.append(1)
    elif sent == "one byte":
        tensor.tensor_content = b"1"
    with cheap(server, 50 * MEGABYTE):
        payload = request.SerializeToString()
        assert send(server, "PredictionService/Predict", payload) == "INVALID_ARGUMENT"


def test_a_body_over_the_limit_is_refused_unread(server: Server) -> None:
    """200 MB are announced; the answer comes before they are sent."""
    with cheap(server, 50 * MEGABYTE):
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=PATIENCE_S)
        connection.putrequest("POST", "/v1/models/digits:predict")
        connection.putheader("Content-Length", str(2 * LIMIT))
        connection.endheaders(b"{")
        reply = connection.getresponse()
        assert reply.status == 413
        assert str(LIMIT) in json.load(reply)["error"]
        connection.close()


def test_of_a_body_over_the_limit_no_more_is_read_than_is_on_its_way(server: Server) -> None:
    """A client that goes on sending meets the end of the connection, behind the refusal."""
    piece, sent = bytes(MEGABYTE), 0
    address = ("127.0.0.1", server.rest_port)
    with (
        cheap(server, 50 * MEGABYTE),
        socket.create_connection(address, PATIENCE_S) as connection,
    ):
        connection.sendall(
            b"POST /v1/models/digits:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 10000000000\r\n\r\n"
        )
        reply = connection.recv(MEGABYTE)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while sent < LIMIT:
                connection.sendall(piece)
                sent += MEGABYTE
    assert reply.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in reply
    assert sent < 50 * MEGABYTE


def test_a_body_without_a_length_is_cut_at_the_limit(server: Server) -> None:
    """200 MB in chunks: what is over the limit is not kept."""
    piece = b"100000\r\n" + b" " * MEGABYTE + b"\r\n"
    address = ("127.0.0.1", server.rest_port)
    with (
        cheap(server, 2 * LIMIT + 50 * MEGABYTE, 20),
        socket.create_connection(address, PATIENCE_S) as connection,
    ):
        connection.sendall(
            b"POST /v1/models/digits:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(LIMIT // MEGABYTE + 1):
            connection.sendall(piece)
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_message_over_the_limit_is_refused(server: Server) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "digits"
    request.inputs["image"].tensor_content = bytes(2 * LIMIT)
    payload = request.SerializeToString()
    with cheap(server, 50 * MEGABYTE, 20):
        assert send(server, "PredictionService/Predict", payload) == "RESOURCE_EXHAUSTED"
