"""Requests of one stream become answers: order, what is in flight, what is dropped, how it ends."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease
from ie_serving.core.values.errors import BudgetFull
from ie_serving.inference.stream_flow import (
    ITEM,
    Inflow,
    Item,
    StreamOutcome,
    in_order,
    newest,
    numbered,
)

LEASE = Lease(BUDGET)
"""Of all streams here: each test gives back what it takes."""
TURNS = 50
"""Turns of the event loop in which whatever can go on has gone on."""


class Source:
    """Gives what a test sends.

    Attributes:
        read: how many were taken.
    """

    def __init__(self, *sent: bytes) -> None:
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.read = 0
        self.send(*sent)

    def send(self, *sent: bytes) -> None:
        for each in sent:
            self._sent.put_nowait(each)

    def end(self) -> None:
        self._sent.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (each := await self._sent.get()) is not None:
            self.read += 1
            yield each


class Works:
    """Answers when a test lets it."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.cancelled: list[bytes] = []
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}

    async def __call__(self, payload: bytes) -> bytes:
        self.begun.append(payload)
        self._waiting[payload] = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting[payload]
        except asyncio.CancelledError:
            self.cancelled.append(payload)
            raise

    def finish(self, *payloads: bytes) -> None:
        for each in payloads:
            self._waiting[each].set_result(each.upper())


async def settled() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def answers(
    source: Source, work: Callable[[bytes], Awaitable[bytes]], most: int = 2
) -> AsyncGenerator[StreamOutcome[bytes], None]:
    return in_order(numbered(Inflow(source.__aiter__()), LEASE), work, most)


@pytest.fixture(autouse=True)
async def nothing_is_lost_silently() -> AsyncIterator[None]:
    """The loop is told of errors that no caller sees."""
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    yield
    gc.collect()
    await settled()
    assert said == []
    LEASE.release()


async def test_answers_come_in_the_order_of_their_requests() -> None:
    source, work = Source(b"a", b"b"), Works()
    source.end()
    replies = answers(source, work)
    first = asyncio.ensure_future(anext(replies))
    await settled()
    work.finish(b"b")
    await settled()
    assert not first.done()
    work.finish(b"a")
    assert await first == StreamOutcome(0, b"A")
    assert [each async for each in replies] == [StreamOutcome(1, b"B")]


async def test_no_more_is_read_than_is_worked_on() -> None:
    source, work = Source(b"a", b"b", b"c"), Works()
    async with aclosing(answers(source, work)) as replies:
        first = asyncio.ensure_future(anext(replies))
        await settled()
        assert (source.read, work.begun) == (2, [b"a", b"b"])
        work.finish(b"a", b"b")
        await first
        await settled()
        assert source.read == 2  # the client has not come back for the next answer
        await anext(replies)
        await settled()
        assert work.begun == [b"a", b"b", b"c"]


async def test_an_error_is_its_request_s_own() -> None:
    async def work(payload: bytes) -> bytes:
        if payload == b"b":
            raise ValueError("b")
        return payload

    source = Source(b"a", b"b", b"c")
    source.end()
    told = [each.outcome async for each in answers(source, work)]
    assert (told[0], repr(told[1]), told[2]) == (b"a", "ValueError('b')", b"c")


async def test_work_is_cancelled_with_its_stream() -> None:
    source, work = Source(b"a", b"b"), Works()
    replies = answers(source, work)
    first = asyncio.ensure_future(anext(replies))
    await settled()
    first.cancel()
    await settled()
    assert work.cancelled == [b"a", b"b"]


async def test_a_stream_that_is_left_while_its_client_waits() -> None:
    source = Source(b"a")

    async def work(payload: bytes) -> bytes:
        return payload

    replies = answers(source, work)
    assert await anext(replies) == StreamOutcome(0, b"a")
    await replies.aclose()
    await settled()


async def test_the_end_from_outside_answers_what_has_come() -> None:
    source, work = Source(b"a"), Works()
    inflow = Inflow(source.__aiter__())
    replies = in_order(numbered(inflow, LEASE), work, 2)
    first = asyncio.ensure_future(anext(replies))
    await settled()
    inflow.end()
    await settled()
    work.finish(b"a")
    assert await first == StreamOutcome(0, b"A")
    assert [each async for each in replies] == []


async def test_an_error_of_the_requests_comes_behind_the_answers() -> None:
    async def requests() -> AsyncIterator[bytes]:
        yield b"a"
        raise BudgetFull("full")

    async def work(payload: bytes) -> bytes:
        return payload

    replies = in_order(numbered(Inflow(requests()), LEASE), work, 2)
    assert await anext(replies) == StreamOutcome(0, b"a")
    with pytest.raises(BudgetFull):
        await anext(replies)


async def test_of_what_waits_the_oldest_are_dropped_and_counted() -> None:
    source = Source(*(bytes([n]) for n in range(10)))
    source.end()
    items = newest(numbered(Inflow(source.__aiter__()), LEASE), 2)
    first = await anext(items)
    await settled()
    rest = [(item.index, item.dropped) async for item in items]
    assert [(first.index, first.dropped), *rest] == [(0, 0), (8, 7), (9, 0)]


async def test_a_request_in_flight_is_counted_until_its_answer_is_taken() -> None:
    source, work = Source(bytes(1000), bytes(1001)), Works()
    source.end()
    replies = answers(source, work)
    first = asyncio.ensure_future(anext(replies))
    await settled()
    assert LEASE.size == 2001 + 2 * ITEM
    work.finish(bytes(1000), bytes(1001))
    await first
    await anext(replies)
    assert LEASE.size == 1001 + ITEM
    assert [each async for each in replies] == []
    assert LEASE.size == 0


async def test_a_request_that_is_dropped_is_not_counted() -> None:
    source = Source(*(bytes(100) for _ in range(10)))
    items = newest(numbered(Inflow(source.__aiter__()), LEASE), 2)
    await anext(items)
    await settled()
    assert LEASE.size == 3 * (100 + ITEM)
    await items.aclose()


async def test_a_request_beyond_the_budget_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 2 * ITEM)
    lease = BUDGET.lease(ITEM)
    items = numbered(Inflow(Source(bytes(100), b"").__aiter__()), LEASE)
    refused: Item[bytes] = await anext(items)
    assert isinstance(refused.refusal, BudgetFull)
    lease.release()
    assert (await anext(items)).refusal is None
    await items.aclose()


async def test_large_replies_that_wait_are_counted() -> None:
    """As long as those before them are worked on, or their client does not read."""
    source, work = Source(b"a", b"b"), Works()
    source.end()

    async def answer(payload: bytes) -> bytes:
        return await work(payload) * SMALL

    async with aclosing(answers(source, answer)) as replies:
        first = asyncio.ensure_future(anext(replies))
        await settled()
        held = BUDGET.held
        work.finish(b"b")
        await settled()
        assert BUDGET.held - held == SMALL
        work.finish(b"a")
        assert bytes((await first).outcome) == b"A" * SMALL  # type: ignore[arg-type]
