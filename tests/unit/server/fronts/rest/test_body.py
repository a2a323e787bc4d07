"""Bodies of REST requests: what is taken, and what is kept off the event loop."""

import asyncio
import gzip

import pytest

from ie_serving.core.runtime.budget import BUDGET, Budget, Lease
from ie_serving.core.runtime.eager_start import begin
from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import InvalidRequest, QueueFull, RequestTooLarge
from ie_serving.server.fronts.rest.body import ALWAYS_INFLATED, COUNTED, MOST_GROWTH, read_body
from ie_serving.server.status import http_of
from ie_serving.server.transport.http1.body import BodyStream
from ie_serving.server.transport.http1.messages import Request, RequestHead
from ie_serving.server.transport.inflate import LARGE

LIMIT = 1 << 26
PATIENCE_S = 30
SPARSE = b"".join(b"%d" % number + bytes(300) for number in range(6_000))
"""Shrinks to a fiftieth: zeros with something between them."""


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
        pytest.param(SPARSE, True, id="small, but grows a thousandfold"),
    ],
)
async def test_a_body_that_may_grow_much_is_inflated_beside_the_loop(
    content: bytes, apart: bool
) -> None:
    body = gzip.compress(content)
    assert (len(body) >= LARGE) is apart
    read = []

    async def work() -> None:
        read.append(await read_body(request(body, b"gzip"), LIMIT, Lease(Budget())))

    task = begin(work())
    assert (task is not None) is apart
    if task:
        await asyncio.wait_for(task, PATIENCE_S)
    assert read == [content]


@pytest.mark.parametrize(("size", "counted"), [(COUNTED - 1, 0), (COUNTED, 4 * COUNTED)])
async def test_a_body_is_counted_while_it_waits_for_the_model(size: int, counted: int) -> None:
    lease = Lease(Budget())
    await read_body(request(bytes(size), b""), LIMIT, lease)
    assert lease.size == counted


@pytest.mark.parametrize("coding", [b"gzip", b""])
async def test_the_limit_holds_before_and_after_inflating(coding: bytes) -> None:
    body = gzip.compress(bytes(1000)) if coding else bytes(1000)
    with pytest.raises(RequestTooLarge, match=r"larger than 999 bytes.*server.max_message_bytes"):
        await read_body(request(body, coding), 999, Lease(Budget()))
    assert await read_body(request(body, coding), 1000, Lease(Budget())) == bytes(1000)


@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}")[:-1]], ids=["not gzip", "cut short"])
async def test_a_body_that_is_not_the_announced_gzip_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^the body announced by .* is not valid gzip data"):
        await read_body(request(body, b"gzip"), LIMIT, Lease(Budget()))


@pytest.mark.parametrize("behind", [b"junk", gzip.compress(b"[2]]}")], ids=["junk", "a member"])
async def test_bytes_behind_the_gzip_data_are_refused_and_not_dropped(behind: bytes) -> None:
    body = gzip.compress(b'{"instances": [[1]]}') + behind
    with pytest.raises(InvalidRequest, match="something follows its end"):
        await read_body(request(body, b"gzip"), LIMIT, Lease(Budget()))


@pytest.mark.parametrize("size", [ALWAYS_INFLATED, ALWAYS_INFLATED + 1])
async def test_a_body_that_becomes_very_much_larger_is_refused(size: int) -> None:
    """100 KB would be 100 MB of one value again and again, and minutes to parse."""
    body = gzip.compress(b"0" * size)
    assert len(body) * MOST_GROWTH < size
    work = read_body(request(body, b"gzip"), LIMIT, Lease(Budget()))
    if size > ALWAYS_INFLATED:
        with pytest.raises(RequestTooLarge, match="more than 100 times as large"):
            await work
    else:
        assert len(await work) == size


class Waiting:
    """A connection whose body is told what has come."""

    def allow_body(self) -> None:
        """The client sends without being asked."""

    def balance(self) -> None:
        """The client need not wait."""

    def read_to(self, filling: object) -> None:
        """It reads pieces."""

    def read_pieces(self) -> None:
        """So it does."""


@pytest.mark.parametrize("left", [5 << 20, (5 << 20) - 1], ids=["all", "a byte less"])
async def test_bodies_that_come_are_refused_beyond_the_budget(
    left: int,
) -> None:
    """A megabyte, and four for the work on it; all is given back when the work ends."""
    budget = Budget(left)
    lease = Lease(budget)
    stream = BodyStream(Waiting(), client_waits=False)
    head = RequestHead("POST", b"/", b"", "1.1", (), {}, None, True, False)
    work = asyncio.ensure_future(read_body(Request(head, None, stream), LIMIT, lease))
    for _ in range(4):
        stream.feed(bytes(1 << 18))
        await asyncio.sleep(0)
    assert not work.done()
    stream.end()
    if left < 5 << 20:
        with pytest.raises(QueueFull, match="send it again later"):
            await work
    else:
        assert len(await work) == 1 << 20
        assert budget.held == 5 << 20
    lease.release()
    assert budget.held == 0


async def test_a_body_of_known_length_is_counted_as_one_without() -> None:
    """It is copied from memory that counts itself, and that is given back then."""
    lease, size, before = Lease(Budget()), 1 << 20, BUDGET.held
    stream = BodyStream(Waiting(), client_waits=False)
    head = RequestHead("POST", b"/", b"", "1.1", (), {}, size, True, False)
    stream.feed(bytes(size))
    stream.end()
    assert len(await read_body(Request(head, None, stream), LIMIT, lease)) == size
    assert (lease.size, BUDGET.held) == (5 * size, before)


async def test_a_body_that_never_fits_is_refused_by_its_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BUDGET, "limit", 1000)
    head = RequestHead("POST", b"/", b"", "1.1", (), {}, 1001, True, False)
    stream = BodyStream(Waiting(), client_waits=False)
    with pytest.raises(RequestTooLarge, match="send less at once"):
        await read_body(Request(head, None, stream), LIMIT, Lease(BUDGET))


def test_an_error_made_of_one_that_has_its_own_code_has_that_too() -> None:
    class MuchTooLarge(RequestTooLarge):
        """An error of a later day."""

    assert http_of(MuchTooLarge("too large"), Code.RESOURCE_EXHAUSTED) == 413
