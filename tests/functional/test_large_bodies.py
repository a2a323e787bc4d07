"""Bodies of megabytes come as they were sent, however they are sent, and what follows them too."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import IO, Any

import numpy as np
import pytest

from tests.functional.payloads import MEGABYTE
from tests.functional.servers import Server, config_flag
from tests.functional.test_shared_memory import echo
from tests.process import PATIENCE_S, until

BUDGET = 256 * MEGABYTE
HELD = b"ie_serving_memory_budget_held_bytes"
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
SIZES = [20_000, 100_000, 400_000, 1_000_000]
"""Elements: bodies below and above each size from which they are read otherwise."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("models")
    file = config_flag(root / "config.json", echo(root, "floats", "float"))
    flags = (file, f"--memory_budget_bytes={BUDGET}")
    with Server("ie_serving", "config", *flags) as server:
        yield server.ready()


class Client:
    """One connection, by which bytes are sent as they are."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.rest_port), PATIENCE_S)
        self._file: IO[bytes] = self.socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def reply(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self._file.readline().split()[1])
        headers = http.client.parse_headers(self._file)
        body = self._file.read(int(headers.get("content-length", "0")))
        return status, {name.lower(): value for name, value in headers.items()}, body


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with closing(Client(server)) as client:
        yield client


def request(values: Any, *fields: str, text: bool = False) -> tuple[bytes, bytes]:
    """Give head and body of a request that is answered with its values, raw."""
    x: dict[str, Any] = {"name": "x", "shape": [values.size], "datatype": "FP32"}
    wanted = {"binary_data_output": True}
    given = (
        {"data": values.tolist()} if text else {"parameters": {"binary_data_size": values.nbytes}}
    )
    body = json.dumps({"inputs": [{**x, **given}], "parameters": wanted}).encode()
    lines = [*fields, *([] if text else [f"Inference-Header-Content-Length: {len(body)}"])]
    body += b"" if text else values.tobytes()
    lines = ["POST /v2/models/floats/infer HTTP/1.1", "Host: x", *lines]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode(), body


def check(client: Client, values: Any) -> None:
    status, headers, body = client.reply()
    assert status == 200, body[:300]
    raw = body[int(headers["inference-header-content-length"]) :]
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), values)


@pytest.mark.parametrize("text", [False, True], ids=["raw", "JSON"])
@pytest.mark.parametrize("size", [*SIZES, pytest.param(3_000_000, marks=pytest.mark.soak)])
def test_it_comes_as_it_was_sent_again_and_again(client: Client, size: int, text: bool) -> None:
    for number in range(2):
        values = np.arange(size, dtype=np.float32) + number
        client.socket.sendall(b"".join(request(values, text=text)))
        check(client, values)


def test_requests_behind_a_large_body_in_the_same_write_are_answered(client: Client) -> None:
    first, second = np.arange(1_000_000, dtype=np.float32), np.arange(300_000, dtype=np.float32)
    sent = (*request(first), LIVE, *request(second), LIVE, *request(first), LIVE)
    # The server reads no further while its replies are not read.
    sender = threading.Thread(target=client.socket.sendall, args=(b"".join(sent),))
    sender.start()
    for values in (first, second, first):
        check(client, values)
        assert client.reply()[0] == 200
    sender.join(PATIENCE_S)


@pytest.mark.parametrize("piece", [1_000, 70_000, 300_000])
def test_it_may_come_in_pieces_behind_its_head(client: Client, piece: int) -> None:
    values = np.arange(500_000, dtype=np.float32)
    head, body = request(values)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.socket.sendall(head)
    for start in range(0, len(body), piece):
        client.socket.sendall(body[start : start + piece])
    check(client, values)
    client.socket.sendall(LIVE)
    assert client.reply()[0] == 200


def test_a_client_that_expects_it_is_told_to_send_it(client: Client) -> None:
    values = np.arange(1_000_000, dtype=np.float32)
    head, body = request(values, "Expect: 100-continue")
    client.socket.sendall(head)
    assert client.reply()[0] == 100
    client.socket.sendall(body)
    check(client, values)


def test_the_last_request_of_a_connection_may_have_one(client: Client) -> None:
    values = np.arange(1_000_000, dtype=np.float32)
    client.socket.sendall(b"".join(request(values, "Connection: close")))
    check(client, values)
    assert client.socket.recv(1) == b""


def test_beyond_the_budget_it_is_refused_and_what_was_taken_is_given_back(server: Server) -> None:
    """Clients that stop within their bodies hold what has come; when they leave nothing is held."""
    values = np.zeros(24 * MEGABYTE // 4, np.float32)
    head, body = request(values)
    with ExitStack() as stack:
        for _ in range(BUDGET // len(body) + 1):
            last = stack.enter_context(closing(Client(server)))
            with suppress(ConnectionError):  # a refused body is not read to its end
                last.socket.sendall(head + body[:-1])
        status, _, text = last.reply()
        assert (status, b"send it again later" in text) == (429, True)
    until(lambda: HELD + b" 0" in server.rest.get("/metrics").content.splitlines())
    with closing(Client(server)) as client:
        client.socket.sendall(head + body)
        check(client, values)


def test_one_that_breaks_off_ends_its_connection_alone(server: Server, client: Client) -> None:
    values = np.arange(1_000_000, dtype=np.float32)
    head, body = request(values)
    for size in (0, 1_000, 100_000, 1_000_000, len(body) - 1):
        with closing(Client(server)) as other:
            other.socket.sendall(head + body[:size])
            other.socket.shutdown(socket.SHUT_WR)
            assert other.socket.recv(1) == b""
        client.socket.sendall(head + body)
        check(client, values)
    assert "Traceback" not in server.log
