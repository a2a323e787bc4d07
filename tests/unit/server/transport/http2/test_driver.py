"""Connections over sockets: prefaces, any cut of the bytes, h2 as the client, windows, turns."""

import asyncio

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, TrailersReceived
from hyperframe.frame import (
    DataFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from ie_serving.server.transport.filling import DirectReads
from ie_serving.server.transport.http2 import driver as driver_module
from ie_serving.server.transport.http2.driver import (
    LARGE_READ,
    LIMITS_S,
    MOST_HELD,
    MOST_SMALL,
    SocketDriver,
)
from ie_serving.server.transport.http2.frames import ErrorCode, ping
from ie_serving.server.transport.http2.reader import TURN_S
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.http2.stream_states import ConnectionState
from ie_serving.server.transport.http2.streams import (
    MOST_STREAMS,
    STREAM_WINDOW,
    Http2Stream,
    Payload,
)
from tests.unit.server.transport.http2.peer import (
    HELLO,
    LARGE_WINDOW,
    LIMIT,
    PREFACE,
    Peer,
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
from tests.unit.server.transport.http2.wire import Wire, parsed

SETTINGS, UNKNOWN = 4, 0xBE
PARTS = (
    call(1, "Echo", b"a"),
    call(3, "Echo", b"b" * 20_000),
    call(5, "Fail", b"c"),
    call(7, "None", b"d"),
    headers(9, call_headers("Chat")) + data(9, message(b"e") * 3) + data(9, b"", "END_STREAM"),
    PingFrame(0, b"12345678").serialize(),
    raw_frame(UNKNOWN, 0xFF, 1, b"an extension"),
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
async def test_a_client_that_does_not_begin_is_sent_away(
    served: Served, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS_S, ConnectionState.PREFACE, 0.01)
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


def test_bytes_one_by_one_are_answered_as_a_whole() -> None:
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


# The client's windows.


async def settled(peer: Peer) -> None:
    """Wait until all is read that the windows allow: answers to pings go out before data."""
    await peer.pong()
    await peer.pong()


async def test_windows_may_become_negative(served: Served) -> None:
    """After SETTINGS that take back more than is left; then nothing is sent until they recover."""
    peer = await served.connect(PREFACE, settings({4: 100}))
    peer.send(call(1, "Size", b"300"))
    await settled(peer)
    assert len(peer.replies[1].body) == 100
    peer.send(settings({4: 0}), window_update(1, 50))
    await settled(peer)
    assert len(peer.replies[1].body) == 100
    peer.send(window_update(1, 60))
    await settled(peer)
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


async def test_a_request_larger_than_every_window_is_read(served: Served) -> None:
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


# Direct reads.


@pytest.mark.parametrize("frame", [16_384, 1 << 20])
async def test_messages_that_are_read_directly_arrive_whole(
    served: Served, frame: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls whose frames alternate, and small messages between them that are kept meanwhile."""
    directly: list[int] = []

    class Counting(DirectReads):
        def buffer_updated(self, nbytes: int) -> None:
            directly.append(nbytes)
            super().buffer_updated(nbytes)

    monkeypatch.setattr(driver_module, "DirectReads", Counting)
    contents = {1: pattern(LIMIT - 10), 3: pattern(LIMIT - 11)[::-1]}
    peer = await served.connect(PREFACE, settings({4: 1 << 30}), window_update(0, 1 << 30))
    peer.send(*(headers(number, call_headers("Echo")) for number in contents))
    waiting = {}
    for start in range(0, LIMIT, frame):
        for number, content in contents.items():
            piece = message(content)[start : start + frame]
            ends = ["END_STREAM"] if start + frame >= LIMIT else []
            peer.send(data(number, piece, *ends))
        if start % (1 << 18) == 0:
            number = 5 + 2 * len(waiting)
            waiting[number] = b"%d" % number * 10
            peer.send(call(number, "Wait", waiting[number]))
    for number, content in contents.items():
        assert (await peer.reply(number)).messages == [content]
    served.services.gate.set()
    for number, content in waiting.items():
        assert (await peer.reply(number)).messages == [content]
    assert sum(directly) > LIMIT


class Taking(Http2Stream):
    """A stream that copies its data to memory of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.memory = bytearray(1 << 20)
        self.filled = 0

    def receive(self, data: Payload, start: int, stop: int, *, ends: bool) -> None:
        self.memory[self.filled : self.filled + stop - start] = data[start:stop]
        self.filled += stop - start

    def room(self, most: int) -> memoryview:
        return memoryview(self.memory)[self.filled : self.filled + most]


async def test_long_frames_are_read_straight_to_their_message() -> None:
    """From the first long read on, until several short ones have come."""
    wire, streams = Wire(), list[Taking]()

    def accept(number: int, _: object, __: Sender) -> Taking:
        streams.append(Taking(number))
        return streams[-1]

    nothing, at_once = lambda *_: None, lambda: 0.0  # a clock that ends no turn
    driver = SocketDriver(lambda fields, _: fields, accept, nothing, nothing, nothing, at_once)
    driver.connection_made(wire)
    content = pattern(500_000)
    sent = HELLO + headers(1, call_headers("Any")) + data(1, content)
    driver.data_received(sent[:LARGE_READ])
    direct = wire.protocol
    assert isinstance(direct, asyncio.BufferedProtocol)
    (stream,) = streams
    left = sent[LARGE_READ:]
    room = direct.get_buffer(-1)
    assert len(room) == len(left)
    room[:] = left
    assert stream.memory[: len(content)] == content
    direct.buffer_updated(len(left))
    assert stream.filled == len(content)
    end = data(1, b"", "END_STREAM")
    direct.get_buffer(-1)[: len(end)] = end
    direct.buffer_updated(len(end))
    assert wire.protocol is direct
    acknowledged = raw_frame(SETTINGS, 1, 0)
    for _ in range(MOST_SMALL):
        direct.get_buffer(-1)[: len(acknowledged)] = acknowledged
        direct.buffer_updated(len(acknowledged))
    assert wire.protocol is driver
    assert not wire.aborted
    driver.connection_lost(None)


# Turns.


class Recorded(Http2Stream):
    """A stream that costs the loop a turn to begin: a turn passes on the clock for each one."""

    def __init__(self, begun: list[int], number: int) -> None:
        self._begun = begun
        self.number = number

    def begun(self) -> None:
        self._begun.append(self.number)


def quiet(wire: Wire, begun: list[int]) -> SocketDriver:
    """Give a connection of its own clock, on which the streams that have begun are the turns."""
    driver = SocketDriver(
        lambda fields, _: fields,
        lambda number, *_: Recorded(begun, number),
        lambda _: None,
        lambda _: None,
        lambda: None,
        lambda: len(begun) * 1.1 * TURN_S,
    )
    driver.connection_made(wire)
    driver.data_received(HELLO)
    return driver


async def test_connections_take_turns() -> None:
    """One that sends much at once is read no further until others have been."""
    first, second = list[int](), list[int]()
    wires = Wire(), Wire()
    one, other = quiet(wires[0], first), quiet(wires[1], second)
    loop = asyncio.get_running_loop()
    one.data_received(b"".join(headers(n, call_headers("Any")) for n in range(1, 9, 2)))
    loop.call_soon(other.data_received, headers(1, call_headers("Any")))
    assert first == [1]
    one.data_received(headers(9, call_headers("Any")))
    assert not wires[0].reading
    await asyncio.sleep(0)
    assert (first, second) == ([1, 3], [1])
    for _ in range(3):
        await asyncio.sleep(0)
    assert first == [1, 3, 5, 7, 9]
    assert wires[0].reading
    for driver in (one, other):
        driver.connection_lost(None)


class Answers(Http2Stream):
    """A stream that the test answers, with frames of its own."""

    driver: SocketDriver

    def __init__(self, sender: Sender, number: int) -> None:
        self._sender = sender
        self.number = number

    def begun(self) -> None:
        """Wait for the test."""

    def answer(self) -> None:
        self._sender.write(ping(bytes([self.number]) * 8))


def answered_later(wire: Wire, calls: int) -> list[Answers]:
    """Give the streams of so many calls, whose answers no reading of the socket brings."""
    begun = list[Answers]()

    def accept(number: int, _: object, sender: Sender) -> Answers:
        begun.append(Answers(sender, number))
        return begun[-1]

    ignore = (lambda _: None, lambda _: None, lambda: None)
    # By a clock that stands still one turn reads all calls, however busy the machine is.
    driver = SocketDriver(lambda fields, _: fields, accept, *ignore, clock=lambda: 0.0)
    driver.connection_made(wire)
    driver.data_received(
        HELLO + b"".join(headers(2 * n + 1, call_headers("Any")) for n in range(calls))
    )
    wire.writes.clear()
    # As a transport holds its protocol: otherwise a garbage collection takes it away.
    for stream in begun:
        stream.driver = driver
    return begun


async def test_answers_of_one_turn_of_the_loop_are_written_together() -> None:
    """As to a batch of requests: a write for each would cost as much as the answer."""
    wire = Wire()
    for stream in answered_later(wire, 3):
        asyncio.get_running_loop().call_soon(stream.answer)
    await asyncio.sleep(0)
    assert wire.writes == []
    await asyncio.sleep(0)
    assert wire.writes == [b"".join(ping(bytes([number]) * 8) for number in (1, 3, 5))]


async def test_of_many_answers_the_first_are_written_before_the_turn_ends() -> None:
    wire = Wire()
    for stream in answered_later(wire, MOST_HELD + 1):
        stream.answer()
    assert [len(parsed(written)) for written in wire.writes] == [MOST_HELD]
    await asyncio.sleep(0)
    assert [len(parsed(written)) for written in wire.writes] == [MOST_HELD, 1]


async def test_a_connection_that_is_lost_between_turns_takes_nothing_more() -> None:
    begun = list[int]()
    driver = quiet(Wire(), begun)
    driver.data_received(b"".join(headers(n, call_headers("Any")) for n in range(1, 9, 2)))
    driver.connection_lost(None)
    await asyncio.sleep(0)
    assert begun == [1]


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
