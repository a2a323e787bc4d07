"""Windows, what streams hear, limits, turns, and how a connection ends. Sections are RFC 9113's."""

import struct
from collections.abc import Callable

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from ie_serving.server.transport.http2.frames import ErrorCode
from ie_serving.server.transport.http2.reader import TURN_S
from ie_serving.server.transport.http2.rules import LARGEST_FRAME
from ie_serving.server.transport.http2.stream_states import ConnectionState, SendEvent
from ie_serving.server.transport.http2.streams import CONNECTION_WINDOW, MOST_STREAMS, STREAM_WINDOW
from tests.unit.server.transport.http2.peer import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    LARGE_WINDOW,
    PING,
    PUSH,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    Header,
    data,
    headers,
    raw_frame,
    settings,
)
from tests.unit.server.transport.http2.talk import QUIET, Heard, Talk, opened, request
from tests.unit.server.transport.http2.wire import parsed


def test_no_window_is_ever_used_up_by_a_client_that_keeps_to_it() -> None:
    talk = Talk()
    talk.say(opened(1))
    left = {0: CONNECTION_WINDOW, 1: STREAM_WINDOW}
    for _ in range(100):
        talk.say(data(1, bytes(1_000_000)))
        talk.streams[1].data = b""
        left = {number: window - 1_000_000 for number, window in left.items()}
        assert min(left.values()) >= 0
        for frame in talk.frames():
            if isinstance(frame, PingFrame):
                talk.say(raw_frame(PING, 1, 0, frame.opaque_data))
            else:
                assert isinstance(frame, WindowUpdateFrame)
                left[frame.stream_id] += frame.window_increment
    assert left[1] <= STREAM_WINDOW


def test_a_client_that_reads_nothing_may_not_send_far_past_a_stream_s_window() -> None:
    """It never answers the ping before the first renewal. Two are given on trust."""
    talk = Talk()
    talk.say(opened(1), opened(3))
    trusted = data(1, bytes(STREAM_WINDOW // 4)) * 10
    talk.say(trusted, data(3, bytes(STREAM_WINDOW // 4)) * 10)
    assert talk.verdict() == QUIET
    talk.say(data(1, b"x" * 100))
    assert talk.verdict() == "reset 3"
    assert talk.streams[1].events == ["begun", "cancelled"]
    talk.say(opened(5, "END_STREAM"))
    assert talk.streams[5].events == ["begun", "whole"]


def test_a_client_that_answers_the_ping_is_given_what_was_kept_from_it() -> None:
    """It is asked once, whatever it sends later."""
    talk = Talk()
    talk.say(opened(1), data(1, bytes(STREAM_WINDOW // 4)) * 9)
    ping, *given = talk.frames()
    assert isinstance(ping, PingFrame)
    assert [f.stream_id for f in given] == [1, 1, 0]
    talk.say(raw_frame(PING, 1, 0, ping.opaque_data))
    (kept,) = talk.frames()
    assert (kept.stream_id, kept.window_increment) == (1, 3 * STREAM_WINDOW // 4)
    talk.say(data(1, bytes(STREAM_WINDOW // 4)) * 20, data(1, b"", "END_STREAM"))
    assert {type(f) for f in talk.frames()} == {WindowUpdateFrame}
    assert talk.streams[1].events == ["begun", "whole"]


def test_a_client_that_does_not_read_may_not_send_past_a_stream_s_window() -> None:
    """Nothing is given back meanwhile; when it reads again, everything is."""
    talk = Talk()
    talk.say(opened(1), opened(3))
    talk.connection.sender.apply(SendEvent.PAUSE)
    for _ in range(4):
        talk.say(data(1, bytes(LARGEST_FRAME)), data(3, bytes(LARGEST_FRAME - 10)))
    talk.say(data(1, b"x" * 100))
    talk.connection.resumed()
    talk.say()
    found = talk.frames()
    assert [(f.stream_id, f.error_code) for f in found if isinstance(f, RstStreamFrame)] == [
        (1, ErrorCode.FLOW_CONTROL_ERROR)
    ]
    given = {f.stream_id: f.window_increment for f in found if isinstance(f, WindowUpdateFrame)}
    assert given == {0: 8 * LARGEST_FRAME - 40 + 100, 3: 4 * LARGEST_FRAME - 40}


def test_a_client_that_does_not_read_may_not_send_past_the_connection_s_window() -> None:
    talk = Talk()
    numbers = range(1, 2 * CONNECTION_WINDOW // LARGEST_FRAME, 2)
    talk.say(*map(opened, numbers))
    talk.connection.sender.apply(SendEvent.PAUSE)
    for number in numbers:
        talk.say(data(number, bytes(LARGEST_FRAME)))
    assert talk.connection.life is ConnectionState.OPEN
    talk.say(data(1, b"x" * 100))
    assert talk.connection.life is ConnectionState.FAILED
    talk.connection.resumed()
    assert talk.verdict() == "goaway 3"


def test_padding_and_dropped_data_count_toward_the_connection_s_window() -> None:
    talk = Talk()
    talk.refuse = b"\x88"
    talk.say(opened(1))
    for _ in range(9):
        talk.say(raw_frame(DATA, 8, 1, b"\xff" + bytes(LARGEST_FRAME - 1)))
    given = [f for f in talk.frames() if isinstance(f, WindowUpdateFrame)]
    assert [(f.stream_id, f.window_increment) for f in given] == [(0, 9 * LARGEST_FRAME)]


# Header blocks of streams that are over, section 4.3: the table follows the client's.


def _refusing(talk: Talk) -> None:
    talk.refuse = b"\x88"


def _full(talk: Talk) -> None:
    talk.say(*map(opened, range(1001, 1001 + 2 * MOST_STREAMS, 2)))


def _closing(talk: Talk) -> None:
    talk.connection.drain()
    talk.connection.goaway_known()


def _answering(talk: Talk) -> None:
    talk.answer = Heard.answer


def _nothing(_: Talk) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "fields"),
    [
        pytest.param(_refusing, request(), id="by the service"),
        pytest.param(_full, request(), id="too many streams"),
        pytest.param(_closing, request(), id="the server stops"),
        pytest.param(_nothing, request(("Upper", "x")), id="malformed"),
        pytest.param(_answering, request(), id="answered early"),
    ],
)
@pytest.mark.parametrize("cut", [None, 3], ids=["one frame", "with CONTINUATION"])
@pytest.mark.parametrize("turns", [1, 2])
def test_trailers_of_a_refused_stream_pass_the_decoder(
    before: Callable[[Talk], None], fields: list[Header], cut: int | None, turns: int
) -> None:
    talk, encoder = Talk(), Encoder()
    before(talk)
    first = HeadersFrame(9001, bytes(encoder.encode(fields)), flags=["END_HEADERS"]).serialize()
    block = bytes(encoder.encode([("x-checksum", "a value that the table takes")]))
    end = 0x1 if cut else 0x5
    trailers = raw_frame(HEADERS, end, 9001, block[:cut])
    trailers += raw_frame(CONTINUATION, 4, 9001, block[cut:]) if cut else b""
    for sent in [first + trailers] if turns == 1 else [first, trailers]:
        talk.say(sent)
    again = bytes(encoder.encode([("x-checksum", "a value that the table takes")]))
    assert len(again) == 1
    (field,) = talk.connection.headers.decode(again).fields
    assert field == (b"x-checksum", b"a value that the table takes")


# Streams, section 5.1.


@pytest.mark.parametrize(
    ("sent", "events", "content"),
    [
        pytest.param(opened(1), ["begun"], b"", id="headers"),
        pytest.param(opened(1, "END_STREAM"), ["begun", "whole"], b"", id="headers alone"),
        pytest.param(opened(1) + data(1, b"ab"), ["begun"], b"ab", id="data"),
        pytest.param(
            opened(1) + data(1, b"ab") + data(1, b"c", "END_STREAM"),
            ["begun", "whole"],
            b"abc",
            id="whole",
        ),
        pytest.param(
            opened(1) + data(1, b"ab") + headers(1, [("x", "y")], "END_STREAM"),
            ["begun", "whole"],
            b"ab",
            id="trailers",
        ),
        pytest.param(
            opened(1) + raw_frame(RST_STREAM, 0, 1, bytes(4)),
            ["begun", "cancelled"],
            b"",
            id="reset",
        ),
    ],
)
def test_a_stream_hears_its_events_in_order(sent: bytes, events: list[str], content: bytes) -> None:
    """Whether it comes at once or byte by byte."""
    for size in (len(sent), 1):
        talk = Talk()
        for start in range(0, len(sent), size):
            talk.say(sent[start : start + size])
        assert (talk.streams[1].events, talk.streams[1].data) == (events, content)


def test_padding_priority_and_continuations_are_read() -> None:
    block = bytes(Encoder().encode(request()))
    first = HeadersFrame(1, block[:9], pad_length=4, flags=["PADDED", "PRIORITY"])
    talk = Talk()
    talk.say(
        first.serialize(),
        ContinuationFrame(1, block[9:20]).serialize(),
        ContinuationFrame(1, block[20:], flags=["END_HEADERS"]).serialize(),
        DataFrame(1, b"abc", pad_length=255, flags=["PADDED"]).serialize(),
        DataFrame(1, b"d", pad_length=0, flags=["PADDED", "END_STREAM"]).serialize(),
    )
    assert (talk.streams[1].events, talk.streams[1].data) == (["begun", "whole"], b"abcd")
    assert len(talk.requests[0]) == len(request())


def test_an_unknown_frame_or_setting_is_ignored() -> None:
    talk = Talk()
    talk.say(raw_frame(UNKNOWN, 0xFF, 7, b"x"), raw_frame(PING, 0xFE, 0, bytes(8)))
    talk.say(settings({0x99: 1}), raw_frame(GOAWAY, 0, 0, bytes(8)))
    assert [type(f) for f in talk.frames()] == [PingFrame, SettingsFrame]


def test_the_reserved_bit_is_ignored() -> None:
    """Of every frame; section 4.1."""
    talk = Talk()
    for frame in (opened(1), data(1, b"ab"), data(1, b"c", "END_STREAM")):
        with_bit = bytearray(frame)
        with_bit[5] |= 0x80
        talk.say(bytes(with_bit))
    assert (talk.streams[1].events, talk.streams[1].data) == (["begun", "whole"], b"abc")


def test_more_streams_than_announced_are_refused() -> None:
    """The client may send those again: none was begun. Section 5.1.2."""
    talk = Talk()
    last = 2 * MOST_STREAMS + 1
    talk.say(*map(opened, range(1, last + 1, 2)))
    (refused,) = talk.frames()
    assert (refused.stream_id, refused.error_code) == (last, ErrorCode.REFUSED_STREAM)
    talk.say(raw_frame(RST_STREAM, 0, 1, bytes(4)), opened(last + 2), data(last, b"late"))
    assert talk.verdict() == QUIET
    assert talk.streams[last + 2].events == ["begun"]


def test_a_refused_request_needs_no_stream() -> None:
    """Its end is awaited no more than that of one that was answered early."""
    talk = Talk()
    talk.refuse = b"\x88"
    talk.say(opened(1), opened(3, "END_STREAM"))
    assert [(type(f), f.stream_id) for f in talk.frames()] == [
        (HeadersFrame, 1),
        (RstStreamFrame, 1),
        (HeadersFrame, 3),
    ]


# Turns.


def test_a_turn_ends_between_two_frames() -> None:
    """So that what was caused is written, and other connections have theirs."""
    talk = Talk()

    def slow(_: Heard) -> None:
        talk.now += 0.6 * TURN_S

    talk.answer = slow
    sent = [opened(number) for number in range(1, 11, 2)]
    rest = talk.say(*sent)
    assert rest == b"".join(sent[2:])
    assert talk.say(rest) == sent[4]


def test_large_data_needs_no_turn() -> None:
    """Only what may cost much is put off."""
    talk = Talk()
    assert talk.say(opened(1), *[data(1, bytes(10_000))] * 50) == b""


# Ends, section 6.8.


def ping_ack(payload: bytes) -> bytes:
    return PingFrame(0, payload, flags=["ACK"]).serialize()


def draining() -> tuple[Talk, bytes]:
    """A connection that drains with one stream open; and the payload of its ping."""
    talk = Talk()
    talk.say(opened(1))
    talk.connection.drain()
    told, ping = talk.frames()
    assert (told.last_stream_id, told.error_code) == (LARGE_WINDOW, 0)
    return talk, ping.opaque_data


def test_a_request_is_taken_until_the_client_knows_that_we_drain() -> None:
    talk, payload = draining()
    talk.say(opened(3), ping_ack(b"another."), opened(5), ping_ack(payload), opened(7))
    told, refused = talk.frames()
    assert told.last_stream_id == 5
    assert (refused.stream_id, refused.error_code) == (7, ErrorCode.REFUSED_STREAM)
    assert list(talk.streams) == [1, 3, 5]


def test_a_client_that_does_not_answer_is_told_by_the_clock() -> None:
    talk, payload = draining()
    talk.connection.goaway_known()
    (told,) = talk.frames()
    assert told.last_stream_id == 1
    talk.say(ping_ack(payload))
    assert talk.frames() == []


def test_a_connection_ends_with_its_last_stream_when_all_is_written() -> None:
    talk, _ = draining()
    talk.connection.goaway_known()
    talk.connection.end_if_done()
    assert talk.connection.life is ConnectionState.CLOSING
    talk.say(data(1, b"", "END_STREAM"))
    talk.connection.sender.apply(SendEvent.PAUSE)
    talk.streams[1].answer()
    talk.connection.end_if_done()
    assert talk.connection.life is ConnectionState.CLOSING
    talk.connection.resumed()
    talk.say()
    talk.connection.end_if_done()
    assert talk.connection.life is ConnectionState.CLOSED


def test_a_stop_answers_every_stream_and_ends() -> None:
    talk, _ = draining()
    talk.say(opened(3, "END_STREAM"))
    talk.connection.stop()
    assert talk.connection.life is ConnectionState.CLOSED
    assert [stream.events[-1] for stream in talk.streams.values()] == ["cancelled", "finished"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda talk: talk.connection.lost(), id="lost"),
        pytest.param(lambda talk: talk.say(raw_frame(PUSH, 0, 1)), id="fault"),
    ],
)
def test_an_end_cancels_every_stream(end: Callable[[Talk], object]) -> None:
    talk = Talk()
    talk.say(opened(1), opened(3, "END_STREAM"))
    end(talk)
    assert [stream.events[-1] for stream in talk.streams.values()] == ["cancelled"] * 2
    assert talk.connection.streams.open == {}


def test_settings_apply_to_streams_that_are_open() -> None:
    """Section 6.9.2; of a setting that comes again, the last counts."""
    talk = Talk()
    talk.say(opened(1))
    pairs = struct.pack(">HLHL", 4, 7, 4, 100)
    talk.say(raw_frame(SETTINGS, 0, 0, pairs))
    assert talk.connection.streams.open[1].send_window == 100
    assert [type(f) for f in talk.frames()] == [SettingsFrame]


def test_a_frame_that_comes_byte_by_byte_is_read_once() -> None:
    """Up to the announced size, in linear time."""
    talk = Talk()
    frame = raw_frame(UNKNOWN, 0, 0, bytes(100_000)) + settings()
    for start in range(0, len(frame), 3):
        talk.say(frame[start : start + 3])
    assert [type(f) for f in parsed(talk.written)] == [SettingsFrame]
