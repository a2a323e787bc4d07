"""Every event in every state: what follows, and what is illegal."""

import enum

import pytest

from ie_serving.server.transport.http2 import stream_states
from ie_serving.server.transport.http2.stream_states import (
    LIFE,
    READER,
    STREAM,
    WRITER,
    ConnectionEvent,
    ConnectionState,
    ExpectedData,
    FrameEvent,
    SendEvent,
    SendState,
    StreamEvent,
    StreamState,
)
from tests.state_drawings import moves
from tests.unit.moves import Table, check_moves

# A line for each state, a column for each event; a dot where the event is refused.
# RFC 9113 section 5.1, figure 2, without reserved states.
STREAM_MOVES = """
                    BEGIN  END_RECEIVED        END_SENT           RESET_RECEIVED  RESET_SENT
IDLE                OPEN   .                   .                  .               .
OPEN                .      HALF_CLOSED_REMOTE  HALF_CLOSED_LOCAL  ENDED           RESET
HALF_CLOSED_REMOTE  .      .                   ENDED              ENDED           ENDED
HALF_CLOSED_LOCAL   .      ENDED               .                  ENDED           RESET
ENDED               .      .                   .                  .               .
RESET               .      ENDED               .                  ENDED           .
SKIPPED             .      .                   .                  .               .
"""
# A connection may be lost or told to end in every state.
LIFE_MOVES = """
          PREFACE_READ  DRAIN     GOAWAY_KNOWN  DONE    FAULT   LOST
PREFACE   OPEN          CLOSED    .             CLOSED  FAILED  CLOSED
OPEN      .             DRAINING  .             CLOSED  FAILED  CLOSED
DRAINING  .             DRAINING  CLOSING       CLOSED  FAILED  CLOSED
CLOSING   .             CLOSING   CLOSING       CLOSED  FAILED  CLOSED
CLOSED    .             CLOSED    .             CLOSED  .       CLOSED
FAILED    .             FAILED    .             FAILED  .       CLOSED
"""
READER_MOVES = """
              PREFACE   SETTINGS  PART_OF_DATA  END_OF_DATA  PART_OF_HEADERS  END_OF_HEADERS OVER
PREFACE       SETTINGS  .         .             .            .                .              NOTHING
SETTINGS      .         FRAME     .             .            .                .              NOTHING
FRAME         .         .         PAYLOAD       .            CONTINUATION     .              NOTHING
PAYLOAD       .         .         .             FRAME        .                .              NOTHING
CONTINUATION  .         .         .             .            .                FRAME          NOTHING
NOTHING       .         .         .             .            .                .              NOTHING
"""
# A writer takes every event in every state: the socket's callbacks come whenever they come.
WRITER_MOVES = """
           READING    READ       PAUSE   RESUME     LOST
THIS_TURN  GATHERING  THIS_TURN  PAUSED  THIS_TURN  OVER
GATHERING  GATHERING  THIS_TURN  PAUSED  GATHERING  OVER
PAUSED     PAUSED     PAUSED     PAUSED  THIS_TURN  OVER
OVER       OVER       OVER       OVER    OVER       OVER
"""


@pytest.mark.parametrize(
    ("table", "states", "events", "moves"),
    [
        pytest.param(STREAM, StreamState, StreamEvent, STREAM_MOVES, id="stream"),
        pytest.param(LIFE, ConnectionState, ConnectionEvent, LIFE_MOVES, id="connection"),
        pytest.param(READER, ExpectedData, FrameEvent, READER_MOVES, id="reader"),
        pytest.param(WRITER, SendState, SendEvent, WRITER_MOVES, id="writer"),
    ],
)
def test_every_event_in_every_state_leads_as_written_here(
    table: Table, states: type[enum.Enum], events: type[enum.Enum], moves: str
) -> None:
    check_moves(table, states, events, moves)


def test_the_docstring_draws_the_table_of_streams() -> None:
    assert moves(STREAM) in str(stream_states.__doc__)
