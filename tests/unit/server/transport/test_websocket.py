"""Frames that cost work and carry little, and a client that does not read; over a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("wsproto")

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import BudgetFull, RequestTooLarge
from ie_serving.server.transport import websocket as module
from ie_serving.server.transport.http1 import channel as channel_module
from ie_serving.server.transport.http1.channel import MOST_UNREAD, Channel
from ie_serving.server.transport.websocket import COPIES, WebSocketSession
from tests.process import PATIENCE_S

MASK = bytes(4)
EMPTY, LAST = b"\x00\x80" + MASK, b"\x80\x80" + MASK
"""Frames without content that go on with a message, and that end one."""
HEAD = 10
"""Bytes before the content of a large frame of a server; RFC 6455 section 5.2."""
PING = b"\x89\x80" + MASK


class Ends:
    """Both ends of a connection: a channel, and the client's socket."""

    def __init__(self, channel: Channel, client: socket.socket) -> None:
        self.channel = channel
        self.client = client

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    loop = asyncio.get_running_loop()
    server, client = socket.socketpair()
    server.setblocking(False)
    client.setblocking(False)
    transport: Any
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, server)
    yield Ends(Channel(transport, lambda _: None), client)
    transport.abort()
    client.close()


async def test_frames_without_content_leave_others_their_turns(ends: Ends) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    session = WebSocketSession(ends.channel, 1000, lambda: None)
    sending = asyncio.create_task(ends.send(b"\x02\x80" + MASK + EMPTY * 20_000 + LAST))
    message = asyncio.ensure_future(anext(session.messages()))
    ticking = asyncio.create_task(other())
    assert await message == b""
    ticking.cancel()
    await sending
    assert turns > 20  # of 30 steps of 4 KB


async def test_a_client_that_reads_no_answers_is_not_read(ends: Ends) -> None:
    session = WebSocketSession(ends.channel, 1000, lambda: None)
    message = asyncio.ensure_future(anext(session.messages()))
    ends.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sending = asyncio.create_task(ends.send(PING * 1_000_000))
    done, _ = await asyncio.wait((sending,), timeout=1)
    assert not done
    for task in (message, sending):
        task.cancel()


async def test_unread_data_is_bounded_and_counted(ends: Ends) -> None:
    held = BUDGET.held
    sending = asyncio.create_task(ends.send(bytes(8 << 20)))
    done, _ = await asyncio.wait((sending,), timeout=0.5)
    assert not done
    assert MOST_UNREAD < BUDGET.held - held <= MOST_UNREAD + (256 << 10)
    sending.cancel()


async def test_a_reply_is_counted_until_it_is_read(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, reply = WebSocketSession(ends.channel, 1000, lambda: None), b"0" * (8 << 20)
    held = BUDGET.held
    sending = asyncio.create_task(session.send(reply))
    await asyncio.sleep(0)
    assert BUDGET.held - held == COPIES * len(reply)
    loop = asyncio.get_running_loop()
    left = HEAD + len(reply)
    while left:
        came = await asyncio.wait_for(loop.sock_recv(ends.client, 1 << 20), PATIENCE_S)
        assert came, "the connection has ended before the reply"
        left -= len(came)
    await asyncio.wait_for(sending, PATIENCE_S)
    assert BUDGET.held == held
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + len(reply))
    with pytest.raises(RequestTooLarge):
        await session.send(reply)


async def test_a_message_beyond_the_budget_is_refused(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + 5000)
    other = BUDGET.lease(2000)
    session = WebSocketSession(ends.channel, 1 << 20, lambda: None)
    await ends.send(b"\x82\xfe\x10\0" + MASK + bytes(4096))
    with pytest.raises(BudgetFull):
        await anext(session.messages())
    other.release()


async def test_a_client_that_answers_no_ping_is_left(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PING_S", 0.01)
    session = WebSocketSession(ends.channel, 1000, lambda: None)
    message = asyncio.ensure_future(anext(session.messages()))
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(ends.client, 100) == b"\x89\0"
    assert await loop.sock_recv(ends.client, 100) == b""
    message.cancel()


async def test_a_silent_client_that_reads_nothing_is_left(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PING_S", 0.01)
    session = WebSocketSession(ends.channel, 1000, lambda: None)
    answering = asyncio.create_task(session.send(b"x" * (8 << 20)))
    message = asyncio.ensure_future(anext(session.messages()))
    await asyncio.wait_for(answering, 5)  # until the connection is ended
    message.cancel()


async def test_a_client_that_reads_no_answers_for_long_is_left(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would end it while its requests fill what it may have in flight."""
    monkeypatch.setattr(channel_module, "UNREAD_S", 0.01)
    session = WebSocketSession(ends.channel, 1000, lambda: None)
    await asyncio.wait_for(session.send(b"x" * (8 << 20)), 5)
    with pytest.raises(ConnectionResetError):
        while await asyncio.get_running_loop().sock_recv(ends.client, 1 << 20):
            pass
        raise ConnectionResetError  # some systems tell an end


async def test_a_client_that_reads_slowly_is_not_left(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "UNREAD_S", 0.3)
    session = WebSocketSession(ends.channel, 1000, lambda: None)
    size, read = 4 << 20, 0
    sending = asyncio.create_task(session.send(b"x" * size))
    while read < size:
        read += len(await asyncio.get_running_loop().sock_recv(ends.client, 256 << 10))
        await asyncio.sleep(0.03)
    await asyncio.wait_for(sending, 5)
