"""HTTP as strangers speak it: upgrades offered, heads without end. More is in `protocols`."""

import json
import socket
from contextlib import closing

import numpy as np
import pytest

from tests.functional.servers import Server
from tests.process import PATIENCE_S

BODY = json.dumps({"instances": [[0.0] * 64]}).encode()
LARGEST_HEAD = 64 * 1024
POST = b"POST /v1/models/digits:predict %s\r\nHost: x\r\nContent-Length: %d\r\n"


def talk(server: Server, *parts: bytes) -> bytes:
    """Send `parts`, then read until the server closes or a whole reply is there."""
    with closing(socket.create_connection(("127.0.0.1", server.rest_port))) as client:
        client.settimeout(PATIENCE_S)
        for part in parts:
            client.sendall(part)
        reply = b""
        while not (reply.count(b"\r\n\r\n") and reply.rstrip().endswith((b"}", b".", b">"))):
            piece = client.recv(65536)
            if not piece:
                break
            reply += piece
        return reply


@pytest.mark.parametrize("apart", [False, True])
def test_an_offered_upgrade_is_ignored_and_the_body_read(digits: Server, apart: bool) -> None:
    """Java's HTTP client offers h2c with every request."""
    head = POST % (b"HTTP/1.1", len(BODY))
    head += b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n\r\n"
    parts = (head, BODY) if apart else (head + BODY,)
    reply = talk(digits, *parts)
    assert reply.startswith(b"HTTP/1.1 200"), reply
    assert reply.count(b"HTTP/1.1 ") == 1


ENDLESS = b"GET /v1/models/digits HTTP/1.1\r\nX: "


def test_a_client_that_sends_a_head_without_end_is_cut_off(digits: Server) -> None:
    """It reads no reply: within a second the connection ends under it."""
    with closing(socket.create_connection(("127.0.0.1", digits.rest_port))) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(ENDLESS)
        with pytest.raises(ConnectionError):
            for _ in range(100_000):
                client.sendall(b"a" * LARGEST_HEAD)


def test_an_array_longer_than_simdjson_can_count(digits: Server) -> None:
    """Lengths of 24 bits saturate there, and lists are written beyond their end."""
    pid = digits.pids()[-1]
    body = b'{"instances": [' + b"1," * (1 << 24) + b"1]}"
    reply = digits.rest.post("/v1/models/digits:predict", content=body, timeout=4 * PATIENCE_S)
    assert reply.status_code == 400
    assert f"Obtained shape [{(1 << 24) + 1}]" in reply.json()["error"]
    good = digits.rest.post(
        "/v1/models/digits:predict", json={"instances": np.ones((2, 64)).tolist()}
    )
    assert good.status_code == 200
    assert digits.pids()[-1] == pid


STATUS = b"GET /v1/models/digits HTTP/1.1\r\nHost: x\r\n\r\n"


def test_requests_in_a_row_are_answered_in_order(digits: Server) -> None:
    """Sent without waiting, the last of them asking for the end."""
    post = POST % (b"HTTP/1.1", len(BODY)) + b"\r\n" + BODY
    last = STATUS.replace(b"Host", b"Connection: close\r\nHost")
    reply = until_closed(digits, post + STATUS + post + last)
    kinds = [b'"predictions"' in part for part in reply.split(b"HTTP/1.1 200 OK")[1:]]
    assert kinds == [True, False, True, False]


def test_an_http_1_0_client_may_keep_its_connection(digits: Server) -> None:
    old = STATUS.replace(b"HTTP/1.1", b"HTTP/1.0")
    kept = old.replace(b"Host", b"Connection: keep-alive\r\nHost")
    reply = until_closed(digits, kept + old)
    assert reply.count(b"200 OK") == 2
    assert reply.count(b"connection: keep-alive") == 1
    assert reply.count(b"connection: close") == 1


def test_a_client_is_told_to_continue_before_it_sends_its_body(digits: Server) -> None:
    head = POST % (b"HTTP/1.1", len(BODY)) + b"Connection: close\r\nExpect: 100-continue\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", digits.rest_port))) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(head)
        assert client.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(BODY)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def until_closed(server: Server, request: bytes) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", server.rest_port))) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(request)
        reply = b""
        while piece := client.recv(65536):
            reply += piece
        return reply
