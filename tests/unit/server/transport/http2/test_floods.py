"""Frames by the thousand, and clients that do not read: borne up to a limit, in bounded memory."""

import struct
from collections.abc import Callable

import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from ie_serving.server.transport.http2 import driver, rules
from ie_serving.server.transport.http2.rules import EARNED
from ie_serving.server.transport.http2.stream_states import ConnectionState
from ie_serving.server.transport.http2.streams import MOST_STREAMS
from tests.unit.server.transport.http2.peer import (
    LARGE_WINDOW,
    PREFACE,
    Served,
    call,
    data,
    headers,
    pattern,
    raw_frame,
    settings,
    window_update,
    works,
)
from tests.unit.server.transport.http2.talk import Heard, Talk, opened, request

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
FLOOD = "goaway 11"
BURST = 1_000


@pytest.fixture(autouse=True)
def a_tenth_is_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "BURST", BURST)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(raw_frame(PING, 0, 0, bytes(8)), id="PING"),
        pytest.param(raw_frame(PING, 1, 0, bytes(8)), id="answers to no PING"),
        pytest.param(settings(), id="SETTINGS"),
        pytest.param(raw_frame(SETTINGS, 1, 0), id="acknowledgements of no SETTINGS"),
        pytest.param(raw_frame(PRIORITY, 0, 1, bytes(5)), id="PRIORITY"),
        pytest.param(raw_frame(0xBE, 0, 0), id="unknown"),
        pytest.param(raw_frame(GOAWAY, 0, 0, bytes(8)), id="GOAWAY"),
        pytest.param(data(1, b""), id="empty DATA"),
        pytest.param(data(1, b"x"), id="DATA of a byte"),
        pytest.param(DataFrame(1, b"", pad_length=99, flags=["PADDED"]).serialize(), id="padding"),
        pytest.param(raw_frame(RST_STREAM, 0, 1, bytes(4)), id="RST_STREAM"),
        pytest.param(window_update(0, 1), id="WINDOW_UPDATE"),
        pytest.param(window_update(1, 1), id="WINDOW_UPDATE of a stream"),
        pytest.param(headers(3, [("x", "y")]), id="HEADERS on a stream that was reset"),
        pytest.param(data(3, b""), id="empty DATA on a stream that was reset"),
    ],
)
def test_floods_end_the_connection(flood: bytes) -> None:
    """At the frame that is one too many."""
    talk = Talk()
    talk.say(opened(1), headers(3, request(without=":path")))
    spent = 2  # for SETTINGS of the preface and the stream that we reset
    talk.say(flood * (BURST - spent))
    assert talk.connection.life is ConnectionState.OPEN
    talk.say(flood)
    assert talk.verdict() == FLOOD


@pytest.mark.parametrize(
    "drop",
    [
        pytest.param(lambda n: raw_frame(RST_STREAM, 0, n, bytes(4)), id="by the client"),
        pytest.param(lambda n: raw_frame(PRIORITY, 0, n, bytes(4)), id="by us, made to"),
    ],
)
def test_rapid_resets_end_the_connection(drop: Callable[[int], bytes]) -> None:
    """CVE-2023-44487 and CVE-2025-8671: requests begun and dropped cost us, not the client."""
    encoder = Encoder()
    talk = Talk()
    for number in range(1, 2 * BURST + 2, 2):
        block = bytes(encoder.encode(request()))
        frame = HeadersFrame(number, block, flags=["END_HEADERS"]).serialize()
        talk.say(frame, drop(number))
    assert talk.connection.life is ConnectionState.FAILED
    assert all(stream.events[-1] == "cancelled" for stream in talk.streams.values())


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_headers_without_end_end_the_connection(size: int) -> None:
    """The CONTINUATION flood."""
    talk = Talk()
    talk.say(raw_frame(HEADERS, 0, 1), raw_frame(CONTINUATION, 0, 1, bytes(size)) * (BURST + 1))
    assert talk.verdict() == FLOOD


def test_settings_that_change_every_window_cost_more() -> None:
    """Each is work for each open stream."""
    talk = Talk()
    talk.say(*(opened(n) for n in range(1, 2 * MOST_STREAMS, 2)))
    both = settings({4: 1}) + settings({4: 2})
    talk.say(both * (BURST // 10))
    assert talk.verdict() == FLOOD


def test_one_frame_of_settings_changes_windows_once() -> None:
    """Though it names thousands of sizes, each above the last."""
    talk = Talk()
    talk.say(opened(1))
    pairs = b"".join(struct.pack(">HL", 4, size) for size in range(10_000))
    talk.say(raw_frame(SETTINGS, 0, 0, pairs))
    assert talk.connection.streams.open[1].send_window == 9_999
    assert [type(f) for f in talk.frames()] == [SettingsFrame]


def test_frames_that_clients_write_around_each_call_are_no_flood() -> None:
    """A ping, two windows and an end of its own, however many thousand times a second."""
    talk = Talk()
    for number in range(1, 2 * BURST + 100, 2):
        talk.say(
            opened(number),
            data(number, bytes(100)),
            data(number, b"", "END_STREAM"),
            raw_frame(PING, 0, 0, bytes(8)),
            window_update(0, 5),
            window_update(number, 5),
        )
        talk.streams.pop(number).answer()
        talk.written = b""
    assert talk.connection.life is ConnectionState.OPEN


def test_a_client_that_widens_windows_as_it_reads_is_no_flood() -> None:
    """Both, for every frame of a long answer."""
    talk = Talk()
    talk.say(opened(1))
    for _ in range(2 * BURST):
        talk.connection.sender.send(talk.streams[1], bytes(1000))
        talk.say(window_update(0, 1000), window_update(1, 1000))
        talk.written = b""
    assert talk.connection.life is ConnectionState.OPEN
    assert talk.connection.sender.sent == 2 * BURST
    assert EARNED >= 2


def test_heads_that_arrive_alone_are_no_flood() -> None:
    """Some clients write a frame's head and its content one after the other."""
    talk = Talk()
    talk.say(opened(1))
    frame = data(1, b"x" * 40)
    for _ in range(BURST + 1):
        talk.say(frame[:9])
        talk.say(frame[9:])
    heard: Heard = talk.streams[1]
    assert heard.data == b"x" * 40 * (BURST + 1)


async def test_a_client_that_never_reads_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replies would fill our memory."""
    monkeypatch.setattr(driver, "MOST_UNSENT", 500)
    peer = await served.connect(receive_buffer=4096)
    peer.writer.transport.pause_reading()
    number = 1
    with pytest.raises(ConnectionError):
        while True:
            peer.send(*(call(n, "Fail", b"x" * 900) for n in range(number, number + 200, 2)))
            number += 200
            await peer.writer.drain()
            assert number < 100_000  # the socket buffers of the system take some thousand replies


async def test_a_slow_reader_gets_everything(served: Served) -> None:
    """What it does not read waits."""
    peer = await served.connect(PREFACE, settings({4: LARGE_WINDOW}), receive_buffer=4096)
    peer.writer.transport.pause_reading()
    peer.send(window_update(0, 1 << 30))
    for number in range(1, 17, 2):
        peer.send(call(number, "Size", b"500000"))
    other = await served.connect()
    await works(other)
    peer.writer.transport.resume_reading()
    for number in range(1, 17, 2):
        assert (await peer.reply(number)).messages == [pattern(500_000)]
