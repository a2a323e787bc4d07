"""Every event in every state: where it leads, or that it is refused and changes nothing."""

import enum
import re

import pytest

from ie_serving.server.transport.http1 import connection_states
from ie_serving.server.transport.http1.connection_states import (
    BODY,
    READER,
    WRITER,
    Body,
    BodyEvent,
    Reader,
    ReaderEvent,
    Writer,
    WriterEvent,
)
from tests.unit.moves import Table, check_moves, parsed

# A line for each state, a column for each event; a dot where the event is refused.
READER_MOVES = """
             HEAD_BEGINS  SMALL      LARGE      GROWN      END   LAST_END  FAULT   CLOSE
IDLE         HEAD         .          .          .          .     .         CLOSED  CLOSED
HEAD         HEAD         GATHERING  STREAMING  .          .     .         CLOSED  CLOSED
GATHERING    .            .          .          STREAMING  IDLE  CLOSED    CLOSED  CLOSED
STREAMING    .            .          .          .          IDLE  CLOSED    CLOSED  CLOSED
CLOSED       .            .          .          .          .     .         .       CLOSED
"""
WRITER_MOVES = """
             CONTINUE  REPLY   LAST_REPLY  REFUSAL  SWITCH    FILLED  EMPTIED  INPUT_CLOSED  CLOSE
OPEN         OPEN      OPEN    LAST        CLOSED   SWITCHED  FULL    OPEN     ENDING        CLOSED
FULL         FULL      FULL    LAST        CLOSED   SWITCHED  FULL    OPEN     .             CLOSED
ENDING       .         ENDING  LAST        CLOSED   LAST      ENDING  ENDING   .             CLOSED
SWITCHED     .         .       .           .        .         .       .        .             CLOSED
LAST         .         .       .           .        .         LAST    LAST     .             CLOSED
CLOSED       .         .       .           .        .         CLOSED  CLOSED   .             CLOSED
"""
BODY_MOVES = """
             ASKED_FOR  END    BREAK
HELD_BACK    COMING     WHOLE  BROKEN
COMING       .          WHOLE  BROKEN
WHOLE        .          .      .
BROKEN       .          .      .
"""


@pytest.mark.parametrize(
    ("table", "states", "events", "moves"),
    [
        pytest.param(READER, Reader, ReaderEvent, READER_MOVES, id="reader"),
        pytest.param(WRITER, Writer, WriterEvent, WRITER_MOVES, id="writer"),
        pytest.param(BODY, Body, BodyEvent, BODY_MOVES, id="body"),
    ],
)
def test_every_event_in_every_state_leads_as_written_here(
    table: Table, states: type[enum.Enum], events: type[enum.Enum], moves: str
) -> None:
    check_moves(table, states, events, moves)


@pytest.mark.parametrize("kind", [Reader, ReaderEvent, Writer, WriterEvent, Body, BodyEvent])
def test_each_state_and_event_says_what_it_means(kind: type[enum.Enum]) -> None:
    assert len({member.value for member in kind}) == len(kind)


def test_each_arrow_of_the_docstring_is_a_move_of_a_table() -> None:
    known = parsed(READER_MOVES) | parsed(WRITER_MOVES) | parsed(BODY_MOVES)
    arrow = re.compile(r"(?=\b([A-Z_]+) ──([A-Z_]+)──> ([A-Z_]+))")
    drawn = arrow.findall(str(connection_states.__doc__))
    assert len(drawn) > 10
    assert {(state, event): known[state, event] for state, event, _ in drawn} == {
        (state, event): target for state, event, target in drawn
    }
