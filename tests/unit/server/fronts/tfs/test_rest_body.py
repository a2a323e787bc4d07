"""Bodies of REST requests: what is taken, and what is kept off the event loop."""

import asyncio
import gzip

import pytest

from ie_serving.core.errors import InvalidRequest, RequestTooLarge
from ie_serving.server.fronts.tfs.rest_body import LARGE_COMPRESSED, read_body
from ie_serving.server.transport.eager import begin
from ie_serving.server.transport.http1.messages import Request, RequestHead

LIMIT = 1 << 26
PATIENCE_S = 30


def request(body: bytes, coding: bytes) -> Request:
    """A request whose body has come already."""
    fields = {b"content-encoding": coding} if coding else {}
    head = RequestHead(
        "POST", b"/", b"", "1.1", tuple(fields.items()), fields, len(body), True, False
    )
    return Request(head, body)


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
        read.append(await read_body(request(body, b"gzip"), LIMIT))

    task = begin(work())
    assert (task is not None) is apart
    if task:
        await asyncio.wait_for(task, PATIENCE_S)
    assert read == [content]


@pytest.mark.parametrize("coding", [b"gzip", b""])
async def test_the_limit_holds_before_and_after_inflating(coding: bytes) -> None:
    body = gzip.compress(bytes(1000)) if coding else bytes(1000)
    with pytest.raises(RequestTooLarge, match=r"larger than 999 bytes.*server.max_message_bytes"):
        await read_body(request(body, coding), 999)
    assert await read_body(request(body, coding), 1000) == bytes(1000)


@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}")[:-1]], ids=["not gzip", "cut short"])
async def test_what_is_not_the_gzip_data_that_is_announced_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not valid gzip data"):
        await read_body(request(body, b"gzip"), LIMIT)


@pytest.mark.parametrize("behind", [b"junk", gzip.compress(b"[2]]}")], ids=["junk", "a member"])
async def test_what_follows_the_gzip_data_is_refused_and_not_dropped(behind: bytes) -> None:
    body = gzip.compress(b'{"instances": [[1]]}') + behind
    with pytest.raises(InvalidRequest, match="something follows its end"):
        await read_body(request(body, b"gzip"), LIMIT)
