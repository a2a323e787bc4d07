"""A connection: what HTTP/2 asks for, and what it is spared."""

import asyncio

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, TrailersReceived
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from ie_serving.server.http2 import connection
from ie_serving.server.http2.frames import ErrorCode
from ie_serving.server.http2.greeting import FRAME, MOST_STREAMS, STREAM_WINDOW
from ie_serving.server.http2.headers import LARGEST_HEADERS
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
    serving,
    settings,
    window_update,
    works,
)

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
OPEN = headers(1, call_headers("Echo"))
PARTS = (
    call(1, "Echo", b"a"),
    call(3, "Echo", b"b" * 20_000),
    call(5, "Fail", b"c"),
    call(7, "None", b"d"),
    headers(9, call_headers("Chat")) + data(9, message(b"e") * 3) + data(9, b"", "END_STREAM"),
    PingFrame(0, b"12345678").serialize(),
    raw_frame(0xBE, 0xFF, 1, b"an extension"),
    PriorityFrame(21, depends_on=1).serialize(),
)


# Greeting.


async def test_both_greet_with_settings(served: Served) -> None:
    peer = await served.connect()
    frame = await peer.frame()
    assert isinstance(frame, SettingsFrame)
    assert frame.settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == MOST_STREAMS
    assert frame.settings[SettingsFrame.INITIAL_WINDOW_SIZE] == STREAM_WINDOW
    assert "ACK" in (await peer.until(SettingsFrame)).flags


@pytest.mark.parametrize(
    "hello",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP 1"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nXX", id="nearly the preface"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="TLS"),
        pytest.param(b"X", id="one byte"),
        pytest.param(b"POST / HTTP/1.1\r\n\r\n" + bytes(10**6), id="body"),
    ],
)
async def test_other_protocols_get_advice(served: Served, hello: bytes) -> None:
    """In HTTP/1.1, which says most to most."""
    peer = await served.connect(hello)
    peer.writer.write_eof()
    told = await peer.rest()
    assert told.startswith(b"HTTP/1.1 400 ")
    assert b"gRPC over HTTP/2" in told


@pytest.mark.parametrize(
    "first",
    [call(1, "Echo"), PingFrame(0, b"12345678").serialize(), raw_frame(SETTINGS, 1, 0)],
    ids=["a call", "a ping", "an acknowledgement"],
)
async def test_the_first_frame_is_settings(served: Served, first: bytes) -> None:
    peer = await served.connect(PREFACE, first)
    assert (await peer.goaway()).error_code == ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("start", [0, 10, 24, 30])
async def test_who_does_not_begin_is_sent_away(
    served: Served, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.01)
    peer = await served.connect(HELLO[:start])
    await peer.gone()


# Any cut of the bytes.


def replies_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    """What a server answers to bytes that come in these pieces, stream by stream."""

    async def talk() -> list[bytes]:
        async with serving() as served:
            peer = await served.connect(b"")
            for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True):
                peer.send(stream[a:b])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await peer.pong()
            peer.send(call(99, "Echo", b"end"))
            await peer.reply(99)
            return [
                repr((n, sorted(r.fields.items()), r.body, r.reset)).encode()
                for n, r in sorted(peer.replies.items())
            ]

    return asyncio.run(talk())


@examples(max_examples=40)
@given(st.lists(st.sampled_from(range(len(PARTS))), max_size=6), st.data())
def test_any_cut_of_the_bytes_gives_the_same_replies(which: list[int], data: st.DataObject) -> None:
    stream = HELLO + b"".join(PARTS[i] for i in sorted(set(which)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    assert replies_of(stream, cuts) == replies_of(stream, [])


def test_byte_by_byte() -> None:
    stream = HELLO + call(1, "Echo", b"a") + call(3, "Fail", b"b")
    assert replies_of(stream, list(range(len(stream)))) == replies_of(stream, [])


# A state machine that is not ours.


async def test_h2_finds_no_fault_with_a_server_under_many_calls(served: Served) -> None:
    """Windows of 1,000 bytes, 50 calls at a time, replies of all sizes: every frame is checked."""
    client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    client.initiate_connection()
    client.update_settings({SettingsFrame.INITIAL_WINDOW_SIZE: 1000})
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    sizes = {}
    for i in range(50):
        number = client.get_next_available_stream_id()
        sizes[number] = i * i * 20
        client.send_headers(number, call_headers("Size"))
        client.send_data(number, message(b"%d" % sizes[number]), end_stream=True)
    bodies = dict.fromkeys(sizes, b"")
    status = {}
    open_ = set(sizes)
    while open_:
        writer.write(client.data_to_send())
        for event in client.receive_data(await reader.read(1 << 16)):
            if isinstance(event, DataReceived):
                bodies[event.stream_id] += event.data
                client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, ResponseReceived):
                assert dict(event.headers)[":status"] == "200"
            elif isinstance(event, TrailersReceived):
                status[event.stream_id] = dict(event.headers)["grpc-status"]
            elif isinstance(event, StreamEnded):
                open_.remove(event.stream_id)
    assert set(status.values()) == {"0"}
    assert bodies == {number: message(pattern(size)) for number, size in sizes.items()}
    writer.close()


# Breaches that end the connection.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(raw_frame(DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR, id="DATA on stream 0"),
        pytest.param(data(5, b"x"), ErrorCode.PROTOCOL_ERROR, id="DATA on an idle stream"),
        pytest.param(raw_frame(HEADERS, 4, 0), ErrorCode.PROTOCOL_ERROR, id="HEADERS on stream 0"),
        pytest.param(headers(2, call_headers("Echo")), ErrorCode.PROTOCOL_ERROR, id="even stream"),
        pytest.param(
            headers(5, call_headers("Echo")) + headers(4, call_headers("Echo")),
            ErrorCode.PROTOCOL_ERROR,
            id="even stream that was passed",
        ),
        pytest.param(raw_frame(RST_STREAM, 0, 0, bytes(4)), 1, id="RST_STREAM on stream 0"),
        pytest.param(raw_frame(RST_STREAM, 0, 7, bytes(4)), 1, id="RST_STREAM on an idle stream"),
        pytest.param(OPEN + raw_frame(RST_STREAM, 0, 1, bytes(3)), 6, id="short RST_STREAM"),
        pytest.param(raw_frame(PRIORITY, 0, 0, bytes(5)), 1, id="PRIORITY on stream 0"),
        pytest.param(raw_frame(SETTINGS, 0, 1), 1, id="SETTINGS on a stream"),
        pytest.param(raw_frame(SETTINGS, 0, 0, bytes(5)), 6, id="odd SETTINGS"),
        pytest.param(raw_frame(SETTINGS, 1, 0, bytes(6)), 6, id="SETTINGS with ACK and values"),
        pytest.param(settings({4: 1 << 31}), 3, id="initial window above 2^31-1"),
        pytest.param(
            OPEN + window_update(1, LARGE_WINDOW - 65_535) + settings({4: 65_536}),
            ErrorCode.FLOW_CONTROL_ERROR,
            id="SETTINGS that widen a window above 2^31-1",
        ),
        pytest.param(raw_frame(PUSH, 4, 1, bytes(8)), 1, id="PUSH_PROMISE"),
        pytest.param(raw_frame(PING, 0, 1, bytes(8)), 1, id="PING on a stream"),
        pytest.param(raw_frame(PING, 0, 0, bytes(7)), 6, id="short PING"),
        pytest.param(raw_frame(GOAWAY, 0, 1, bytes(8)), 1, id="GOAWAY on a stream"),
        pytest.param(raw_frame(WINDOW, 0, 0, bytes(4)), 1, id="WINDOW_UPDATE of nothing"),
        pytest.param(raw_frame(WINDOW, 0, 0, bytes(3)), 6, id="short WINDOW_UPDATE"),
        pytest.param(window_update(7, 1), 1, id="WINDOW_UPDATE on an idle stream"),
        pytest.param(window_update(0, LARGE_WINDOW), 3, id="window above 2^31-1"),
        pytest.param(raw_frame(CONTINUATION, 4, 1), 1, id="CONTINUATION of nothing"),
        pytest.param(
            raw_frame(HEADERS, 0, 1) + data(1, b""), 1, id="DATA between HEADERS and CONTINUATION"
        ),
        pytest.param(
            raw_frame(HEADERS, 0, 1) + raw_frame(CONTINUATION, 4, 3), 1, id="another's CONTINUATION"
        ),
        pytest.param(raw_frame(HEADERS, 4, 1, b"\x80"), 9, id="undecodable headers"),
        pytest.param(raw_frame(HEADERS, 0xC, 1, b"\x05ab"), 1, id="more padding than HEADERS"),
        pytest.param(OPEN + raw_frame(DATA, 8, 1, b"\x05ab"), 1, id="more padding than DATA"),
        pytest.param(raw_frame(DATA, 0, 1, bytes(FRAME + 1)), 6, id="a frame above the limit"),
        pytest.param(raw_frame(0xBE, 0, 0, bytes(LARGEST_HEADERS + 2000)), 11, id="large other"),
    ],
)
async def test_breaches_of_the_connection(served: Served, sent: bytes, code: int) -> None:
    """GOAWAY with the code; a text says what was wrong. Other connections do not notice."""
    peer = await served.connect()
    other = await served.connect()
    peer.send(sent)
    told = await peer.goaway()
    assert told.error_code == code
    assert told.additional_data
    await works(other)


# Breaches that end the stream.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(headers(1, call_headers("Echo")[1:]), 1, id="malformed headers"),
        pytest.param(OPEN + raw_frame(WINDOW, 0, 1, bytes(4)), 1, id="WINDOW_UPDATE of nothing"),
        pytest.param(OPEN + window_update(1, LARGE_WINDOW), 3, id="window above 2^31-1"),
        pytest.param(OPEN + headers(1, [("x", "y")]), 1, id="headers in the middle"),
        pytest.param(call(1, "Wait") + data(1, b"x"), 5, id="DATA behind the end"),
        pytest.param(
            call(1, "Wait") + headers(1, [("x", "y")], "END_STREAM"),
            5,
            id="trailers too late",
        ),
        pytest.param(
            call(3, "Wait") + headers(1, call_headers("Echo"), "END_STREAM"), 5, id="a lower number"
        ),
    ],
)
async def test_breaches_of_a_stream(served: Served, sent: bytes, code: int) -> None:
    peer = await served.connect()
    peer.send(sent)
    assert (await peer.reply(1)).reset == code
    await works(peer)


async def test_frames_for_a_stream_that_has_ended_are_borne(served: Served) -> None:
    """They were on their way."""
    peer = await served.connect()
    peer.send(call(1, "Echo", b"x"))
    await peer.reply(1)
    peer.send(window_update(1, 5), raw_frame(RST_STREAM, 0, 1, bytes(4)), data(1, b"late"))
    await works(peer)


# What is allowed, if rare.


async def test_padding_priority_and_continuations(served: Served) -> None:
    block = bytes(Encoder().encode(call_headers("Echo")))
    peer = await served.connect()
    first = HeadersFrame(1, block[:9], pad_length=4, flags=["PADDED", "PRIORITY"])
    peer.send(first.serialize(), ContinuationFrame(1, block[9:20]).serialize())
    peer.send(ContinuationFrame(1, block[20:], flags=["END_HEADERS"]).serialize())
    body = message(b"padded")
    peer.send(DataFrame(1, body[:4], pad_length=255, flags=["PADDED"]).serialize())
    peer.send(DataFrame(1, body[4:], pad_length=0, flags=["PADDED", "END_STREAM"]).serialize())
    assert (await peer.reply(1)).messages == [b"padded"]


async def test_what_is_not_known_is_ignored(served: Served) -> None:
    peer = await served.connect()
    peer.send(
        raw_frame(0xBE, 0xFF, 7, b"x"), settings({0x99: 1}), raw_frame(PING, 0xFE, 0, bytes(8))
    )
    peer.send(GoAwayFrame(0, last_stream_id=0, error_code=0).serialize())
    await works(peer)


async def test_the_reserved_bit_is_ignored(served: Served) -> None:
    peer = await served.connect()
    frame = bytearray(call(1, "Echo", b"x"))
    frame[5] |= 0x80
    peer.send(bytes(frame))
    assert (await peer.reply(1)).messages == [b"x"]


async def test_pings_are_answered(served: Served) -> None:
    peer = await served.connect()
    await peer.pong()


async def test_windows_may_become_negative(served: Served) -> None:
    """After SETTINGS that take back more than is left; then nothing is sent until they recover."""
    peer = await served.connect(PREFACE, settings({4: 100}))
    peer.send(call(1, "Size", b"300"))
    await peer.pong()
    assert len(peer.replies[1].body) == 100
    peer.send(settings({4: 0}), window_update(1, 50))
    await peer.pong()
    assert len(peer.replies[1].body) == 100
    peer.send(window_update(1, 60))
    await peer.pong()
    assert len(peer.replies[1].body) == 110
    peer.send(settings({4: 65_535}))
    assert (await peer.reply(1)).messages == [pattern(300)]


async def test_a_window_of_a_byte_at_a_time(served: Served) -> None:
    peer = await served.connect(PREFACE, settings({4: 0}))
    peer.send(call(1, "Size", b"200"))
    for _ in range(205):
        peer.send(window_update(1, 1))
        assert len((await peer.until(DataFrame)).data) == 1
    assert (await peer.reply(1)).messages == [pattern(200)]


async def test_a_client_may_take_larger_frames(served: Served) -> None:
    peer = await served.connect(PREFACE, settings({4: 1 << 20, 5: 1 << 20}))
    peer.send(window_update(0, 1 << 20), call(1, "Size", b"200000"))
    assert len((await peer.until(DataFrame)).data) == 200_005


async def test_a_request_larger_than_every_window(served: Served) -> None:
    """The windows that we give are renewed, or a client of h2's strictness could not send it."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    client.send_headers(1, call_headers("Chat"))
    left = message(bytes(500_000)) * 20
    client.increment_flow_control_window(1 << 30)
    client.increment_flow_control_window(1 << 30, 1)
    received = 0
    while received < 20 * 500_005:
        while left and (room := min(client.local_flow_control_window(1), 16_384)):
            client.send_data(1, left[:room])
            left = left[room:]
        writer.write(client.data_to_send())
        for event in client.receive_data(await reader.read(1 << 20)):
            received += len(event.data) if isinstance(event, DataReceived) else 0
    writer.close()


# Garbage.


@examples(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.builds(
                raw_frame,
                st.integers(0, 11),
                st.integers(0, 255),
                st.sampled_from([0, 1, 2, 3, 5, 7, 1 << 31, LARGE_WINDOW]),
                st.binary(max_size=40),
            ),
            st.sampled_from(PARTS),
        ),
        max_size=12,
    )
)
def test_garbage_ends_in_replies_or_goaway(parts: list[bytes]) -> None:
    """Never in silence or another error, and others are not hurt."""
    unexpected: list[object] = []

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unexpected.append(context))
        async with serving() as served:
            peer = await served.connect()
            peer.send(*parts)
            peer.writer.write_eof()
            await peer.gone()
            await works(await served.connect())

    asyncio.run(talk())
    assert not unexpected
