"""A body in pieces: what its reader gets, and when its client has to wait."""

import asyncio
import tracemalloc

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.eager_start import begin
from ie_serving.core.values.errors import QueueFull
from ie_serving.server.transport.http1.body import BodyStream
from ie_serving.server.transport.http1.connection_states import Body

PATIENCE_S = 5


class Connection:
    """Counts what a body asks of its connection."""

    def __init__(self) -> None:
        self.allowed = 0
        self.balanced = 0

    def allow_body(self) -> None:
        self.allowed += 1

    def balance(self) -> None:
        self.balanced += 1

    def read_to(self, filling: object) -> None:
        """It reads pieces."""

    def read_pieces(self) -> None:
        """So it does."""


async def all_of(stream: BodyStream, pieces: list[bytes]) -> None:
    while piece := await stream.piece():
        pieces.append(piece)


async def test_pieces_are_given_as_they_come_and_several_as_one() -> None:
    stream, got = BodyStream(Connection(), client_waits=False), list[bytes]()
    stream.feed(b"a")
    stream.feed(b"b")
    task = begin(all_of(stream, got))
    assert got == [b"ab"]
    stream.feed(b"c")
    await asyncio.sleep(0)
    stream.end()
    assert task
    await asyncio.wait_for(task, PATIENCE_S)
    assert got == [b"ab", b"c"]


async def test_a_piece_that_is_taken_is_not_unread_and_the_connection_is_told() -> None:
    stream = BodyStream(connection := Connection(), client_waits=False)
    stream.feed(b"abc")
    assert (stream.unread, connection.balanced) == (3, 0)
    assert await stream.piece() == b"abc"
    assert (stream.unread, connection.balanced) == (0, 1)


async def test_a_waiting_client_is_told_once_and_only_for_a_reader() -> None:
    stream = BodyStream(connection := Connection(), client_waits=True)
    assert connection.allowed == 0
    task = begin(all_of(stream, []))
    stream.feed(b"a")
    await asyncio.sleep(0)
    stream.end()
    assert task
    await asyncio.wait_for(task, PATIENCE_S)
    assert connection.allowed == 1


async def test_a_client_that_did_not_wait_after_all_is_not_told() -> None:
    stream = BodyStream(connection := Connection(), client_waits=True)
    stream.feed(b"abc")
    stream.end()
    assert await stream.piece() == b"abc"
    assert await stream.piece() == b""
    assert connection.allowed == 0


async def test_a_body_that_breaks_off_gives_nothing_until_its_reader_is_cancelled() -> None:
    stream, got = BodyStream(Connection(), client_waits=False), list[bytes]()
    task = begin(all_of(stream, got))
    stream.feed(b"abc")
    stream.break_off()
    for _ in range(3):
        await asyncio.sleep(0)
    assert task and not task.done()
    assert (got, stream.unread, stream.state) == ([], 0, Body.BROKEN)
    task.cancel()
    await asyncio.wait((task,), timeout=PATIENCE_S)
    assert task.cancelled()


async def rest_of(stream: BodyStream, limit: int, got: list[bytes]) -> None:
    got.append(await stream.rest(limit))


async def test_the_rest_is_given_at_once_and_its_client_need_not_wait() -> None:
    stream, got = BodyStream(connection := Connection(), client_waits=True), list[bytes]()
    stream.feed(b"a")
    task = begin(rest_of(stream, 4, got))
    assert (stream.unread, connection.allowed, connection.balanced) == (0, 1, 1)
    stream.feed(b"bc")
    stream.feed(b"d")
    assert (stream.unread, got) == (0, [])
    stream.end()
    assert task
    await asyncio.wait_for(task, PATIENCE_S)
    assert got == [b"abcd"]


async def test_the_rest_of_a_whole_body_waits_for_nothing() -> None:
    stream, got = BodyStream(Connection(), client_waits=False), list[bytes]()
    stream.feed(b"ab")
    stream.end()
    assert begin(rest_of(stream, 2, got)) is None
    assert got == [b"ab"]


@pytest.mark.parametrize("before", [b"", b"abcd"], ids=["comes", "has come"])
async def test_more_than_the_limit_is_not_waited_for(before: bytes) -> None:
    stream, got = BodyStream(Connection(), client_waits=False), list[bytes]()
    if before:
        stream.feed(before)
    task = begin(rest_of(stream, 3, got))
    if not before:
        stream.feed(b"abcd")
        assert task
        await asyncio.wait_for(task, PATIENCE_S)
    assert got == [b"abcd"]
    stream.feed(b"e")
    assert stream.unread == 1


async def test_a_rest_that_breaks_off_gives_nothing_until_its_reader_is_cancelled() -> None:
    stream, got = BodyStream(Connection(), client_waits=False), list[bytes]()
    task = begin(rest_of(stream, 9, got))
    stream.feed(b"abc")
    stream.break_off()
    for _ in range(3):
        await asyncio.sleep(0)
    assert task and not task.done()
    task.cancel()


async def test_small_pieces_take_little_more_than_their_bytes() -> None:
    """A megabyte in chunks of two bytes was held as half a million objects, of 22 MB."""
    count = 50_000
    stream = BodyStream(Connection(), client_waits=False)
    tracemalloc.start()
    try:
        for number in range(count):
            stream.feed(number.to_bytes(2, "big"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * count
    stream.end()
    body = await stream.rest(1 << 20)
    assert body == b"".join(number.to_bytes(2, "big") for number in range(count))


async def test_data_without_a_reader_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a megabyte of each connection was not: 1,000 of them held a gigabyte."""
    held = BUDGET.held
    monkeypatch.setattr(BUDGET, "limit", held + (1 << 20))
    streams = [BodyStream(Connection(), client_waits=False) for _ in range(4)]
    waits = [begin(stream.rest(1 << 30)) for stream in streams]
    for stream in streams:
        stream.feed(bytes(1 << 18))
    assert BUDGET.held - held <= 1 << 20
    assert waits[0] and not waits[0].done()
    assert waits[3]
    with pytest.raises(QueueFull, match="send it again later"):
        await asyncio.wait_for(waits[3], PATIENCE_S)
    streams[3].feed(b"more")  # is dropped: its reader has been told
    for stream in streams:
        stream.break_off()
    assert BUDGET.held == held
    for wait in waits[:3]:
        assert wait
        wait.cancel()
