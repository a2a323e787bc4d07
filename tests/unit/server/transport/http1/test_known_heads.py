"""A head that is not parsed again means what the parser said, wherever it is seen."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http1.heads import LONGEST, MOST, KnownHeads
from ie_serving.server.transport.http1.messages import HttpEvent, Request
from ie_serving.server.transport.http1.protocol import Protocol

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"


def heads(events: Sequence[HttpEvent]) -> list[object]:
    return [(event.head, event.body) if isinstance(event, Request) else event for event in events]


def test_an_equal_head_is_the_same_object_on_another_connection() -> None:
    known = KnownHeads()
    (first,), (second,) = (Protocol(known).receive(POST + body) for body in (b"abc", b"def"))
    assert isinstance(first, Request) and isinstance(second, Request)
    assert first.head is second.head
    assert (first.body, second.body) == (b"abc", b"def")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GET.replace(b"Host", b"Connection: close\r\nHost"), id="no request follows"),
        pytest.param(GET.replace(b"1.1", b"1.0"), id="no request follows in HTTP/1.0"),
        pytest.param(POST.replace(b"Con", b"Expect: 100-continue\r\nCon"), id="the client waits"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            id="unknown length of body",
        ),
        pytest.param(b"\r\n" + GET, id="an empty line before it"),
        pytest.param(
            b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", id="as many empty lines as it has lines"
        ),
        pytest.param(GET.replace(b"x", b"x" * LONGEST), id="too long"),
        pytest.param(
            GET.replace(b"Host", b"Connection: upgrade\r\nUpgrade: h2c\r\nHost"), id="upgrade"
        ),
    ],
)
def test_a_head_that_changes_the_parser_is_not_remembered(text: bytes) -> None:
    known = KnownHeads()
    Protocol(known).receive(text)
    end = text.index(b"\r\n\r\n") + 4
    assert known.get(text[:end]) is None
    assert known.get(text) is None


def test_with_too_many_all_are_forgotten() -> None:
    known = KnownHeads()
    for number in range(MOST):
        Protocol(known).receive(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
    assert known.get(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n")
    Protocol(known).receive(GET)
    assert known.get(b"GET /0 HTTP/1.1\r\nHost: x\r\n\r\n") is None
    assert known.get(GET)


PARTS = (
    *(
        GET,
        POST,
        b"abc",
        b"\r\n",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"\n",
        b"X: y\r\n",
    ),
    *(
        b"GET /a HTTP/1.1\nHost: x\n\n",
        b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\n\r\n",
        b" y\r\n",
    ),
)


@given(st.lists(st.sampled_from(PARTS), max_size=4), st.lists(st.sampled_from(PARTS), max_size=6))
def test_requests_seen_before_make_no_difference(before: list[bytes], now: list[bytes]) -> None:
    """Also where it was nearly a request."""
    known = KnownHeads()
    for text in (b"".join(before), GET, POST + b"abc"):
        Protocol(known).receive(text)
    with_memory, without = Protocol(known), Protocol(KnownHeads())
    for text in (b"".join(now), *now):
        assert heads(with_memory.receive(text)) == heads(without.receive(text))
        assert with_memory.reader is without.reader
