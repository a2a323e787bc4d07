"""A bridge asks its server again while that cannot answer; against a real HTTP server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ie_serving.commands.bridge import BridgeConnection
from ie_serving.config.dialects import bridge
from ie_serving.core.values.errors import ConfigError
from tests.tables import named_by


class Answering(ThreadingHTTPServer):
    """Answers by the statuses that a test gives, then by 200.

    Attributes:
        heads: path and key of each request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = []
        self.heads: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answering

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heads.append((self.path, self.headers["x-api-key"]))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def asker(port: int, waits: list[float], retry_s: float = 60.0) -> BridgeConnection:
    url = f"http://127.0.0.1:{port}/behind"
    return BridgeConnection(
        url, "/v1/m:predict", "key", timeout_s=5, retry_s=retry_s, wait=waits.append
    )


def test_it_asks_again_while_the_server_has_no_room(server: Answering) -> None:
    server.statuses = [503, 429, 400]
    waits: list[float] = []
    assert asker(server.server_port, waits).ask(b"{}") == b"{}"
    assert len(waits) == 2  # what is wrong with the request is its answer
    assert server.heads == [("/behind/v1/m:predict", "key")] * 3


def test_after_a_while_the_failure_is_the_answer(server: Answering) -> None:
    server.statuses = [503] * 10
    waits: list[float] = []
    assert asker(server.server_port, waits, retry_s=0).ask(b"{}") == b"{}"
    assert waits == []


def test_a_server_that_is_not_there_is_told(server: Answering) -> None:
    port = server.server_port
    server.server_close()
    said = json.loads(asker(port, [], retry_s=0).ask(b"{}"))
    assert "the server does not answer" in said["error"]


@pytest.mark.parametrize(
    ("flags", "broker", "path"),
    [
        ([], ("127.0.0.1", 1883), "/v1/models/m:predict"),
        (["--broker=b:99", "--model_version=3"], ("b", 99), "/v1/models/m/versions/3:predict"),
        (
            ["--tls_ca", "--version_label=a b"],
            ("127.0.0.1", 8883),
            "/v1/models/m/labels/a%20b:predict",
        ),
    ],
)
def test_the_command_line_names_broker_and_model(
    flags: list[str], broker: tuple[str, int], path: str
) -> None:
    environ = {"IE_SERVING_API_KEY": "k", "IE_SERVING_MQTT_PASSWORD": "p"}
    read = bridge.parse(["bridge", "mqtt", "--topic=t", "--model_name=m", *flags], environ)
    assert (read.broker, read.path, read.api_key, read.password) == (broker, path, "k", "p")


@named_by(
    "flag",
    ("flag", "expected"),
    [
        ("--broker=:1883", "HOST:PORT"),
        ("--broker=b:x", "HOST:PORT"),
        ("--broker=b:70000", "HOST:PORT"),
        ("--broker=b:\N{SUPERSCRIPT TWO}", "HOST:PORT"),
        ("--timeout_seconds=0", "more than 0 seconds"),
        ("--timeout_seconds=inf", "a number of seconds"),
        ("--retry_seconds=-1", "0 seconds or more"),
    ],
)
def test_a_value_that_a_flag_cannot_have_is_refused(flag: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        bridge.parse(["bridge", "mqtt", "--topic=t", "--model_name=m", flag], {})


@pytest.mark.parametrize(
    "url", ["localhost:8501", "ftp://h", "http://", "http://h:x", "http://[::1"]
)
def test_a_server_without_an_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected http://HOST:PORT"):
        BridgeConnection(url, "/p", "", timeout_s=1, retry_s=0)
