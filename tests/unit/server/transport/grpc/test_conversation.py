"""Conversations: messages in and out, and what neither side reads."""

import pytest
from hyperframe.frame import DataFrame

from ie_serving.server.transport.grpc.conversation import MOST_UNREAD
from tests.unit.server.transport.http2.peer import (
    LIMIT,
    Served,
    call_headers,
    data,
    ended_tasks,
    headers,
    message,
)

OK, RESOURCE_EXHAUSTED = 0, 8


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


@pytest.mark.parametrize(
    ("content", "count"),
    [
        pytest.param(b"", MOST_UNREAD + 2, id="many"),
        pytest.param(bytes(LIMIT // 2), 9, id="large"),
    ],
)
async def test_messages_that_nobody_reads_are_not_gathered_without_end(
    served: Served, content: bytes, count: int
) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Mute")))
    for _ in range(count):
        peer.send(data(1, message(content)))
    assert (await peer.reply(1)).status == RESOURCE_EXHAUSTED
    await peer.close()
    await ended_tasks()
    assert served.services.log == ["ended"]
