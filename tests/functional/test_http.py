"""HTTP as strangers speak it: upgrades offered, heads without end, versions unheard of."""

import json
import socket
from contextlib import closing

import numpy as np
import pytest

from tests.functional.servers import PATIENCE_S, Server

BODY = json.dumps({"instances": [[0.0] * 64]}).encode()
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


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/3.0", b"HTTP/0.9"])
def test_another_http_version_is_a_bad_request(digits: Server, version: bytes) -> None:
    reply = talk(digits, POST % (version, len(BODY)) + b"\r\n" + BODY)
    assert reply.startswith(b"HTTP/1.1 400"), reply
    assert "Traceback" not in digits.log


def test_a_head_without_end_is_refused(digits: Server) -> None:
    with closing(socket.create_connection(("127.0.0.1", digits.rest_port))) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(b"GET /v1/models/digits HTTP/1.1\r\nX: ")
        sent = 0
        try:
            while sent < 4 << 20:
                sent += client.send(b"a" * 16384)
            reply = client.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            reply = b"HTTP/1.1 400"
        assert reply.startswith(b"HTTP/1.1 400")
        assert sent < 4 << 20 or reply


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
