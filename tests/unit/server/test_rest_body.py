"""Bodies of REST requests: what is taken, and what is kept off the event loop."""

import asyncio
import gzip

import falcon.asgi
import pytest
from falcon import testing

from ie_serving.errors import InvalidRequest, RequestTooLarge
from ie_serving.server.eager import begin
from ie_serving.server.http1.exchange import BODY
from ie_serving.server.rest_body import LARGE_COMPRESSED, read_body

LIMIT = 1 << 26
PATIENCE_S = 30


def request(body: bytes, coding: str) -> falcon.asgi.Request:
    """A request whose body has come already."""
    scope = testing.create_scope(method="POST", headers={"Content-Encoding": coding})
    scope["extensions"] = {BODY: body}
    return falcon.asgi.Request(scope, testing.ASGIRequestEventEmitter())


@pytest.mark.parametrize(
    ("content", "apart"),
    [
        pytest.param(b"[1, 2]", False, id="small"),
        pytest.param(bytes(1 << 25), True, id="small, but grows a thousandfold"),
    ],
)
async def test_a_body_that_may_grow_much_is_inflated_beside_the_loop(
    content: bytes, apart: bool
) -> None:
    body = gzip.compress(content)
    assert (len(body) >= LARGE_COMPRESSED) is apart
    read = []

    async def work() -> None:
        read.append(await read_body(request(body, "gzip"), LIMIT))

    task = begin(work())
    assert (task is not None) is apart
    if task:
        await asyncio.wait_for(task, PATIENCE_S)
    assert read == [content]


@pytest.mark.parametrize("coding", ["gzip", ""])
async def test_the_limit_holds_before_and_after_inflating(coding: str) -> None:
    body = gzip.compress(bytes(1000)) if coding else bytes(1000)
    with pytest.raises(RequestTooLarge, match=r"larger than 999 bytes.*--max_message_bytes"):
        await read_body(request(body, coding), 999)
    assert await read_body(request(body, coding), 1000) == bytes(1000)


@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}")[:-1]], ids=["not gzip", "cut short"])
async def test_what_is_not_the_gzip_data_that_is_announced_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not valid gzip data"):
        await read_body(request(body, "gzip"), LIMIT)
