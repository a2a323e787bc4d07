"""Every event in every state: what follows, and what is illegal."""

import enum
from collections.abc import Mapping

import pytest

from ie_serving.core.runtime.states import IllegalMove, after
from ie_serving.server.transport.http2 import stream_states
from ie_serving.server.transport.http2.stream_states import (
    LIFE,
    READER,
    STREAM,
    WRITER,
    Expect,
    Flow,
    Life,
    LifeEvent,
    Piece,
    StreamEvent,
    StreamState,
    Writing,
)
from tests.state_drawings import moves

Table = Mapping[enum.IntEnum, Mapping[enum.IntEnum, enum.IntEnum]]


def printed(table: Table) -> list[str]:
    return [
        f"{state.name} {event.name} {after.name}"
        for state, row in table.items()
        for event, after in row.items()
        if after is not state
    ]


def test_a_stream() -> None:
    """The module's docstring has it: RFC 9113 section 5.1, figure 2, without reserved states."""
    assert moves(STREAM) in str(stream_states.__doc__)


def test_a_connection() -> None:
    assert printed(LIFE) == [  # type: ignore[arg-type]
        "PREFACE PREFACE_READ OPEN",
        "PREFACE DRAIN CLOSED",
        "PREFACE DONE CLOSED",
        "PREFACE FAULT FAILED",
        "PREFACE LOST CLOSED",
        "OPEN DRAIN DRAINING",
        "OPEN DONE CLOSED",
        "OPEN FAULT FAILED",
        "OPEN LOST CLOSED",
        "DRAINING GOAWAY_KNOWN CLOSING",
        "DRAINING DONE CLOSED",
        "DRAINING FAULT FAILED",
        "DRAINING LOST CLOSED",
        "CLOSING DONE CLOSED",
        "CLOSING FAULT FAILED",
        "CLOSING LOST CLOSED",
        "FAILED LOST CLOSED",
    ]


def test_a_reader() -> None:
    assert printed(READER) == [  # type: ignore[arg-type]
        "PREFACE PREFACE SETTINGS",
        "PREFACE OVER NOTHING",
        "SETTINGS SETTINGS FRAME",
        "SETTINGS OVER NOTHING",
        "FRAME PART_OF_DATA PAYLOAD",
        "FRAME PART_OF_HEADERS CONTINUATION",
        "FRAME OVER NOTHING",
        "PAYLOAD END_OF_DATA FRAME",
        "PAYLOAD OVER NOTHING",
        "CONTINUATION END_OF_HEADERS FRAME",
        "CONTINUATION OVER NOTHING",
    ]


def test_a_writer() -> None:
    assert printed(WRITER) == [  # type: ignore[arg-type]
        "THIS_TURN READING GATHERING",
        "THIS_TURN PAUSE PAUSED",
        "THIS_TURN LOST OVER",
        "GATHERING READ THIS_TURN",
        "GATHERING PAUSE PAUSED",
        "GATHERING LOST OVER",
        "PAUSED RESUME THIS_TURN",
        "PAUSED LOST OVER",
    ]


@pytest.mark.parametrize(
    ("table", "states", "events"),
    [
        (STREAM, StreamState, StreamEvent),
        (LIFE, Life, LifeEvent),
        (READER, Expect, Piece),
        (WRITER, Writing, Flow),
    ],
    ids=["stream", "connection", "reader", "writer"],
)
def test_each_event_in_each_state_moves_as_its_table_says_or_is_refused(
    table: Table, states: type[enum.IntEnum], events: type[enum.IntEnum]
) -> None:
    assert list(table) == list(states)
    for state in states:
        for event in events:
            if event in table[state]:
                assert after(table, state, event) is table[state][event]
                continue
            with pytest.raises(IllegalMove, match=f"x: {event.name} while {state.name}"):
                after(table, state, event, "x")
    for row in table.values():
        assert {type(event) for event in row} <= {events}
        assert {type(after) for after in row.values()} <= {states}


@pytest.mark.parametrize("event", Flow)
def test_a_writer_takes_every_event_in_every_state(event: Flow) -> None:
    """The socket's callbacks come whenever they come."""
    assert all(event in WRITER[state] for state in Writing)


@pytest.mark.parametrize("state", list(Life))
def test_a_connection_may_be_lost_or_told_to_end_in_every_state(state: Life) -> None:
    assert {LifeEvent.DRAIN, LifeEvent.DONE, LifeEvent.LOST} <= set(LIFE[state])
