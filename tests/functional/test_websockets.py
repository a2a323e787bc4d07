"""Streams over WebSockets: a real server, and bytes on a socket."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("wsproto")

from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from ie_serving.config.files import access_file
from tests.functional.servers import Server
from tests.functional.stream_models import write
from tests.functional.test_streams import Talk, predict
from tests.functional.websocket import Refused, WebSocket
from tests.process import PATIENCE_S

LIMIT = 100_000
STREAM = "/v1/models/twice:stream"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("websockets")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    flags = ("--allow_python", f"--max_message_bytes={LIMIT}")
    with Server("ie_serving", "config", f"--config_path={write(root)}", *flags) as server:
        yield server.ready()


@pytest.fixture
def talk(server: Server) -> Iterator[WebSocket]:
    with WebSocket(server.rest_port, STREAM) as talk:
        yield talk


def rows(*values: float) -> str:
    return json.dumps({"inputs": {"x": values}})


def test_messages_are_answered_in_order(talk: WebSocket) -> None:
    for n in range(50):
        talk.text(rows(n))
    assert [json.loads(talk.answer()) for _ in range(50)] == [
        {"outputs": [2.0 * n]} for n in range(50)
    ]
    talk.send(CloseConnection(code=1000))
    assert talk.closed() == (1000, "")


@pytest.mark.parametrize(
    "target",
    ["/v1/models/twice/versions/1:stream", "/v1/models/twice:stream?in_flight=1"],
)
def test_a_stream_is_opened_by_each_form_of_its_target(server: Server, target: str) -> None:
    with WebSocket(server.rest_port, target) as talk:
        talk.text('{"instances": [1, 2]}')
        assert json.loads(talk.answer()) == {"predictions": [2.0, 4.0]}


def test_a_bad_message_is_its_own_error(talk: WebSocket) -> None:
    for text in ("no JSON", rows(1), '{"inputs": {"z": [1]}}', rows(2)):
        talk.text(text)
    answers = [json.loads(talk.answer()) for _ in range(4)]
    assert [each.get("status") for each in answers] == [400, None, 400, None]
    assert "JSON" in answers[0]["error"]


def test_binary_messages_are_bodies_too(talk: WebSocket) -> None:
    talk.send(BytesMessage(data=rows(3).encode()))
    assert json.loads(talk.answer()) == {"outputs": [6.0]}


def test_fragments_are_joined_with_a_ping_between(talk: WebSocket) -> None:
    text = rows(1, 2)
    talk.send(TextMessage(data=text[:5], message_finished=False))
    talk.send(Ping(payload=b"there?"))
    talk.send(TextMessage(data="", message_finished=False))
    talk.send(TextMessage(data=text[5:]))
    event = talk.event()
    assert isinstance(event, Pong)
    assert event.payload == b"there?"
    assert json.loads(talk.answer()) == {"outputs": [2.0, 4.0]}


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param(b"\x81\x02{}", 1002, id="without a mask"),
        pytest.param(b"\x83\x80\0\0\0\0", 1002, id="reserved opcode"),
        pytest.param(b"\xc1\x80\0\0\0\0", 1002, id="reserved bit"),
        pytest.param(b"\x80\x80\0\0\0\0", 1002, id="continues nothing"),
        pytest.param(b"\x09\x80\0\0\0\0", 1002, id="fragmented ping"),
        pytest.param(b"\x89\xfe\0\x7e\0\0\0\0", 1002, id="long ping"),
        pytest.param(b"\x81\x81\0\0\0\0\xff", 1007, id="no UTF-8"),
        pytest.param(b"\x88\x81\0\0\0\0\x03", 1002, id="half a close code"),
        pytest.param(
            b"\x82\xff" + (LIMIT + 1).to_bytes(8, "big") + bytes(4) + bytes(LIMIT + 1),
            1009,
            id="too large",
        ),
    ],
)
def test_frames_that_break_the_protocol_close_it_with_their_code(
    talk: WebSocket, frames: bytes, code: int
) -> None:
    talk.raw(frames)
    assert talk.closed()[0] == code


def test_a_close_is_answered(talk: WebSocket) -> None:
    talk.send(CloseConnection(code=4321, reason="enough"))
    assert talk.closed() == (4321, "enough")


def test_a_close_without_a_code_is_answered_by_one_without(talk: WebSocket) -> None:
    talk.raw(b"\x88\x80\0\0\0\0")
    assert talk.closed() == (1005, "")


def failed(server: Server) -> int:
    """How many requests are counted that did not succeed."""
    start = ":tensorflow:serving:request_count{"
    lines = server.rest.get("/metrics").text.splitlines()
    found = [each for each in lines if each.startswith(start) and 'status="OK"' not in each]
    return sum(int(each.rpartition(" ")[2]) for each in found)


@pytest.mark.parametrize(
    ("target", "headers", "status", "text"),
    [
        pytest.param("/v1/models/none:stream", {}, 404, "none", id="no such model"),
        pytest.param(
            STREAM.replace(":stream", "/versions/9:stream"),
            {},
            503,
            'version 9 of \\"twice\\" is not AVAILABLE',
            id="no such version",
        ),
        pytest.param(
            STREAM.replace(":stream", "/labels/no:stream"),
            {},
            400,
            "Unrecognized servable version label: no",
            id="no such label",
        ),
        pytest.param(STREAM, {"upgrade": ""}, 426, "Upgrade: websocket", id="no upgrade"),
        pytest.param(STREAM, {"upgrade": "h2c"}, 426, "Upgrade: websocket", id="another protocol"),
        pytest.param(STREAM, {"sec-websocket-version": "8"}, 426, "13", id="another version"),
        pytest.param(STREAM, {"sec-websocket-key": "AAAA"}, 400, "16 bytes", id="a wrong key"),
        pytest.param(STREAM, {"content-length": "1"}, 400, "has no body", id="a body"),
        pytest.param(STREAM, {"origin": "https://evil"}, 403, "evil", id="another origin"),
        pytest.param(
            f"{STREAM}?drop=1",
            {},
            400,
            "is no option of a stream: expected in_flight",
            id="unknown option",
        ),
        pytest.param(
            f"{STREAM}?in_flight=1&in_flight=2", {}, 400, "given twice", id="an option twice"
        ),
        pytest.param(f"{STREAM}?in_flight=no", {}, 400, "from 1 to 64", id="a wrong option"),
    ],
)
def test_a_stream_that_cannot_be_opened_is_refused_before_the_upgrade(
    server: Server, target: str, headers: dict[str, str], status: int, text: str
) -> None:
    before = failed(server)
    with pytest.raises(Refused) as refused:
        WebSocket(server.rest_port, target, headers.items())
    assert refused.value.status == status
    assert failed(server) == before + 1
    assert text in refused.value.body
    if status == 426:
        assert "sec-websocket-version: 13" in refused.value.head


def test_a_page_of_the_server_itself_may(server: Server) -> None:
    origin = f"http://127.0.0.1:{server.rest_port}"
    with WebSocket(server.rest_port, STREAM, [("origin", origin)]) as talk:
        talk.text(rows(1))
        assert json.loads(talk.answer()) == {"outputs": [2.0]}


def test_the_accepted_key_is_that_of_the_standard(server: Server) -> None:
    """The example of RFC 6455 section 1.3."""
    key = [("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")]
    with WebSocket(server.rest_port, STREAM, key) as talk:
        assert "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in talk.head


def test_a_live_source_is_told_how_many_were_dropped(server: Server, root: Path) -> None:
    with WebSocket(server.rest_port, "/v1/models/gated:stream?drop_oldest=2") as talk:
        for n in range(6):
            talk.text(rows(n))
        talk.send(Ping())
        assert isinstance(talk.event(), Pong)  # all of them have come
        with (root / "gate").open("r+b", buffering=0) as opened:
            opened.write(b"...")
        said = [json.loads(talk.answer()) for _ in range(4)]
    assert said == [{"outputs": [0.0]}, {"dropped": 3}, {"outputs": [4.0]}, {"outputs": [5.0]}]


def test_a_kernel_s_stream(server: Server) -> None:
    with WebSocket(server.rest_port, "/v1/models/sums:stream", [("x-user", "7")]) as talk:
        talk.text(rows(1))
        talk.text(rows(2))
        assert [json.loads(talk.answer()) for _ in range(2)] == [
            {"outputs": [3.0]},
            {"outputs": [8.0]},
        ]
        talk.text(rows(-1))
        code, reason = talk.closed()
    assert code == 1011
    assert "ValueError: below 0" in reason


def test_a_kernel_is_told_when_its_client_leaves(server: Server, root: Path) -> None:
    with WebSocket(server.rest_port, "/v1/models/endless:stream") as talk:
        talk.text(rows(7))
        assert json.loads(talk.answer()) == {"outputs": [7.0]}
    with (root / "notes").open() as notes:  # opens when the kernel does
        assert notes.read() == "ended"


def test_a_client_of_others_talks_in_fragments_pings_and_closes(server: Server) -> None:
    """The library websockets: a long message in fragments, a ping, a close."""
    client = pytest.importorskip("websockets.sync.client")
    text = rows(*range(5000))
    with client.connect(f"ws://127.0.0.1:{server.rest_port}{STREAM}", proxy=None) as socket:
        socket.send(text[at : at + 1000] for at in range(0, len(text), 1000))
        assert json.loads(socket.recv(PATIENCE_S)) == {"outputs": [2.0 * n for n in range(5000)]}
        assert socket.ping().wait(PATIENCE_S)
        socket.send(rows(1))
        assert json.loads(socket.recv(PATIENCE_S)) == {"outputs": [2.0]}
    assert (socket.protocol.close_code, socket.protocol.close_rcvd_then_sent) == (1000, False)


def test_only_a_caller_with_the_right_of_predict_opens_a_stream(tmp_path: Path) -> None:
    """Rights of predict, asked for before the upgrade, and for each message over gRPC."""
    keys = tmp_path / "keys"
    lines = [
        access_file.line(name, "predict", models, access_file.key_credential(f"key-of-{name}"))
        for name, models in (("alice", "twice"), ("bob", "sums"))
    ]
    keys.write_text("\n".join(lines))
    (tmp_path / "models").mkdir()
    config = f"--config_path={write(tmp_path / 'models')}"
    server = Server("ie_serving", "config", config, "--allow_python", f"--api_key_file={keys}")
    with closing(server.ready()):
        for key, status in (("", 401), ("key-of-bob", 403)):
            with pytest.raises(Refused) as refused:
                WebSocket(server.rest_port, STREAM, [("x-api-key", key)])
            assert refused.value.status == status
        with WebSocket(server.rest_port, STREAM, [("x-api-key", "key-of-alice")]) as talk:
            talk.text(rows(1))
            assert json.loads(talk.answer()) == {"outputs": [2.0]}
        talks = {name: Talk(server, **{"x-api-key": f"key-of-{name}"}) for name in ("alice", "bob")}
        for each in talks.values():
            each.send(predict(1))
        assert talks["alice"].answer() == (0, [2.0])
        assert talks["bob"].answer()[1][0] == 7  # PERMISSION_DENIED
        for each in talks.values():
            each.call.cancel()
        with WebSocket(server.rest_port, STREAM, [("x-api-key", "key-of-alice")]) as talk:
            talk.text(rows(1))
            talk.answer()
            os.kill(server.popen.pid, signal.SIGTERM)
            code, reason = talk.closed()
        assert (code, "the server is shutting down" in reason) == (1001, True)
        assert server.popen.wait(PATIENCE_S) == 0


def test_the_budget_of_a_client_that_left_is_free_for_others(tmp_path: Path) -> None:
    """Most of the budget for a message that never ends: gone with its connection, at once."""
    flags = ("--allow_python", f"--memory_budget_bytes={40 << 20}")
    part = BytesMessage(data=bytes(1 << 20), message_finished=False)
    config = write(tmp_path)
    with Server("ie_serving", "config", f"--config_path={config}", *flags) as server:
        server.ready()
        for _ in range(3):
            with WebSocket(server.rest_port, STREAM) as talk:
                for _ in range(20):
                    talk.send(part)
                talk.send(Ping())
                assert isinstance(talk.event(), Pong)  # all of it has been read
        with WebSocket(server.rest_port, STREAM) as talk:
            talk.text(rows(1.0))
            assert json.loads(talk.answer()) == {"outputs": [2.0]}
