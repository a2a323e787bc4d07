"""What calls hold is counted, refused beyond the budget, and given back however they end."""

import asyncio
import gc
import gzip
import random
import struct
from collections.abc import Iterator

import pytest
from hyperframe.frame import GoAwayFrame

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import BudgetFull, RequestTooLarge
from ie_serving.server.transport.http2 import frames
from tests.unit.server.transport.http2.peer import (
    Peer,
    Served,
    call,
    call_headers,
    data,
    ended_tasks,
    headers,
    message,
    raw_frame,
    serving,
    works,
)

MEGABYTE = 1 << 20
FRAME = 16_384
RESOURCE_EXHAUSTED = 8


@pytest.fixture
def room() -> Iterator[int]:
    """The budget has room for 2 MB."""
    gc.collect()
    before, BUDGET.limit = BUDGET.limit, BUDGET.held + 2 * MEGABYTE
    yield 2 * MEGABYTE
    BUDGET.limit = before


def begun(number: int, method: str, announced: int, sent: int) -> bytes:
    """The headers of a call, and the first bytes of its message."""
    body = struct.pack(">BL", 0, announced) + bytes(sent)
    pieces = [body[at : at + FRAME] for at in range(0, len(body), FRAME)]
    return headers(number, call_headers(method)) + b"".join(data(number, p) for p in pieces)


async def test_messages_that_come_are_refused_beyond_the_budget(room: int) -> None:
    """Each of 100 calls sends half of a message of 400 KB and waits; all of it was kept."""
    async with serving() as served:
        peer = await served.connect()
        held = BUDGET.held
        for number in range(1, 201, 2):
            peer.send(begun(number, "Echo", 400_000, 200_000))
        await peer.pong()
        assert BUDGET.held - held <= room
        refused = [reply for reply in peer.replies.values() if "grpc-status" in reply.fields]
        assert {reply.status for reply in refused} == {RESOURCE_EXHAUSTED}
        assert len(refused) > 80
        assert "send it again later" in refused[0].text
        assert {type(error) for error in served.refused} == {BudgetFull}
        peer.writer.transport.abort()
        await served.server.drain(20)
        gc.collect()
        assert BUDGET.held == held


async def test_a_message_that_never_fits_is_refused_when_it_is_announced(room: int) -> None:
    async with serving(limit=1 << 30) as served:
        peer = await served.connect()
        peer.send(begun(1, "Echo", 2 * room, 10))
        reply = await peer.reply(1)
        assert reply.status == RESOURCE_EXHAUSTED
        assert "send less at once" in reply.text
        assert [type(error) for error in served.refused] == [RequestTooLarge]


async def test_unread_replies_are_refused_beyond_the_budget(room: int) -> None:
    """Requests of some bytes, whose replies wait for a window that never opens."""
    async with serving() as served:
        peer = await served.connect()
        held = BUDGET.held
        for number in range(1, 201, 2):
            peer.send(call(number, "Size", b"200000"))
        await peer.pong()
        assert BUDGET.held - held <= room
        ended = [r for r in peer.replies.values() if r.fields.get("grpc-status")]
        assert {reply.status for reply in ended} == {RESOURCE_EXHAUSTED}
        assert len(ended) > 80


async def test_calls_that_wait_are_counted_however_small(room: int) -> None:
    async with serving() as served:
        peer = await served.connect()
        for number in range(1, 1001, 2):
            peer.send(call(number, "Wait"))
        await peer.pong()
        ended = [r for r in peer.replies.values() if r.fields.get("grpc-status")]
        assert {reply.status for reply in ended} == {RESOURCE_EXHAUSTED}
        served.services.gate.set()


async def test_data_that_conversations_have_not_read_are_counted(room: int) -> None:
    async with serving() as served:
        peer = await served.connect()
        for number in range(1, 21, 2):
            peer.send(headers(number, call_headers("Mute")))
            peer.send(*[data(number, message(bytes(FRAME - 5))) for _ in range(30)])
        await peer.pong()
        ended = [r for r in peer.replies.values() if r.fields.get("grpc-status")]
        assert len(ended) > 4
        assert {reply.status for reply in ended} == {RESOURCE_EXHAUSTED}


ACTIONS = {
    "part of a message": lambda n: begun(n, "Echo", 300_000, 150_000),
    "part of a small message": lambda n: begun(n, "Echo", 30_000, 10_000),
    "a message": lambda n: begun(n, "Echo", 300_000, 300_000) + data(n, b"", "END_STREAM"),
    "a wait": lambda n: call(n, "Wait", bytes(5000)),
    "a large wait": lambda n: begun(n, "Wait", 100_000, 100_000) + data(n, b"", "END_STREAM"),
    "an unread reply": lambda n: call(n, "Size", b"300000"),
    "a failure": lambda n: call(n, "Fail", b"x" * 9000),
    "a cancellation": lambda n: call(n, "Cancel", b""),
    "talk": lambda n: headers(n, call_headers("Chat")) + data(n, message(bytes(9000))),
    "talk to nobody": lambda n: headers(n, call_headers("Mute")) + data(n, message(bytes(9000))),
    "replies without end": lambda n: headers(n, call_headers("Push")),
    "gzip": lambda n: (
        headers(n, call_headers("Echo", ("grpc-encoding", "gzip")))
        + data(n, message(gzip.compress(bytes(500_000)), 1), "END_STREAM")
    ),
    "a bomb": lambda n: (
        headers(n, call_headers("Echo", ("grpc-encoding", "gzip")))
        + data(n, message(gzip.compress(bytes(2 * MEGABYTE), 1), 1), "END_STREAM")
    ),
    "too large": lambda n: begun(n, "Echo", 1 << 30, 10),
    "a deadline": lambda n: call(n, "Wait", bytes(5000), ("grpc-timeout", "5m")),
}


@pytest.mark.parametrize("seed", range(6))
async def test_after_any_history_nothing_is_held(
    room: int, seed: int, request: pytest.FixtureRequest
) -> None:
    """Requests, cancellations, resets and lost connections, as chance has it."""
    chance = random.Random(seed)
    held = BUDGET.held
    gc.disable()  # a quiet server might not collect for hours
    request.addfinalizer(gc.enable)
    async with serving() as served:
        peers = [await served.connect() for _ in range(3)]
        for number in range(1, 81, 2):
            peer = chance.choice(peers)
            peer.send(ACTIONS[chance.choice(list(ACTIONS))](number))
            await something(chance, served, peer, number)
            assert BUDGET.held - held <= room
        await leave(served)
        assert BUDGET.held == held


async def something(chance: random.Random, served: Served, peer: Peer, number: int) -> None:
    """Reset the call, or another, or let the server work, or answer what waits."""
    what = chance.randrange(6)
    if what == 0:
        peer.send(frames.rst_stream(number, frames.ErrorCode.CANCEL))
    elif what == 1:
        await peer.pong()
    elif what == 2:
        served.services.gate.set()
        await asyncio.sleep(0)
        served.services.gate.clear()
    elif what == 3:
        peer.send(frames.window_update(0, MEGABYTE))


async def leave(served: Served) -> None:
    await works(await served.connect())
    for peer in served.peers:
        peer.writer.transport.abort()
    await served.server.drain(1)
    await ended_tasks()
    await asyncio.get_running_loop().shutdown_default_executor()  # threads that went on
    served.services.contexts.clear()
    served.refused.clear()


async def test_frames_that_are_gathered_are_counted(room: int) -> None:
    """Frames of 1 MB that are no data, of which the last byte never comes."""
    frame = raw_frame(0xFA, 0, 0, bytes(MEGABYTE - 9))
    async with serving() as served:
        held = BUDGET.held
        for count in range(1, room // MEGABYTE + 1):
            peer = await served.connect()
            peer.send(frame[:-1])
            while BUDGET.held - held < count * MEGABYTE:
                await asyncio.sleep(0)
        last = await served.connect()
        last.send(frame[:-1])
        assert (await last.until(GoAwayFrame)).error_code == frames.ErrorCode.ENHANCE_YOUR_CALM
        await leave(served)
        assert BUDGET.held == held
