"""The access log: a line for each request of both interfaces, with its id."""

import itertools
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2
from wsproto.events import CloseConnection, TextMessage

from tests.functional.servers import SAMPLE_FLAGS, Server
from tests.functional.test_transports import TRANSPORTS, predict
from tests.functional.websocket import WebSocket
from tests.process import PATIENCE_S, until

BODY = json.dumps({"instances": np.zeros((1, 64)).tolist()})
ID = "x-request-id"
_NUMBERS = itertools.count(1)


def named() -> dict[str, str]:
    """Give an id as the clients that send one do: a header over REST, metadata over gRPC."""
    return {ID: f"test-{next(_NUMBERS)}"}


class Logged(NamedTuple):
    """A server with an access log."""

    server: Server
    path: Path

    def lines(self) -> list[dict[str, Any]]:
        # What is behind the last end of a line is still being written.
        whole = self.path.read_text().split("\n")[:-1]
        return [json.loads(line) for line in whole]

    def line_of(self, request_id: str) -> dict[str, Any]:
        """Wait for the line of a request; give its fields."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.lines() if each["fields"]["id"] == request_id]

        until(lambda: bool(found()))
        (line,) = found()
        assert (line["logger"], line["message"]) == ("ie_serving.access", "request answered")
        fields: dict[str, Any] = line["fields"]
        return fields


@contextmanager
def serving(transport: str, path: Path, *flags: str) -> Iterator[Logged]:
    """Run a server that logs to `path`."""
    server = Server(
        "ie_serving",
        "model",
        *SAMPLE_FLAGS,
        f"--grpc_transport={transport}",
        f"--access_log={path}",
        "--log_format=json",
        *flags,
    )
    with closing(server):
        yield Logged(server.ready(), path)


@pytest.fixture(scope="module", params=TRANSPORTS)
def logged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Logged]:
    path = tmp_path_factory.mktemp("log") / "access.log"
    with serving(request.param, path, "--max_message_bytes=100000") as found:
        yield found


def test_a_request_over_rest(logged: Logged) -> None:
    reply = logged.server.rest.post("/v1/models/digits:predict", content=BODY, headers=named())
    fields = logged.line_of(reply.headers[ID])
    times = [fields.pop(name) for name in ("decode_ms", "infer_ms", "encode_ms", "total_ms")]
    assert 0 < sum(times[:3]) <= times[3] + 0.003  # each is rounded
    assert fields.pop("client").startswith("127.0.0.1:")
    assert fields.pop("id") == reply.headers[ID]
    assert fields == {
        "interface": "REST",
        "method": "POST",
        "path": "/v1/models/digits:predict",
        "model": "digits",
        "version": 2,
        "code": 200,
        "bytes_in": len(BODY),
        "bytes_out": len(reply.content),
    }


def test_a_request_of_the_open_inference_protocol(logged: Logged) -> None:
    image = {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0] * 64}
    path = "/v2/models/digits/infer"
    reply = logged.server.rest.post(path, json={"inputs": [image]}, headers=named())
    fields = logged.line_of(reply.headers[ID])
    assert (fields["path"], fields["model"], fields["version"]) == (path, "digits", 2)
    assert fields["infer_ms"] > 0
    reply = logged.server.rest.post(path, json={"inputs": []})
    fields = logged.line_of(reply.headers[ID])
    assert (fields["code"], fields["model"]) == (400, "digits")
    reply = logged.server.rest.post(path, json={"inputs": [image] * 2000})
    assert (reply.status_code, fields["code"]) == (413, 400)


def test_a_query_is_not_logged(logged: Logged) -> None:
    """It is where clients of other servers put their tokens."""
    target = "/v1/models/digits:predict?token=hunter2"
    reply = logged.server.rest.post(target, content=BODY, headers=named())
    assert logged.line_of(reply.headers[ID])["path"] == "/v1/models/digits:predict"
    assert "hunter2" not in logged.path.read_text()


def test_a_call_over_grpc(logged: Logged) -> None:
    request = predict()
    predicting, sent = logged.server.prediction.Predict, named()
    reply, call = predicting.with_call(request, PATIENCE_S, metadata=(*sent.items(),))
    fields = logged.line_of(dict(call.trailing_metadata())[ID])
    times = [fields.pop(name) for name in ("decode_ms", "infer_ms", "encode_ms", "total_ms")]
    assert 0 < sum(times[:3]) <= times[3] + 0.003
    assert fields.pop("client").startswith("127.0.0.1:")
    del fields["id"]
    assert fields == {
        "interface": "gRPC",
        "method": "Predict",
        "path": "/tensorflow.serving.PredictionService/Predict",
        "model": "digits",
        "version": 2,
        "code": "OK",
        "bytes_in": request.ByteSize(),
        "bytes_out": reply.ByteSize(),
    }


def test_requests_that_run_no_model_have_a_line_too(logged: Logged) -> None:
    """Pages of REST by their path, RPCs by their name; version and times where there are any."""
    for path, code in (("/v1/models/digits", 200), ("/v2/health/ready", 200), ("/x", 404)):
        reply = logged.server.rest.get(path, headers=named())
        fields = logged.line_of(reply.headers[ID])
        assert (fields["method"], fields["path"], fields["code"]) == ("GET", path, code)
    status = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "digits"})
    asking, sent = logged.server.model.GetModelStatus, named()
    _, call = asking.with_call(status, PATIENCE_S, metadata=(*sent.items(),))
    fields = logged.line_of(dict(call.trailing_metadata())[ID])
    assert (fields["model"], fields["version"]) == ("digits", None)
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "digits"}, metadata_field=["signature_def"]
    )
    describing, sent = logged.server.prediction.GetModelMetadata, named()
    _, call = describing.with_call(metadata, PATIENCE_S, metadata=(*sent.items(),))
    fields = logged.line_of(dict(call.trailing_metadata())[ID])
    assert (fields["model"], fields["version"], fields["infer_ms"]) == ("digits", 2, None)


def test_a_request_that_fails_has_its_code(logged: Logged) -> None:
    reply = logged.server.rest.post("/v1/models/absent:predict", content=BODY)
    fields = logged.line_of(reply.headers[ID])
    assert (fields["code"], fields["model"], fields["version"]) == (404, "absent", None)
    with pytest.raises(grpc.RpcError) as ended:
        logged.server.prediction.Predict(predict(name="absent"), PATIENCE_S)
    assert ended.value.code() is grpc.StatusCode.NOT_FOUND, ended.value
    fields = logged.line_of(dict(ended.value.trailing_metadata())[ID])
    assert (fields["code"], fields["model"]) == ("NOT_FOUND", "absent")


def test_a_call_that_is_refused_before_it_is_answered(
    logged: Logged, request: pytest.FixtureRequest
) -> None:
    """The library of grpcio refuses it by itself, and tells nobody."""
    if "http2" not in request.node.name:
        return
    with pytest.raises(grpc.RpcError) as ended:
        logged.server.prediction.Predict(predict(rows=1000), PATIENCE_S)
    fields = logged.line_of(dict(ended.value.trailing_metadata())[ID])
    assert (fields["method"], fields["code"]) == ("Predict", "RESOURCE_EXHAUSTED")
    assert fields["bytes_in"] is None


def test_a_stream_over_grpc_has_one_line_when_it_ends(logged: Logged) -> None:
    """With the bytes of all its messages, and the model that they ask."""
    stream = logged.server.channel.stream_stream("/ie_serving.StreamService/PredictStream")
    requests = [predict().SerializeToString(), predict(rows=3).SerializeToString()]
    call = stream(iter(requests), PATIENCE_S, metadata=(("x-request-id", "stream-1"),))
    replies = list(call)
    assert dict(call.trailing_metadata())[ID] == "stream-1"
    fields = logged.line_of("stream-1")
    assert fields.pop("client").startswith("127.0.0.1:")
    assert fields.pop("total_ms") > 0
    assert fields == {
        "id": "stream-1",
        "interface": "gRPC",
        "method": "PredictStream",
        "path": "/ie_serving.StreamService/PredictStream",
        "model": "digits",
        "version": 2,
        "code": "OK",
        "bytes_in": sum(map(len, requests)),
        "bytes_out": sum(map(len, replies)),
        **dict.fromkeys(("decode_ms", "infer_ms", "encode_ms")),
    }


def test_a_websocket_has_one_line_when_it_ends(logged: Logged) -> None:
    target, headers = "/v1/models/digits:stream", {"x-request-id": "socket-1"}
    with WebSocket(logged.server.rest_port, target, headers.items()) as socket:
        assert "x-request-id: socket-1" in socket.head
        socket.send(TextMessage(data=BODY))
        answer = socket.event()
        assert not [line for line in logged.lines() if line["fields"]["id"] == "socket-1"]
        socket.send(CloseConnection(code=1000))
    fields = logged.line_of("socket-1")
    assert (fields["method"], fields["path"], fields["code"]) == ("GET", target, 101)
    assert (fields["model"], fields["version"]) == ("digits", 2)
    assert fields["bytes_in"] > len(BODY)
    assert fields["bytes_out"] >= len(answer.data)
    assert fields["decode_ms"] is None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        pytest.param("0f7a-1.b:c=d/e", True, id="every character that is safe"),
        pytest.param("x" * 128, True, id="128 characters"),
        pytest.param("x" * 129, False, id="129 characters"),
        pytest.param('a"b', False, id="a quotation mark"),
        pytest.param("two words", False, id="a blank"),
    ],
)
def test_the_clients_own_id_is_taken_where_it_is_safe(
    logged: Logged, given: str, taken: bool
) -> None:
    reply = logged.server.rest.post(
        "/v1/models/digits:predict", content=BODY, headers={"X-Request-Id": given}
    )
    over_rest = reply.headers.get(ID)
    _, call = logged.server.prediction.Predict.with_call(
        predict(), PATIENCE_S, metadata=(("x-request-id", given),)
    )
    over_grpc = dict(call.trailing_metadata()).get(ID)
    assert [over_rest, over_grpc] == [given if taken else None] * 2
    if taken:
        until(lambda: logged.path.read_text().count(f'"id":"{given}"') == 2)


def test_a_line_without_an_id_of_the_client_has_one_of_its_own(logged: Logged) -> None:
    """The client is told of it where its request fails, since then a person looks for the line."""
    path = "/v1/models/unnamed"

    def lines() -> list[dict[str, Any]]:
        return [line["fields"] for line in logged.lines() if line["fields"]["path"] == path]

    replies = [logged.server.rest.get(path) for _ in range(2)]
    until(lambda: len(lines()) == len(replies))
    ids = [line["id"] for line in lines()]
    assert [reply.headers[ID] for reply in replies] == ids
    assert len(set(ids)) == len(replies)
    assert all(re.fullmatch("[0-9a-f]{28}", id) for id in ids)
    assert ID not in logged.server.rest.get("/v1/models").headers


def test_a_file_that_is_moved_away_is_opened_anew(logged: Logged) -> None:
    moved = logged.path.rename(logged.path.with_suffix(".1"))
    reply = logged.server.rest.get("/v1/models", headers=named())
    until(logged.path.exists)
    assert logged.line_of(reply.headers[ID])["code"] == 200
    assert reply.headers[ID] not in moved.read_text()


@pytest.fixture(params=TRANSPORTS)
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Logged]:
    """One that asks callers who they are."""
    keys = tmp_path / "keys"
    keys.write_text(f"alice predict * sha256:{sha256(b'hunter2').hexdigest()}\n")
    basic = ("--enable_auth", "--auth_username=admin", "--auth_password=hunter3")
    log = tmp_path / "access.log"
    with serving(request.param, log, f"--api_key_file={keys}", *basic) as found:
        yield found


def test_callers_have_one_line_each_without_their_credentials(guarded: Logged) -> None:
    """Also who is not admitted, and whose password has to be verified first."""
    basic = "Basic " + b64encode(b"admin:hunter3").decode()
    wrong = "Basic " + b64encode(b"admin:hunter4").decode()
    stub, url = guarded.server.prediction, "/v1/models/digits:predict"
    for given in ("", "Bearer hunter2", basic, wrong):
        metadata = (("authorization", given),) if given else ()
        headers = dict(metadata) | named()
        reply = guarded.server.rest.post(url, content=BODY, headers=headers)
        assert reply.status_code == (200 if given in ("Bearer hunter2", basic) else 401)
        assert guarded.line_of(reply.headers[ID])["code"] == reply.status_code
        with suppress(grpc.RpcError):
            stub.Predict(predict(), PATIENCE_S, metadata=metadata)
    calls = Counter({"OK": 2, "UNAUTHENTICATED": 2})

    def logged() -> Counter[str]:
        fields = [each["fields"] for each in guarded.lines()]
        return Counter(each["code"] for each in fields if each["interface"] == "gRPC")

    until(lambda: logged().total() >= calls.total())
    assert logged() == calls
    assert not re.search("hunter|YWRtaW4", guarded.path.read_text() + guarded.server.log)
