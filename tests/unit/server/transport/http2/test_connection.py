"""What each frame means in each state. The sections are RFC 9113's."""

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
)

from ie_serving.server.transport.http2.headers import LARGEST_BLOCK
from ie_serving.server.transport.http2.rules import LARGEST_FRAME, RULES
from ie_serving.server.transport.http2.sender import SERVER_PREFACE
from ie_serving.server.transport.http2.stream_states import ConnectionState, StreamState
from tests.unit.server.transport.http2.peer import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    HELLO,
    LARGE_WINDOW,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    WINDOW,
    data,
    headers,
    raw_frame,
    settings,
    window_update,
)
from tests.unit.server.transport.http2.talk import QUIET, Heard, Talk, opened, request

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
        assert talk.connection.life is ConnectionState.FAILED
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
def test_every_frame_in_every_state_of_the_reader_has_its_verdict(
    name: str, expected: str, verdict: str
) -> None:
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
    assert talk.connection.life is ConnectionState.FAILED


def test_a_preface_is_answered_by_ours() -> None:
    talk = Talk(PREFACE[:-1])
    talk.say(PREFACE[-1:])
    assert talk.written == SERVER_PREFACE
    talk.say(settings())
    assert talk.connection.life is ConnectionState.OPEN


# Lengths, section 4.2 and 6; 6 is FRAME_SIZE_ERROR. `tests/functional/protocols` has more of them,
# and of the breaches below.


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        pytest.param(raw_frame(PRIORITY, 0, 1, bytes(4)), "reset 6", id="PRIORITY, open stream"),
        pytest.param(raw_frame(PRIORITY, 0, 7, bytes(4)), "goaway 6", id="PRIORITY, idle stream"),
        pytest.param(raw_frame(DATA, 8, 1), "goaway 6", id="DATA without its padding length"),
        pytest.param(raw_frame(UNKNOWN, 0, 0, bytes(LARGEST_FRAME)), QUIET, id="unknown"),
        pytest.param(b"\xff" * 9, "goaway 6", id="by its head"),
        pytest.param(raw_frame(DATA, 0, 1, bytes(LARGEST_FRAME)), QUIET, id="DATA"),
        pytest.param(raw_frame(DATA, 8, 1, bytes(LARGEST_FRAME)), QUIET, id="padded DATA"),
        pytest.param(raw_frame(HEADERS, 4, 3, bytes(LARGEST_BLOCK + 1)), "goaway 11", id="HEADERS"),
    ],
)
def test_a_frame_of_a_wrong_length_is_refused(sent: bytes, verdict: str) -> None:
    talk = Talk()
    talk.say(opened(1), sent)
    assert talk.verdict() == verdict


# Other breaches that end the connection, section 5.4.1. 3 is FLOW_CONTROL_ERROR.


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(opened(5) + opened(4), 1, id="an even stream that was passed"),
        pytest.param(
            opened(1) + window_update(1, LARGE_WINDOW - 65_535) + settings({4: 65_536}),
            3,
            id="SETTINGS that widen a window above 2^31-1",
        ),
        pytest.param(window_update(0, LARGE_WINDOW), 3, id="window above 2^31-1"),
        pytest.param(raw_frame(HEADERS, 4, 1, b"\x80"), 9, id="undecodable headers"),
        pytest.param(raw_frame(HEADERS, 0xC, 1, b"\x05ab"), 1, id="more padding than HEADERS"),
        pytest.param(raw_frame(HEADERS, 0x24, 1, b"1234"), 1, id="half a priority"),
        pytest.param(opened(1) + raw_frame(DATA, 8, 1, b"\x05ab"), 1, id="more padding than DATA"),
    ],
)
def test_a_breach_of_the_connection_ends_it_with_its_code(sent: bytes, code: int) -> None:
    talk = Talk()
    talk.say(sent)
    assert talk.verdict() == f"goaway {code}"


def test_a_client_that_breaks_the_protocol_is_told_why() -> None:
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


def test_a_content_length_without_data_resets_the_stream() -> None:
    talk = Talk()
    talk.say(headers(1, request(("content-length", "3")), "END_STREAM"))
    assert talk.verdict() == "reset 1"


# Windows that we give, section 5.2 and 6.9.
