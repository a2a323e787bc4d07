"""Calls that are begun, and of which nothing more comes, are counted in the budget of bytes."""

import gc
from collections.abc import Iterator

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.transport.http2.frames import ErrorCode
from ie_serving.server.transport.http2.streams import FREE_STREAMS, STEP, STREAM_BYTES, StreamTable
from tests.unit.server.transport.http2.peer import (
    Peer,
    Served,
    call_headers,
    ended_tasks,
    headers,
    serving,
    works,
)

MEGABYTE = 1 << 20
RESOURCE_EXHAUSTED = 8
CALLS = 900


@pytest.fixture
def room() -> Iterator[int]:
    """The budget has room for 1 MB."""
    gc.collect()
    before, BUDGET.limit = BUDGET.limit, BUDGET.held + MEGABYTE
    yield MEGABYTE
    BUDGET.limit = before


async def opened(served: Served, method: str, *more: tuple[str, str], calls: int = CALLS) -> Peer:
    """Begin calls, of which nothing but the headers comes."""
    peer = await served.connect()
    for number in range(1, 2 * calls, 2):
        peer.send(headers(number, call_headers(method, *more)))
    await peer.pong()
    return peer


async def left(served: Served, held: int) -> None:
    """All clients leave, and nothing is held any more."""
    for peer in served.peers:
        peer.writer.transport.abort()
    await served.server.drain(1)
    await ended_tasks()
    gc.collect()
    assert BUDGET.held == held


async def test_calls_that_are_only_begun_are_counted(room: int) -> None:
    """2 MB of headers on 20 connections held 36 MB."""
    async with serving() as served:
        held = BUDGET.held
        peer = await opened(served, "Echo")
        assert CALLS * STREAM_BYTES > room >= BUDGET.held - held
        refused = [r.reset for r in peer.replies.values() if r.reset is not None]
        assert len(refused) > 100
        assert set(refused) == {ErrorCode.REFUSED_STREAM}
        await left(served, held)


@pytest.mark.parametrize("method", ["Mute", "Chat"])
async def test_conversations_are_counted_before_they_begin(room: int, method: str) -> None:
    """0.4 MB of headers on 10 connections held 70 MB."""
    async with serving() as served:
        held = BUDGET.held
        peer = await opened(served, method)
        assert BUDGET.held - held <= room
        ended = [r for r in peer.replies.values() if r.fields.get("grpc-status")]
        # How many come in one read depends on the machine: those behind a full budget get a reset.
        refused = [r.reset for r in peer.replies.values() if r.reset]
        assert len(ended) + len(refused) > CALLS - room // 8192
        assert {reply.status for reply in ended} == {RESOURCE_EXHAUSTED}
        assert set(refused) <= {ErrorCode.REFUSED_STREAM}
        await left(served, held)


async def test_large_headers_of_calls_that_wait_are_counted(room: int) -> None:
    """49 MB of them on 3 connections held 675 MB: each of 1,500 fields is several objects."""
    more = [(f"x{number}", "v") for number in range(1500)]
    async with serving() as served:
        held = BUDGET.held
        peer = await opened(served, "Echo", *more, calls=FREE_STREAMS)
        assert BUDGET.held - held <= room
        refused = list(peer.replies.values())[-10:]
        assert {reply.status for reply in refused} == {RESOURCE_EXHAUSTED}
        assert "send it again later" in refused[0].text
        await left(served, held)


async def test_without_room_others_are_answered(room: int) -> None:
    async with serving() as served:
        held = BUDGET.held
        await opened(served, "Mute")
        await works(await served.connect())
        await left(served, held)


def test_room_is_given_back_while_the_connection_goes_on() -> None:
    streams, held = StreamTable(), BUDGET.held
    for _ in range(3):
        assert streams.grow()
    assert streams.room == FREE_STREAMS + 3 * STEP
    assert BUDGET.held == held + 3 * STEP * STREAM_BYTES
    streams.settle()
    assert streams.room == FREE_STREAMS
    assert BUDGET.held == held
