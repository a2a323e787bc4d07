"""HTTP/1.1 as bytes in and bytes out: what clients and strangers send, and what they get."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.http1.faults import LARGEST_HEAD
from ie_serving.server.transport.http1.holding import GATHERED
from tests.unit.server.transport.http1.talk import (
    CLOSE,
    GET,
    POST,
    Gate,
    Talk,
    answered,
    echo,
    read,
)

CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;note=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
)
UPGRADE = (
    b"POST /u HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAA\r\nContent-Length: 3\r\n\r\nabc"
)
REQUESTS = {
    POST: answered(b"POST /a 1.1 abc"),
    GET: answered(b"GET /b 1.1 "),
    CHUNKED: answered(b"POST /c 1.1 abcde"),
    UPGRADE: answered(b"POST /u 1.1 abc"),
    b"\r\nGET /%41%2f HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"GET /A/ 1.1 "),
    b"GET http://host/p?q#f HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"GET /p 1.1 "),
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n": answered(
        b"GET / 1.0 ", b"connection: keep-alive\r\n"
    ),
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"OPTIONS * 1.1 "),
    b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"TRACE / 1.1 "),
    b"HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"HEAD /h 1.1 ")[: -len(b"HEAD /h 1.1 ")],
    b"POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"z" * 100000: answered(
        b"POST /big 1.1 " + b"z" * 100000
    ),
}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: repr(request[:40]))
async def test_a_request_is_answered(request_: bytes) -> None:
    talk = Talk(echo)
    assert await talk.say(request_) == REQUESTS[request_]
    assert not talk.wire.closed


@given(st.data())
def test_it_does_not_matter_where_the_stream_is_cut(data: st.DataObject) -> None:
    """Any requests in a row, in pieces of any size: one reply each, in order."""
    requests = data.draw(st.lists(st.sampled_from(list(REQUESTS)), min_size=1, max_size=5))
    stream = b"".join(requests)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))

    async def talk() -> bytes:
        talk = Talk(echo)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if data.draw(st.booleans()):
                await asyncio.sleep(0)
            if start < end:
                talk.connection.data_received(stream[start:end])
        for _ in range(20):
            await talk.settle()
        return talk.heard

    assert asyncio.run(talk()) == b"".join(REQUESTS[request] for request in requests)


@pytest.mark.parametrize(
    "request_", [UPGRADE, CHUNKED + POST, GET + UPGRADE + GET], ids=["upgrade", "chunks", "three"]
)
async def test_bytes_one_by_one_are_answered_as_a_whole(request_: bytes) -> None:
    whole, pieces = Talk(echo), Talk(echo)
    expected = await whole.say(request_)
    assert expected.count(b"HTTP/1.1 200") >= 1
    assert await pieces.say(*(request_[i : i + 1] for i in range(len(request_)))) == expected


def _with(*lines: bytes, first: bytes = b"POST / HTTP/1.1", body: bytes = b"") -> bytes:
    return b"\r\n".join((first, b"Host: x", *lines, b"\r\n")) + body


def _get(*lines: bytes) -> bytes:
    return _with(*lines, first=b"GET / HTTP/1.1")


_CODING = b"Transfer-Encoding: "

BAD = {  # `tests/functional/protocols` sends more of them, each in one piece
    "both lengths": (_with(b"Content-Length: 3", _CODING + b"chunked", body=b"abc"), 400),
    "both lengths, the other way": (
        _with(_CODING + b"chunked", b"Content-Length: 3", body=b"abc"),
        400,
    ),
    "two lengths": (_with(b"Content-Length: 3", b"Content-Length: 4", body=b"abc"), 400),
    "a folded header": (_get(b"X: a", b" b"), 400),
    "a bad chunk size": (_with(_CODING + b"chunked", body=b"0x3\r\nabc\r\n0\r\n\r\n"), 400),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a head without end": (_get(b"X: " + b"a" * 2 * LARGEST_HEAD)[:-4], 431),
}


@pytest.mark.parametrize("pieces", [1, 50])
@pytest.mark.parametrize(("request_", "status"), BAD.values(), ids=BAD)
async def test_a_request_that_two_servers_might_read_differently_is_refused(
    request_: bytes, status: int, pieces: int
) -> None:
    """The requests before it are answered, it is refused, nothing after it is heard."""
    talk = Talk(echo)
    size = -(-len(request_) // pieces)
    parts = [request_[start : start + size] for start in range(0, len(request_), size)]
    heard = await talk.say(GET, *parts, GET)
    assert heard.startswith(answered(b"GET /b 1.1 ") + b"HTTP/1.1 %d " % status)
    assert heard.count(b"HTTP/1.1 ") == 2
    assert CLOSE in heard
    assert talk.wire.closed


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"3;note="], ids=["trailer", "extension"])
async def test_a_trailer_or_extension_without_end_is_refused(start: bytes) -> None:
    talk = Talk(echo)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", start)
    for _ in range(9):
        await talk.say(b"a" * (LARGEST_HEAD // 8))
    assert talk.heard.startswith(b"HTTP/1.1 431 ")
    assert talk.wire.closed


async def test_a_fault_behind_a_request_that_waits_comes_after_its_reply() -> None:
    talk = Talk(waiting := Gate())
    assert await talk.say(GET + b"nonsense\r\n\r\n") == b""
    waiting.open.set()
    await talk.settle()
    assert talk.heard.startswith(answered(b"GET /b") + b"HTTP/1.1 501 ")
    assert talk.wire.closed


async def test_requests_in_a_row_wait_for_each_other_and_the_client_with_them() -> None:
    talk = Talk(gate := Gate())
    assert await talk.say(POST + GET) == b""
    assert gate.began == ["/a"]
    assert not talk.wire.reading
    gate.open.set()
    await talk.settle()
    assert talk.heard == answered(b"POST /a") + answered(b"GET /b")
    assert talk.wire.reading


async def test_a_large_body_behind_another_request_is_read_in_its_turn() -> None:
    """The client had to wait with it, but not for ever."""
    talk = Talk(gate := Gate())
    await talk.say(GET, b"POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    assert not talk.wire.reading
    gate.open.set()
    await talk.settle()
    assert talk.wire.reading
    assert await talk.say(b"x" * 900000) == answered(b"GET /b") + answered(b"POST /c")


async def test_a_client_that_leaves_is_noticed_while_its_second_request_is_answered() -> None:
    talk = Talk(gate := Gate())
    await talk.say(GET + POST)
    gate.open.set()
    gate.open.clear()  # the first goes on, the second waits
    await talk.settle()
    assert gate.began == ["/b", "/a"]
    assert talk.wire.reading
    talk.hang_up()
    await talk.settle()
    assert gate.cancelled == ["/a"]


async def test_one_client_does_not_hold_the_loop_with_requests_in_a_row() -> None:
    """Others get their turn between any two of them."""
    talk = Talk(echo)
    talk.connection.data_received(GET * 3)
    turns = []
    for _ in range(8):
        talk.host.outbox.flush()
        turns.append(talk.wire.sent.count(b"HTTP/1.1"))
        await asyncio.sleep(0)
    assert turns[0] == 1
    assert turns[-1] == 3
    assert max(later - sooner for sooner, later in pairwise(turns)) == 1


async def test_a_client_that_does_not_read_gets_no_more() -> None:
    talk = Talk(echo)
    talk.connection.pause_writing()
    assert await talk.say(GET) == b""
    talk.connection.resume_writing()
    await talk.settle()
    assert talk.heard == answered(b"GET /b 1.1 ")


async def test_a_client_that_leaves_cancels_its_request() -> None:
    talk = Talk(gate := Gate())
    await talk.say(GET)
    talk.hang_up()
    await talk.settle()
    assert gate.cancelled == ["/b"]
    assert talk.host.connections == []


@pytest.mark.parametrize("cut", range(1, len(POST), 7))
async def test_a_client_that_leaves_in_mid_request_leaves_nothing(cut: int) -> None:
    talk = Talk(gate := Gate())
    await talk.say(POST[:cut])
    talk.hang_up()
    await talk.settle()
    assert gate.began == []
    assert talk.host.connections == []


async def test_a_client_that_leaves_in_mid_body_is_told_to_the_reader() -> None:
    """Also where a large body is being read already."""
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            got.append(await read(receive))
        except asyncio.CancelledError:
            got.append("cancelled")
            raise

    talk = Talk(app)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n", b"x" * GATHERED)
    assert got == []
    talk.hang_up()
    await talk.settle()
    assert got == ["cancelled"]


async def test_an_answer_reaches_a_client_that_ends_its_stream() -> None:
    """As `printf ... | nc` does."""
    talk = Talk(echo)
    talk.connection.data_received(GET)
    talk.connection.eof_received()
    assert talk.heard == answered(b"GET /b 1.1 ")
