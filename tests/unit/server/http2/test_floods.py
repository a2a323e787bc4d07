"""Frames by the thousand, and clients that do not read: borne up to a limit, in bounded memory."""

import asyncio
import struct
from collections.abc import Callable

import pytest
from hpack import Encoder
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
)

from ie_serving.server.calls import Buffer, CallContext
from ie_serving.server.http2 import calm, connection, sender
from ie_serving.server.http2.call import UnaryCall
from ie_serving.server.http2.frames import ErrorCode
from ie_serving.server.http2.greeting import MOST_STREAMS
from ie_serving.server.http2.headers import RequestHead
from ie_serving.server.http2.sender import Sender
from tests.unit.server.http2.peer import (
    HELLO,
    LARGE_WINDOW,
    PREFACE,
    Served,
    call,
    call_headers,
    data,
    headers,
    message,
    pattern,
    raw_frame,
    settings,
    window_update,
    works,
)
from tests.unit.server.http2.wire import Wire

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
OPEN = headers(1, call_headers("Echo"))


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(raw_frame(PING, 0, 0, bytes(8)), id="PING"),
        pytest.param(settings(), id="SETTINGS"),
        pytest.param(raw_frame(PRIORITY, 0, 1, bytes(5)), id="PRIORITY"),
        pytest.param(raw_frame(0xBE, 0, 0), id="unknown"),
        pytest.param(raw_frame(GOAWAY, 0, 0, bytes(8)), id="GOAWAY"),
        pytest.param(data(1, b""), id="empty DATA"),
        pytest.param(DataFrame(1, b"", pad_length=9, flags=["PADDED"]).serialize(), id="padding"),
        pytest.param(raw_frame(RST_STREAM, 0, 1, bytes(4)), id="RST_STREAM"),
        pytest.param(headers(1, [("x", "y")]), id="HEADERS on an ended stream"),
    ],
)
async def test_floods_end_the_connection(served: Served, flood: bytes) -> None:
    peer = await served.connect()
    peer.send(OPEN, flood * (calm.BURST + 3 * calm.PER_S))
    assert (await peer.goaway()).error_code == ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "drop",
    [
        pytest.param(lambda n: raw_frame(RST_STREAM, 0, n, bytes(4)), id="by the client"),
        pytest.param(lambda n: raw_frame(WINDOW, 0, n, bytes(4)), id="by us, made to"),
    ],
)
async def test_rapid_resets_end_the_connection(
    served: Served, drop: Callable[[int], bytes]
) -> None:
    """CVE-2023-44487 and CVE-2025-8671: calls begun and dropped cost us, not the client."""
    encoder = Encoder()
    peer = await served.connect()
    for number in range(1, 2 * (calm.BURST + 3 * calm.PER_S), 2):
        block = bytes(encoder.encode(call_headers("Mute")))
        peer.send(HeadersFrame(number, block, flags=["END_HEADERS"]).serialize(), drop(number))
    assert (await peer.goaway()).error_code == ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("size", [0, 1, 1000])
async def test_headers_without_end_end_the_connection(served: Served, size: int) -> None:
    """The CONTINUATION flood."""
    peer = await served.connect()
    peer.send(raw_frame(HEADERS, 0, 1), raw_frame(CONTINUATION, 0, 1, bytes(size)) * 13_000)
    assert (await peer.goaway()).error_code == ErrorCode.ENHANCE_YOUR_CALM


async def test_settings_that_change_every_window_cost_more(served: Served) -> None:
    """Each is work for each open call."""
    peer = await served.connect()
    peer.send(OPEN, *(headers(n, call_headers("Echo")) for n in range(3, 2 * MOST_STREAMS, 2)))
    both = settings({4: 1}) + settings({4: 2})
    peer.send(both * (calm.BURST // 10))
    assert (await peer.goaway()).error_code == ErrorCode.ENHANCE_YOUR_CALM


async def test_one_frame_of_settings_changes_windows_once(served: Served) -> None:
    """Though it names thousands of sizes, each above the last."""
    peer = await served.connect()
    peer.send(OPEN, *(headers(n, call_headers("Echo")) for n in range(3, 2 * MOST_STREAMS, 2)))
    pairs = b"".join(struct.pack(">HL", 4, size) for size in range(10_000))
    peer.send(*[raw_frame(SETTINGS, 0, 0, pairs)] * 20)
    await asyncio.wait_for(peer.pong(), 10)


async def test_more_calls_than_allowed_are_refused(served: Served) -> None:
    """The client may send those again: none was begun."""
    peer = await served.connect()
    last = 2 * MOST_STREAMS + 1
    peer.send(*(headers(n, call_headers("Echo")) for n in range(1, last + 1, 2)))
    assert (await peer.reply(last)).reset == ErrorCode.REFUSED_STREAM
    peer.send(data(1, message(b"x"), "END_STREAM"))
    assert (await peer.reply(1)).messages == [b"x"]
    await works(peer, last + 2)


def echoing(wire: Wire) -> connection.Connection:
    """A connection whose calls answer what they were sent."""

    async def answer(payload: Buffer, _: CallContext) -> bytes:
        return bytes(payload)

    def open_call(number: int, head: RequestHead, out: Sender) -> UnaryCall:
        return UnaryCall(number, head, out, 1 << 20, answer)

    alone = connection.Connection(open_call, lambda _: None, lambda: None)
    alone.connection_made(wire)
    return alone


async def test_answered_calls_with_a_ping_and_an_end_of_its_own_are_no_flood() -> None:
    """What usual clients write around each call, thousands of times a second."""
    alone = echoing(wire := Wire())
    alone.data_received(HELLO)
    for number in range(1, 2 * (calm.BURST + 3 * calm.PER_S), 2):
        alone.data_received(
            headers(number, call_headers("Echo"))
            + data(number, message(b""))
            + data(number, b"", "END_STREAM")
            + raw_frame(PING, 0, 0, bytes(8))
            + window_update(0, 5)
        )
    assert GoAwayFrame not in map(type, wire.frames())
    alone.connection_lost(None)


async def test_heads_that_arrive_alone_are_no_flood() -> None:
    """Some clients write a frame's head and its content one after the other."""
    alone = echoing(wire := Wire())
    count = calm.BURST + 3 * calm.PER_S
    alone.data_received(HELLO + OPEN + data(1, message(bytes(count + 1))[:5]))
    frame = data(1, b"x")
    for _ in range(count):
        alone.data_received(frame[:9])
        alone.data_received(frame[9:])
    alone.data_received(data(1, b"x", "END_STREAM"))
    sent = [f.data for f in wire.frames() if isinstance(f, DataFrame)]
    assert sent == [message(b"x" * (count + 1))]
    alone.connection_lost(None)


async def test_a_client_that_never_reads_is_given_up(served: Served) -> None:
    """Its replies would fill our memory."""
    peer = await served.connect(receive_buffer=4096)
    peer.writer.transport.pause_reading()
    number = 1
    with pytest.raises(ConnectionError):
        while True:
            peer.send(*(call(n, "Fail", b"x" * 900) for n in range(number, number + 200, 2)))
            number += 200
            await peer.writer.drain()
            assert number < 40 * sender.MOST_UNSENT


async def test_a_slow_reader_gets_everything(served: Served) -> None:
    """What it does not read waits."""
    peer = await served.connect(PREFACE, settings({4: LARGE_WINDOW}), receive_buffer=4096)
    peer.writer.transport.pause_reading()
    peer.send(window_update(0, 1 << 30))
    for number in range(1, 41, 2):
        peer.send(call(number, "Size", b"500000"))
    other = await served.connect()
    await works(other)
    peer.writer.transport.resume_reading()
    for number in range(1, 41, 2):
        assert (await peer.reply(number)).messages == [pattern(500_000)]
