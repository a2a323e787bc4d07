"""An ASGI application behind the transport: its scope, its events, its reply."""

from typing import Any

import pytest

from ie_serving.server.transport.http1.asgi import Asgi
from ie_serving.server.transport.http1.body import BodyStream
from ie_serving.server.transport.http1.messages import Endpoints, Reply, Request, RequestHead
from tests.unit.server.transport.http1.test_body import Connection

HEADERS = ((b"x-y", b"Z"),)
HEAD = RequestHead("POST", b"/a%20b", b"q=1", "1.1", HEADERS, dict(HEADERS), 3, True, False)
START = {"type": "http.response.start", "status": 201, "headers": [[b"a", b"b"]]}
SMALL = Request(HEAD, b"abc")


def body(text: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text, "more_body": more}


async def test_the_scope() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await send(START)
        await send(body(b""))

    await Asgi(app)(SMALL._replace(ends=Endpoints(("192.0.2.1", 5), ("192.0.2.2", 80))))
    assert scopes == [
        {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/a b",
            "raw_path": b"/a%20b",
            "query_string": b"q=1",
            "root_path": "",
            "headers": [(b"x-y", b"Z")],
            "client": ("192.0.2.1", 5),
            "server": ("192.0.2.2", 80),
        }
    ]


async def test_a_reply_in_pieces_is_one() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"a", more=True))
        await send(body(b"b"))

    assert await Asgi(app)(SMALL) == Reply(201, ((b"a", b"b"),), b"ab")


async def test_a_small_body_comes_at_once_and_after_the_reply_the_client_is_gone() -> None:
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got.append(await receive())
        await send(START)
        await send(body(b""))
        got.append(await receive())

    await Asgi(app)(SMALL)
    assert got == [
        {"type": "http.request", "body": b"abc", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_large_body_comes_after_an_empty_event() -> None:
    """So that it can be refused by its head."""
    stream, got = BodyStream(Connection(), client_waits=False), list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for step in (None, lambda: stream.feed(b"a"), stream.end):
            if step:
                step()
            got.append(await receive())
        await send(START)
        await send(body(b""))

    await Asgi(app)(Request(HEAD, None, stream))
    assert [(event["body"], event["more_body"]) for event in got] == [
        (b"", True),
        (b"a", True),
        (b"", False),
    ]


@pytest.mark.parametrize(
    "events",
    [[], [START], [body(b"")], [START, START], [START, body(b"", more=True)]],
    ids=["nothing", "no body", "no head", "two heads", "no end"],
)
async def test_an_application_that_gives_no_reply_has_a_defect(events: list[Any]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for event in events:
            await send(event)

    with pytest.raises(RuntimeError):
        await Asgi(app)(SMALL)


async def test_a_second_reply_is_a_defect_and_the_first_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for event in (START, body(b"first"), body(b"second")):
            await send(event)

    assert (await Asgi(app)(SMALL)).body == b"first"
    assert "ASGI application failed after its reply" in caplog.text
