"""Bodies of requests: read, refused unread, waited for."""

from typing import Any

import pytest

from ie_serving.server.transport.http1.body import MOST_UNREAD
from ie_serving.server.transport.http1.holding import GATHERED
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.server.transport.http1.outbox import MOST_DROPPED
from tests.unit.server.transport.http1.talk import (
    CLOSE,
    GET,
    POST,
    Reader,
    Talk,
    answered,
    echo,
    reply,
)


async def test_a_small_body_is_there_before_the_application_is_called() -> None:
    seen = []

    async def app(request: Request) -> Reply:
        seen.append(request.body)
        return Reply(200, (), b"")

    talk = Talk(echo)
    talk.host.app = app  # type: ignore[assignment]
    await talk.say(POST[:-1])
    assert seen == []
    await talk.say(POST[-1:])
    assert seen == [b"abc"]


async def test_a_large_body_can_be_refused_unread() -> None:
    """By its head: the client reads the reply, and the rest is thrown away."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b""
        await reply(send, b"no", 413)

    talk = Talk(app)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    assert talk.heard.startswith(b"HTTP/1.1 413 ")
    await talk.say(b"x" * GATHERED)
    await talk.say(b"x" * (900000 - GATHERED), GET)
    assert talk.heard.count(b"HTTP/1.1 413 ") == 2
    assert not talk.wire.closed and talk.wire.reading


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"Content-Length: %d" % (MOST_DROPPED + 1), id="long"),
        pytest.param(b"Transfer-Encoding: chunked\r\nExpect: 100-continue", id="of any length"),
        pytest.param(b"Content-Length: 3\r\nExpect: 100-continue", id="held back"),
    ],
)
async def test_a_body_that_may_be_long_is_refused_with_the_connection(fields: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, b"no", 413)

    talk = Talk(app)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % fields)
    assert talk.heard.startswith(b"HTTP/1.1 413 ")
    assert CLOSE in talk.heard
    assert talk.wire.closed


async def test_a_fault_in_a_body_that_was_refused_already_is_not_answered_again() -> None:
    async def app(request: Request) -> Reply:
        assert request.stream
        await request.stream.piece()
        return Reply(413, (), b"no")

    talk = Talk(echo)
    talk.host.app = app  # type: ignore[assignment]
    await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    await talk.say(b"3\r\nabc\r\n")
    await talk.say(b"nonsense\r\n")
    assert talk.heard.count(b"HTTP/1.1 413") == 1
    assert b"HTTP/1.1 400" not in talk.heard
    assert talk.wire.closed


async def test_a_fault_in_a_body_that_is_being_read_ends_the_request() -> None:
    talk = Talk(echo)
    await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    heard = await talk.say(b"nonsense\r\n")
    assert heard.count(b"HTTP/1.1 400 ") == 1
    assert talk.wire.closed


async def test_a_large_body_waits_for_its_reader() -> None:
    talk = Talk(gate_reader := Reader())
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    for _ in range(10):
        await talk.say(b"x" * (MOST_UNREAD // 4))
        if not talk.wire.reading:
            break
    assert not talk.wire.reading
    gate_reader.open.set()
    await talk.settle()
    assert talk.wire.reading


async def test_a_client_that_expects_it_is_told_to_continue() -> None:
    head = b"POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    talk = Talk(echo)
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert await talk.say(head) == go_on
    assert await talk.say(b"abc") == go_on + answered(b"POST /e 1.1 abc")


async def test_an_http_1_0_client_is_not_told_to_continue() -> None:
    """It would take that for the reply."""
    head = b"POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    talk = Talk(echo)
    assert await talk.say(head) == b""
    assert await talk.say(b"abc") == answered(b"POST /e 1.0 abc", CLOSE)


async def test_a_client_that_expects_it_is_refused_before_its_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await reply(send, b"no", 413)

    talk = Talk(app)
    heard = await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    )
    assert heard.startswith(b"HTTP/1.1 413 ")
