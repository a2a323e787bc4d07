"""What each frame means in each state. The sections are RFC 9113's."""

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
from ie_serving.server.transport.http2.headers import LARGEST_BLOCK
from ie_serving.server.transport.http2.preface import SERVER_PREFACE
from ie_serving.server.transport.http2.reader import TURN_S
from ie_serving.server.transport.http2.receive_window import CONNECTION_WINDOW, STREAM_WINDOW
from ie_serving.server.transport.http2.rules import LARGEST_FRAME, RULES
from ie_serving.server.transport.http2.states import Flow, Life, StreamState
from ie_serving.server.transport.http2.streams import MOST_STREAMS
from tests.unit.server.transport.http2.peer import (
    HELLO,
    LARGE_WINDOW,
    PREFACE,
    data,
    headers,
    raw_frame,
    settings,
    window_update,
)
from tests.unit.server.transport.http2.talk import QUIET, Heard, Talk, opened, request
from tests.unit.server.transport.http2.wire import parsed

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
UNKNOWN = 0xBE

# Every frame type in every state of its stream, section 5.1 and 6. `goaway` ends the connection,
# `reset` the stream; 1 is PROTOCOL_ERROR, 5 STREAM_CLOSED. REMOTE and LOCAL are half-closed.

BY_STREAM = """
               IDLE       OPEN       REMOTE     LOCAL      ENDED      RESET      SKIPPED
DATA           goaway_1   ok         reset_5    ok         goaway_5   ok         goaway_5
HEADERS        ok         ok         reset_5    ok         goaway_5   ok         goaway_1
PRIORITY       ok         ok         ok         ok         ok         ok         ok
RST_STREAM     goaway_1   ok         ok         ok         ok         ok         ok
SETTINGS       goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1
PUSH_PROMISE   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1
PING           goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1
GOAWAY         goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1
WINDOW_UPDATE  goaway_1   ok         ok         ok         ok         ok         ok
CONTINUATION   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1   goaway_1
UNKNOWN        ok         ok         ok         ok         ok         ok         ok
"""

FRAMES = {
    "DATA": data(5, b"x", "END_STREAM"),
    "HEADERS": headers(5, [("x", "y")], "END_STREAM"),
    "PRIORITY": raw_frame(PRIORITY, 0, 5, bytes(5)),
    "RST_STREAM": raw_frame(RST_STREAM, 0, 5, bytes(4)),
    "SETTINGS": raw_frame(SETTINGS, 0, 5, bytes(6)),
    "PUSH_PROMISE": raw_frame(PUSH, 4, 5, bytes(8)),
    "PING": raw_frame(PING, 0, 5, bytes(8)),
    "GOAWAY": raw_frame(GOAWAY, 0, 5, bytes(8)),
    "WINDOW_UPDATE": window_update(5, 1),
    "CONTINUATION": raw_frame(CONTINUATION, 4, 5),
    "UNKNOWN": raw_frame(UNKNOWN, 0xFF, 5, b"x"),
}


STATES = {state.name.removeprefix("HALF_CLOSED_"): state for state in StreamState}


def rows(table: str) -> list[tuple[str, str, str]]:
    head, *lines = [line.split() for line in table.strip().splitlines()]
    return [
        (name, column, cell.replace("_", " "))
        for name, *cells in lines
        for column, cell in zip(head, cells, strict=True)
    ]


def within(state: StreamState) -> tuple[Talk, bytes]:
    """A connection, and bytes that bring stream 5 into `state`."""
    talk = Talk()
    if state in (StreamState.HALF_CLOSED_LOCAL, StreamState.ENDED):
        talk.answer = Heard.answer
    if state is StreamState.RESET:
        talk.refuse = b"\x88"
    before = {
        StreamState.IDLE: b"",
        StreamState.OPEN: opened(5),
        StreamState.HALF_CLOSED_REMOTE: opened(5, "END_STREAM"),
        StreamState.HALF_CLOSED_LOCAL: opened(5),
        StreamState.ENDED: opened(5, "END_STREAM"),
        StreamState.RESET: opened(5),
        StreamState.SKIPPED: opened(7),
    }
    return talk, before[state]


@pytest.mark.parametrize(("name", "state", "verdict"), rows(BY_STREAM))
def test_every_frame_in_every_state_of_its_stream(name: str, state: str, verdict: str) -> None:
    """Sent together with what brings about the state: one of them lasts no longer than a turn."""
    talk, before = within(STATES[state])
    frame = FRAMES[name]
    if (name, state) == ("HEADERS", "IDLE"):
        frame = opened(5, "END_STREAM")
    talk.say(before, frame)
    assert talk.verdict() == verdict
    if verdict != QUIET and verdict.startswith("goaway"):
        assert talk.connection.life is Life.FAILED
    else:
        talk.say(opened(99))
        assert 99 in talk.streams or talk.refuse


def test_the_table_names_every_frame_and_state() -> None:
    named = {(name, state) for name, state, _ in rows(BY_STREAM)}
    types = [rule.name for rule in RULES.values()] + ["UNKNOWN"]
    assert named == {(name, state) for name in types for state in STATES}


# Every frame type in every state of the reader.

BY_READER = """
               SETTINGS  CONTINUATION  NOTHING
DATA           goaway_1  goaway_1      ok
HEADERS        goaway_1  goaway_1      ok
PRIORITY       goaway_1  goaway_1      ok
RST_STREAM     goaway_1  goaway_1      ok
SETTINGS       ok        goaway_1      ok
PUSH_PROMISE   goaway_1  goaway_1      ok
PING           goaway_1  goaway_1      ok
GOAWAY         goaway_1  goaway_1      ok
WINDOW_UPDATE  goaway_1  goaway_1      ok
CONTINUATION   goaway_1  ok            ok
UNKNOWN        goaway_1  goaway_1      ok
"""


@pytest.mark.parametrize(("name", "expected", "verdict"), rows(BY_READER))
def test_every_frame_in_every_state_of_the_reader(name: str, expected: str, verdict: str) -> None:
    """The states in which any frame may come, or none begins, are tested above and below."""
    hello = {"SETTINGS": PREFACE, "CONTINUATION": HELLO, "NOTHING": HELLO + raw_frame(PUSH, 0, 1)}
    talk = Talk(hello[expected])
    block = bytes(Encoder().encode(request()))
    if expected == "CONTINUATION":
        talk.say(HeadersFrame(5, block[:9]).serialize())
    frame = FRAMES[name]
    if name == "SETTINGS":
        frame = settings()
    if name == "CONTINUATION":
        frame = ContinuationFrame(5, block[9:], flags=["END_HEADERS"]).serialize()
    talk.say(frame)
    assert talk.verdict() == verdict


@pytest.mark.parametrize("length", range(len(PREFACE)))
def test_a_preface_that_is_none_is_answered_in_http_1(length: int) -> None:
    """At the first byte that differs, section 3.4."""
    talk = Talk(PREFACE[:length], b"")
    talk.say(b"\0")
    assert talk.written.startswith(b"HTTP/1.1 400 ")
    assert talk.connection.life is Life.FAILED


def test_a_preface_is_answered_by_ours() -> None:
    talk = Talk(PREFACE[:-1])
    talk.say(PREFACE[-1:])
    assert talk.written == SERVER_PREFACE
    talk.say(settings())
    assert talk.connection.life is Life.OPEN


# Lengths, section 4.2 and 6; 6 is FRAME_SIZE_ERROR.


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        pytest.param(raw_frame(PRIORITY, 0, 1, bytes(4)), "reset 6", id="PRIORITY, open stream"),
        pytest.param(raw_frame(PRIORITY, 0, 7, bytes(4)), "goaway 6", id="PRIORITY, idle stream"),
        pytest.param(raw_frame(RST_STREAM, 0, 1, bytes(3)), "goaway 6", id="RST_STREAM"),
        pytest.param(raw_frame(SETTINGS, 0, 0, bytes(5)), "goaway 6", id="SETTINGS"),
        pytest.param(raw_frame(SETTINGS, 1, 0, bytes(6)), "goaway 6", id="SETTINGS with ACK"),
        pytest.param(raw_frame(PING, 0, 0, bytes(7)), "goaway 6", id="PING"),
        pytest.param(raw_frame(GOAWAY, 0, 0, bytes(7)), "goaway 6", id="GOAWAY"),
        pytest.param(raw_frame(WINDOW, 0, 1, bytes(5)), "goaway 6", id="WINDOW_UPDATE"),
        pytest.param(raw_frame(DATA, 8, 1), "goaway 6", id="DATA without its padding length"),
        pytest.param(raw_frame(UNKNOWN, 0, 0, bytes(LARGEST_FRAME)), QUIET, id="unknown"),
        pytest.param(raw_frame(UNKNOWN, 0, 0, bytes(LARGEST_FRAME + 1)), "goaway 6", id="larger"),
        pytest.param(b"\xff" * 9, "goaway 6", id="by its head"),
        pytest.param(raw_frame(DATA, 0, 1, bytes(LARGEST_FRAME)), QUIET, id="DATA"),
        pytest.param(raw_frame(DATA, 8, 1, bytes(LARGEST_FRAME)), QUIET, id="padded DATA"),
        pytest.param(raw_frame(DATA, 0, 1, bytes(LARGEST_FRAME + 1)), "goaway 6", id="large DATA"),
        pytest.param(raw_frame(HEADERS, 4, 3, bytes(LARGEST_BLOCK + 1)), "goaway 11", id="HEADERS"),
    ],
)
def test_lengths(sent: bytes, verdict: str) -> None:
    talk = Talk()
    talk.say(opened(1), sent)
    assert talk.verdict() == verdict


# Other breaches that end the connection, section 5.4.1. 3 is FLOW_CONTROL_ERROR.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(raw_frame(DATA, 0, 0, b"x"), 1, id="DATA on stream 0"),
        pytest.param(raw_frame(HEADERS, 4, 0), 1, id="HEADERS on stream 0"),
        pytest.param(raw_frame(PRIORITY, 0, 0, bytes(5)), 1, id="PRIORITY on stream 0"),
        pytest.param(raw_frame(RST_STREAM, 0, 0, bytes(4)), 1, id="RST_STREAM on stream 0"),
        pytest.param(opened(2), 1, id="an even stream"),
        pytest.param(opened(5) + opened(4), 1, id="an even stream that was passed"),
        pytest.param(opened(5) + opened(3), 1, id="a lower number"),
        pytest.param(raw_frame(PRIORITY, 0, 7, b"\0\0\0\7\0"), 1, id="PRIORITY of 7 on 7, idle"),
        pytest.param(settings({2: 2}), 1, id="ENABLE_PUSH 2"),
        pytest.param(settings({5: 16_383}), 1, id="MAX_FRAME_SIZE 16,383"),
        pytest.param(settings({4: 1 << 31}), 3, id="initial window above 2^31-1"),
        pytest.param(
            opened(1) + window_update(1, LARGE_WINDOW - 65_535) + settings({4: 65_536}),
            3,
            id="SETTINGS that widen a window above 2^31-1",
        ),
        pytest.param(window_update(0, LARGE_WINDOW), 3, id="window above 2^31-1"),
        pytest.param(raw_frame(WINDOW, 0, 0, bytes(4)), 1, id="WINDOW_UPDATE of nothing"),
        pytest.param(raw_frame(HEADERS, 0, 1) + raw_frame(CONTINUATION, 4, 3), 1, id="another's"),
        pytest.param(raw_frame(HEADERS, 4, 1, b"\x80"), 9, id="undecodable headers"),
        pytest.param(raw_frame(HEADERS, 0xC, 1, b"\x05ab"), 1, id="more padding than HEADERS"),
        pytest.param(raw_frame(HEADERS, 0x24, 1, b"1234"), 1, id="half a priority"),
        pytest.param(opened(1) + raw_frame(DATA, 8, 1, b"\x05ab"), 1, id="more padding than DATA"),
    ],
)
def test_breaches_of_the_connection(sent: bytes, code: int) -> None:
    talk = Talk()
    talk.say(sent)
    assert talk.verdict() == f"goaway {code}"


def test_whoever_breaks_the_protocol_is_told_why() -> None:
    """And nothing of what follows is taken; every stream is cancelled."""
    talk = Talk()
    talk.say(opened(1), raw_frame(PUSH, 4, 1, bytes(8)), opened(3))
    (told,) = talk.frames()
    assert (told.last_stream_id, told.additional_data) == (1, b"clients cannot push")
    assert talk.streams[1].events == ["begun", "cancelled"]
    assert 3 not in talk.streams


# Breaches that end a stream, section 5.4.2, and malformed requests, section 8.1.1.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(headers(1, request(without=":path")), 1, id="no path"),
        pytest.param(headers(1, request((":path", ""), without=":path")), 1, id="malformed"),
        pytest.param(headers(1, request(("Upper", "x"))), 1, id="upper case"),
        pytest.param(headers(1, request(("connection", "close"))), 1, id="connection header"),
        pytest.param(opened(1) + headers(1, [("x", "y")]), 1, id="trailers that end nothing"),
        pytest.param(
            opened(1) + headers(1, [(":path", "/")], "END_STREAM"),
            1,
            id="pseudo-header in trailers",
        ),
        pytest.param(
            opened(1) + headers(1, [("Upper", "x")], "END_STREAM"), 1, id="upper case in trailers"
        ),
        pytest.param(opened(1) + raw_frame(WINDOW, 0, 1, bytes(4)), 1, id="WINDOW_UPDATE of 0"),
        pytest.param(opened(1) + window_update(1, LARGE_WINDOW), 3, id="window above 2^31-1"),
        pytest.param(opened(1) + raw_frame(PRIORITY, 0, 1, b"\0\0\0\1\0"), 1, id="PRIORITY on 1"),
        pytest.param(
            HeadersFrame(
                1,
                bytes(Encoder().encode(request())),
                depends_on=1,
                flags=["END_HEADERS", "PRIORITY"],
            ).serialize(),
            1,
            id="HEADERS that depend on themselves",
        ),
    ],
)
def test_breaches_of_a_stream(sent: bytes, code: int) -> None:
    """Others go on."""
    talk = Talk()
    talk.say(sent)
    assert talk.verdict() == f"reset {code}"
    talk.say(opened(3))
    assert talk.streams[3].events == ["begun"]


@pytest.mark.parametrize(
    ("length", "sent", "verdict"),
    [
        pytest.param(3, data(1, b"abc", "END_STREAM"), QUIET, id="as announced"),
        pytest.param(3, data(1, b"a") + data(1, b"bc", "END_STREAM"), QUIET, id="in two frames"),
        pytest.param(
            3,
            DataFrame(1, b"abc", pad_length=9, flags=["PADDED", "END_STREAM"]).serialize(),
            QUIET,
            id="padded",
        ),
        pytest.param(3, data(1, b"ab", "END_STREAM"), "reset 1", id="less"),
        pytest.param(3, data(1, b"abcd"), "reset 1", id="more"),
        pytest.param(3, headers(1, [("x", "y")], "END_STREAM"), "reset 1", id="trailers instead"),
        pytest.param(0, data(1, b"", "END_STREAM"), QUIET, id="nothing"),
    ],
)
def test_content_length_is_the_sum_of_all_data(length: int, sent: bytes, verdict: str) -> None:
    talk = Talk()
    talk.say(headers(1, request(("content-length", str(length)))), sent)
    assert talk.verdict() == verdict


def test_content_length_of_a_request_without_data() -> None:
    talk = Talk()
    talk.say(headers(1, request(("content-length", "3")), "END_STREAM"))
    assert talk.verdict() == "reset 1"


# Windows that we give, section 5.2 and 6.9.


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
            assert isinstance(frame, WindowUpdateFrame)
            left[frame.stream_id] += frame.window_increment
    assert left[1] <= STREAM_WINDOW


def test_a_client_that_does_not_read_may_not_send_past_a_stream_s_window() -> None:
    """Nothing is given back meanwhile; when it reads again, everything is."""
    talk = Talk()
    talk.say(opened(1), opened(3))
    talk.connection.sender.apply(Flow.PAUSE)
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
    talk.connection.sender.apply(Flow.PAUSE)
    for number in numbers:
        talk.say(data(number, bytes(LARGEST_FRAME)))
    assert talk.connection.life is Life.OPEN
    talk.say(data(1, b"x" * 100))
    assert talk.connection.life is Life.FAILED
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
def test_what_a_stream_hears(sent: bytes, events: list[str], content: bytes) -> None:
    """Whether it comes at once or byte by byte."""
    for size in (len(sent), 1):
        talk = Talk()
        for start in range(0, len(sent), size):
            talk.say(sent[start : start + size])
        assert (talk.streams[1].events, talk.streams[1].data) == (events, content)


def test_padding_priority_and_continuations() -> None:
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


def test_what_is_not_known_is_ignored() -> None:
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
    assert talk.connection.life is Life.CLOSING
    talk.say(data(1, b"", "END_STREAM"))
    talk.connection.sender.apply(Flow.PAUSE)
    talk.streams[1].answer()
    talk.connection.end_if_done()
    assert talk.connection.life is Life.CLOSING
    talk.connection.resumed()
    talk.say()
    talk.connection.end_if_done()
    assert talk.connection.life is Life.CLOSED


def test_a_stop_answers_every_stream_and_ends() -> None:
    talk, _ = draining()
    talk.say(opened(3, "END_STREAM"))
    talk.connection.stop()
    assert talk.connection.life is Life.CLOSED
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
