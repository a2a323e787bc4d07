"""Conversations: messages in and out, and what neither side reads."""

import asyncio

import pytest
from hyperframe.frame import DataFrame, RstStreamFrame, WindowUpdateFrame

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.transport.grpc import conversation
from ie_serving.server.transport.http2.streams import STREAM_WINDOW
from tests.unit.server.transport.http2.peer import (
    LIMIT,
    Peer,
    Served,
    call_headers,
    data,
    ended_tasks,
    headers,
    message,
)

OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 3, 4
FLOW_CONTROL_ERROR = 3
FRAME = 16 * 1024


async def test_messages_are_answered_as_they_come(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Chat")))
    for content in (b"one", b"", b"three"):
        peer.send(data(1, message(content)))
        await peer.pong()
    peer.send(data(1, b"", "END_STREAM"))
    reply = await peer.reply(1)
    assert (reply.status, reply.messages) == (OK, [b"one", b"", b"three"])


async def test_a_conversation_may_begin_with_a_reply(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    assert len((await peer.until(DataFrame)).data) == 10_005


async def test_replies_wait_for_a_client_that_takes_none(served: Served) -> None:
    """The service is asked for the next only when the last has gone out."""
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    for _ in range(20):
        await peer.pong()
    assert len(served.services.log) == 65_535 // 10_005 + 1


async def test_a_client_that_takes_no_replies_for_long_is_left(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is alive, and answers pings: nothing else would end the call."""
    monkeypatch.setattr(conversation, "UNREAD_S", 0.01)
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    reply = await peer.reply(1)
    assert reply.status == DEADLINE_EXCEEDED
    await peer.pong()


async def test_a_client_that_takes_replies_slowly_is_not_left(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "UNREAD_S", 0.3)
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    for _ in range(8):
        await asyncio.sleep(0.05)
        for number in (0, 1):
            peer.send(WindowUpdateFrame(number, window_increment=5000).serialize())
    await peer.pong()
    assert not peer.replies[1].fields.get("grpc-status")


@pytest.mark.parametrize("size", [100, LIMIT // 2])
async def test_the_window_is_given_back_as_the_service_reads(served: Served, size: int) -> None:
    """A client that keeps to its window may send several of them, whatever its messages are."""
    peer = await served.connect()
    peer.send(headers(1, call_headers("Drain")))
    piece = message(bytes(size)) * max(1, FRAME // (size + 5))
    window, sent = STREAM_WINDOW, 0
    while sent < 3 * STREAM_WINDOW:
        if window < len(piece):
            window += await widened(peer)
            continue
        peer.send(data(1, piece))
        window -= len(piece)
        sent += len(piece)
    peer.send(data(1, b"", "END_STREAM"))
    count = sent // (size + 5)
    assert (await peer.reply(1)).messages == [b"%d" % count]


async def widened(peer: Peer) -> int:
    """Wait until the window of stream 1 is given back."""
    while (update := await peer.until(WindowUpdateFrame)).stream_id != 1:
        pass
    return int(update.window_increment)


async def test_a_client_that_no_handler_reads_has_its_window_and_no_more(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Mute")))
    held = BUDGET.held
    for _ in range(STREAM_WINDOW // FRAME):
        peer.send(data(1, bytes(FRAME)))  # of messages without content
    await peer.pong()
    assert STREAM_WINDOW <= BUDGET.held - held < 2 * STREAM_WINDOW
    peer.send(data(1, bytes(FRAME)))
    assert (await peer.until(RstStreamFrame)).error_code == FLOW_CONTROL_ERROR
    await peer.close()
    await ended_tasks()
    assert served.services.log == ["ended"]


async def test_a_request_that_ends_within_a_message_is_refused(served: Served) -> None:
    """Told when the service has come so far, also where it lies behind what is not read."""
    peer = await served.connect()
    peer.send(headers(1, call_headers("Chat")))
    peer.send(data(1, message(b"one") + message(b"two") + b"\0\0", "END_STREAM"))
    reply = await peer.reply(1)
    assert reply.status == INVALID_ARGUMENT
