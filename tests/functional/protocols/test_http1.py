"""Bytes of HTTP/1.1 on the REST port of the real command, row by row."""

import socket
from contextlib import closing

import pytest

from tests.functional.protocols.http1_client import DIGITS, Case, get, outcome, post, talk
from tests.functional.protocols.http1_head_cases import HEADS
from tests.functional.protocols.http1_message_cases import BODY, MESSAGES
from tests.functional.servers import Server
from tests.process import PATIENCE_S


@pytest.mark.parametrize(
    "case", (*HEADS, *MESSAGES), ids=lambda case: f"{case.section} {case.name}"
)
def test_the_server_reacts_as_rfc_9112_asks(digits: Server, case: Case) -> None:
    assert outcome(digits.rest_port, case.sent) == case.outcome


@pytest.mark.parametrize("size", [0, 64 * 1024, 1024 * 1024])
def test_a_client_that_ends_its_side_behind_a_request_is_answered(
    digits: Server, size: int
) -> None:
    """As `nc -N` does; section 9.6."""
    body = BODY + b" " * size
    (reply,) = talk(digits.rest_port, post(body), then_end=True)
    assert reply.status == "200"


def test_all_requests_before_the_end_are_answered(digits: Server) -> None:
    found = talk(digits.rest_port, get() + post(BODY + b" " * 100_000) + get(), then_end=True)
    assert [reply.status for reply in found] == ["200", "200", "200"]


def test_a_refusal_reaches_a_client_that_goes_on_sending(digits: Server) -> None:
    """Closed at once, the connection would be reset under the refusal."""
    with closing(socket.create_connection(("127.0.0.1", digits.rest_port), PATIENCE_S)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        with client.makefile("rb") as answered:
            assert answered.readline().startswith(b"HTTP/1.1 400 ")
            client.sendall(bytes(1 << 20))  # nobody has told it to stop
            client.shutdown(socket.SHUT_WR)
            assert answered.read().endswith(b"not 2.\n")


def test_a_reply_to_head_is_that_to_get_without_its_body(digits: Server) -> None:
    (whole,) = talk(digits.rest_port, get(DIGITS, "Connection: close"))
    head = get(DIGITS, "Connection: close").replace(b"GET", b"HEAD")
    (bare,) = talk(digits.rest_port, head)
    assert (bare.body, _without_date(bare.head)) == (b"", _without_date(whole.head))


def test_methods_that_are_allowed_are_named(digits: Server) -> None:
    request = get(DIGITS, "Connection: close").replace(b"GET", b"DELETE")
    (reply,) = talk(digits.rest_port, request)
    assert b"allow: GET, HEAD, POST, OPTIONS" in reply.head


def _without_date(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.lower().startswith(b"date:")]
