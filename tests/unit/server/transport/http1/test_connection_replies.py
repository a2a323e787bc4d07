"""Replies, and how a connection ends: as the client wants it, as we do, or by a defect."""

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.server.transport.http1.talk import (
    CLOSE,
    GET,
    POST,
    Gate,
    Talk,
    echo,
    reply,
)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
)
async def test_the_connection_ends_where_the_client_wants_it(request_: bytes) -> None:
    talk = Talk(echo)
    heard = await talk.say(request_ + GET)
    assert heard.count(b"HTTP/1.1 200") == 1
    assert CLOSE in heard
    assert talk.wire.closed


@pytest.mark.parametrize("by", ["application", "server"])
async def test_the_connection_ends_where_we_want_it(by: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"connection", b"close")] if by == "application" else []
        await reply(send, b"bye", 200, *headers)

    talk = Talk(app)
    talk.host.draining = by == "server"
    await talk.say(GET + GET)
    assert talk.heard.count(b"HTTP/1.1 200") == 1
    assert talk.heard.count(b"connection: close") == 1
    assert talk.wire.closed


@pytest.mark.parametrize("waits", [False, True])
async def test_a_defect_is_logged_and_answered_without_its_text(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ZeroDivisionError("a defect")

    talk = Talk(app)
    heard = await talk.say(GET)
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"defect" not in heard
    assert talk.wire.closed
    assert "a defect" in caplog.text
    (record,) = [each for each in caplog.records if each.exc_info]
    assert re.search(r" client=\S+ path=/", record.getMessage())


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(b"x", b"a\r\nset-cookie: b")], id="a line break in a value"),
        pytest.param([(b"x: y\r\nz", b"a")], id="a line break in a name"),
        pytest.param([(b"content-length", b"7")], id="another length"),
        pytest.param([(b"transfer-encoding", b"chunked")], id="another coding"),
    ],
)
async def test_no_header_breaks_out_of_its_line_or_lies_about_the_body(
    headers: Sequence[tuple[bytes, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, b"body", 200, *headers)

    caplog.set_level(logging.CRITICAL)
    heard = await Talk(app).say(GET)
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"cookie" not in heard


async def test_the_scope_is_what_asgi_asks_for() -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await reply(send, b"")

    await Talk(app).say(b"GET /a%20b?q=1 HTTP/1.1\r\nHost: h\r\nX-Y:  Z \r\nx-y: 2\r\n\r\n")
    assert scopes[0] == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"q=1",
        "root_path": "",
        "headers": [(b"host", b"h"), (b"x-y", b"Z"), (b"x-y", b"2")],
        "client": ("192.0.2.1", 5),
        "server": ("192.0.2.2", 8000),
    }


PATIENCE = 75.0


@pytest.mark.parametrize(
    "said", [b"", GET, GET[:9], POST[:-1]], ids=["nothing", "a request", "a head", "a body"]
)
async def test_a_client_that_keeps_us_waiting_is_left(said: bytes) -> None:
    talk = Talk(echo)
    await talk.say(said)
    now = talk.host.time
    talk.connection.end_if_late(now + PATIENCE - 1, PATIENCE)
    assert not talk.wire.closed
    talk.connection.end_if_late(now + PATIENCE + 1, PATIENCE)
    assert talk.wire.closed


async def test_a_head_that_drips_is_left() -> None:
    talk = Talk(echo)
    await talk.say(b"GET / HTTP/1.1\r\nHost: x\r\n")
    talk.host.time += PATIENCE + 1
    await talk.say(b"X: ")
    talk.connection.end_if_late(talk.host.time, PATIENCE)
    assert talk.wire.closed


async def test_a_client_that_waits_for_us_is_not_left() -> None:
    talk = Talk(Gate())
    await talk.say(GET)
    talk.connection.end_if_late(talk.host.time + 9 * PATIENCE, PATIENCE)
    assert not talk.wire.closed
    talk.hang_up()


async def test_a_client_that_takes_nothing_of_its_reply_is_left() -> None:
    talk = Talk(echo)
    await talk.say(GET)
    now = talk.host.time
    for unsent, later in [(100, 0), (90, PATIENCE * 2), (90, PATIENCE * 2.9)]:
        talk.wire.unsent = unsent
        talk.connection.end_if_late(now + later, PATIENCE)
        assert not talk.wire.aborted
    talk.connection.end_if_late(now + PATIENCE * 3.1, PATIENCE)
    assert talk.wire.aborted


async def test_a_client_that_takes_its_reply_slowly_is_not_left() -> None:
    """Over TLS as much waits after each piece as before it, by the byte."""
    talk = Talk(echo)
    await talk.say(GET)
    now, talk.wire.unsent = talk.host.time, 100
    for later in (0, PATIENCE * 0.9, PATIENCE * 1.8):
        talk.connection.end_if_late(now + later, PATIENCE)
        talk.connection.pause_writing()
        talk.connection.resume_writing()
    talk.connection.end_if_late(now + PATIENCE * 2.7, PATIENCE)
    assert not talk.wire.aborted
    talk.connection.end_if_late(now + PATIENCE * 3.8, PATIENCE)
    assert talk.wire.aborted
