"""The server: how it ends with calls under way."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hyperframe.frame import GoAwayFrame, HeadersFrame, PingFrame

from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.grpc import header_blocks
from ie_serving.server.transport.grpc.header_blocks import interpret
from ie_serving.server.transport.grpc.http2_server import Http2Server
from ie_serving.server.transport.http2.driver import LIMITS_S, SocketDriver
from ie_serving.server.transport.http2.stream_states import ConnectionState
from tests.unit.alarms import LONG_S, Alarms
from tests.unit.server.transport.http2.peer import (
    HELLO,
    PATIENCE_S,
    Peer,
    Served,
    call,
    call_headers,
    data,
    headers,
    message,
    pattern,
    serving,
    window_update,
    works,
)
from tests.unit.server.transport.http2.wire import Wire

UNAVAILABLE = 14
LAST = (1 << 31) - 1
_REFUSED = header_blocks.refusal(415)


async def told(peer: Peer) -> PingFrame:
    """Read the server's word that it ends, and its ping."""
    assert (await peer.until(GoAwayFrame)).last_stream_id == LAST
    return await peer.until(PingFrame)


def pong(ping: PingFrame) -> bytes:
    return PingFrame(0, ping.opaque_data, flags=["ACK"]).serialize()


async def test_an_idle_connection_ends_when_the_client_knows(served: Served) -> None:
    peer = await served.connect()
    await peer.pong()
    drained = asyncio.ensure_future(served.server.drain(20))
    peer.send(pong(await told(peer)))
    assert (await peer.until(GoAwayFrame)).last_stream_id == 0
    await peer.gone()
    await drained


async def test_a_client_that_left_before_it_had_a_transport_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its protocol is made, and told of nothing: neither of a begin nor of an end."""
    connects: list[Callable[[], asyncio.BaseProtocol]] = []

    loop = asyncio.get_running_loop()
    make = loop.create_server

    async def create_server(connect: Callable[[], asyncio.BaseProtocol], **given: Any) -> Any:
        connects.append(connect)
        return await make(connect, **given)

    monkeypatch.setattr(loop, "create_server", create_server)
    server = Http2Server({}, max_message_bytes=1)
    await server.listen([socket.create_server(("127.0.0.1", 0))])
    gone = connects[0]()
    await asyncio.wait_for(server.drain(2 * PATIENCE_S), PATIENCE_S)
    del gone


async def test_a_client_that_was_just_accepted_is_answered(served: Served) -> None:
    """Its preface and its call are on their way when the drain begins."""
    connections = ConnectionLimit()
    server = Http2Server(served.services.methods(), max_message_bytes=100, limit=connections)
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    await server.listen([bound])
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    while not connections.count:
        await asyncio.sleep(0)
    drained = asyncio.ensure_future(server.drain(PATIENCE_S))
    await asyncio.sleep(0)
    peer.send(HELLO)
    await works(peer)
    peer.send(pong(await told(peer)))
    await peer.gone()
    await asyncio.wait_for(drained, PATIENCE_S)
    await peer.close()


async def test_calls_under_way_are_answered(served: Served) -> None:
    """Also one that the client sent before it knew; none after."""
    peer = await served.connect()
    peer.send(call(1, "Wait", b"first"))
    await served.services.begun.wait()
    drained = asyncio.ensure_future(served.server.drain(20))
    ping = await told(peer)
    peer.send(call(3, "Wait", b"second"), pong(ping), call(5, "Echo", b"third"))
    assert (await peer.until(GoAwayFrame)).last_stream_id == 3
    served.services.gate.set()
    for number, content in ((1, b"first"), (3, b"second")):
        await ended(peer, number)
        assert peer.replies[number].messages == [content]
    await peer.gone()
    assert peer.replies[5].reset == 7  # REFUSED_STREAM: it may be sent elsewhere
    await drained


async def ended(peer: Peer, number: int) -> None:
    while "grpc-status" not in getattr(peer.replies.get(number), "fields", {}):
        assert await peer.frame()


async def test_a_client_that_does_not_answer_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to end, nor to be refused."""
    monkeypatch.setitem(LIMITS_S, ConnectionState.DRAINING, 0.01)
    idle, busy = await served.connect(), await served.connect()
    await idle.pong()
    busy.send(call(1, "Wait", b"x"))
    await served.services.begun.wait()
    drained = asyncio.ensure_future(served.server.drain(2 * PATIENCE_S))
    await told(busy)
    await busy.until(GoAwayFrame)
    busy.send(call(3, "Echo"))
    assert (await busy.reply(3)).reset == 7
    await idle.gone()
    served.services.gate.set()
    assert (await busy.reply(1)).messages == [b"x"]
    await asyncio.wait_for(drained, PATIENCE_S)


async def test_calls_that_take_longer_are_cancelled_and_told(served: Served) -> None:
    peer = await served.connect()
    peer.send(call(1, "Wait"), headers(3, call_headers("Mute")), headers(5, call_headers("Echo")))
    peer.send(call(7, "Size", b"100000"))
    await peer.pong()
    drained = asyncio.ensure_future(served.server.drain(0.05))
    peer.send(pong(await told(peer)))
    await peer.gone()
    await drained
    assert [peer.replies[number].status for number in (1, 3, 5, 7)] == [UNAVAILABLE] * 4
    assert "shutting down" in peer.replies[1].text
    assert sorted(served.services.log) == ["cancelled", "ended"]


async def test_a_client_that_reads_nothing_does_not_hold_the_end(served: Served) -> None:
    peer = await served.connect(receive_buffer=4096)
    peer.writer.transport.pause_reading()
    peer.send(window_update(0, 1 << 30), window_update(0, 1 << 20))
    for number in range(1, 21, 2):
        peer.send(headers(number, call_headers("Size")), window_update(number, 1 << 30))
        peer.send(data(number, message(b"1000000"), "END_STREAM"))
    other = await served.connect()
    other.send(call(1, "Size", b"10"))
    assert (await other.reply(1)).messages == [pattern(10)]
    await asyncio.wait_for(served.server.drain(0.1), 10)


async def test_a_reply_that_a_slow_client_has_not_read_is_kept_until_it_does() -> None:
    """Its calls have ended; their status has not gone out yet."""
    wire = Wire()
    slow = SocketDriver(
        interpret, lambda *_: _REFUSED, lambda _: None, lambda _: None, lambda: None
    )
    slow.connection_made(wire)
    slow.data_received(HELLO)
    slow.pause_writing()
    slow.data_received(headers(1, call_headers("Any"), "END_STREAM"))
    slow.drain()
    slow.data_received(PingFrame(0, b"goodbye.", flags=["ACK"]).serialize())
    await asyncio.sleep(0)
    assert not wire.closed
    slow.resume_writing()
    assert wire.closed
    assert HeadersFrame in map(type, wire.frames())
    slow.connection_lost(None)


async def test_a_reply_on_its_way_arrives_although_the_client_renews_a_window(
    served: Served,
) -> None:
    """The system drops what it has not sent yet where data comes for a closed socket."""
    peer = await served.connect(receive_buffer=4096)
    peer.send(window_update(0, 1 << 30), headers(1, call_headers("Size")))
    peer.send(window_update(1, 1 << 30))
    await peer.pong()
    peer.writer.transport.pause_reading()
    peer.send(data(1, message(b"1000000"), "END_STREAM"))
    await asyncio.sleep(0.05)
    drained = asyncio.ensure_future(served.server.drain(20))
    await asyncio.sleep(0.05)
    for sent in (PingFrame(0, b"goodbye.", flags=["ACK"]).serialize(), window_update(0, 1)):
        peer.send(sent)
        await asyncio.sleep(0.05)
    peer.writer.transport.resume_reading()
    await ended(peer, 1)
    assert peer.replies[1].messages == [pattern(1_000_000)]
    await peer.gone()
    await drained


async def test_a_client_that_has_not_greeted_is_sent_away(served: Served) -> None:
    peer = await served.connect(b"PRI")
    other = await served.connect()
    await other.pong()
    drained = asyncio.ensure_future(served.server.drain(20))
    await peer.gone()
    other.send(pong(await told(other)))
    await drained


async def test_an_answer_to_a_ping_that_was_not_sent_means_nothing(served: Served) -> None:
    peer = await served.connect()
    peer.send(PingFrame(0, b"goodbye.", flags=["ACK"]).serialize())
    peer.send(call(1, "Echo", b"x"))
    assert (await peer.reply(1)).messages == [b"x"]


async def test_after_the_end_no_socket_listens(served: Served) -> None:
    await served.server.drain(1)
    with pytest.raises(ConnectionError):
        await served.connect()


async def test_an_old_connection_takes_no_new_calls_and_ends_with_its_last(alarms: Alarms) -> None:
    async with serving(max_age_s=LONG_S) as served:
        peer = await served.connect()
        peer.send(call(1, "Wait", b"first"))
        await served.services.begun.wait()
        alarms.ring()
        peer.send(pong(await told(peer)))
        assert (await peer.until(GoAwayFrame)).last_stream_id == 1
        served.services.gate.set()
        await ended(peer, 1)
        assert peer.replies[1].messages == [b"first"]
        await peer.gone()
        await works(await served.connect())


async def test_calls_that_outlive_the_grace_are_told_to_go_elsewhere(alarms: Alarms) -> None:
    async with serving(max_age_s=LONG_S, age_grace_s=LONG_S) as served:
        peer = await served.connect()
        peer.send(call(1, "Wait", b"first"))
        await served.services.begun.wait()
        alarms.ring()
        await told(peer)
        alarms.ring()
        await ended(peer, 1)
        assert peer.replies[1].fields["grpc-status"] == str(UNAVAILABLE)
        await peer.gone()


async def test_a_connection_without_calls_ends_however_often_its_client_pings() -> None:
    """As in gRPC's own servers; the client may call until it knows."""
    async with serving(max_idle_s=0.02) as served:
        peer = await served.connect()
        await peer.pong()
        peer.send(pong(await told(peer)))
        await peer.gone()
        await works(await served.connect())


async def test_a_call_that_lasts_is_no_idleness() -> None:
    async with serving(max_idle_s=0.01) as served:
        peer = await served.connect()
        peer.send(call(1, "Wait", b"first"))
        await served.services.begun.wait()
        idle = await served.connect()
        await told(idle)  # by then the other would be told, too
        served.services.gate.set()
        assert (await peer.reply(1)).messages == [b"first"]
