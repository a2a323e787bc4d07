"""What states a connection, its reader, its writer and its streams have. Source: RFC 9113.

Four small machines, each an enum and a table from state and event to the next state. An event that
a row does not name is illegal: looking it up raises KeyError and changes nothing. The states of a
stream are those of section 5.1. A server that never pushes needs no reserved states, but `closed`
is three: what a late frame means depends on how the stream was closed.

                     begin
              idle ────────> open ──────end sent──────> half-closed (local)
                              │ │                          │        │
                 end received │ └─────reset sent─────┐     │ end    │ reset sent
                              v                      v     │received v
              half-closed (remote)                 reset <─┼────────┘
                              │                            v
                              └─end sent, any reset────> ended
"""

import enum
from collections.abc import Mapping


class Life(enum.IntEnum):
    """A connection, from accepted to closed; sections 3.4, 5.4.1 and 6.8."""

    PREFACE = enum.auto()
    """The client has not said that it speaks HTTP/2; section 3.4."""
    OPEN = enum.auto()
    """Streams may be opened."""
    DRAINING = enum.auto()
    """GOAWAY that names the highest stream, and PING, are sent. The client may not know yet, so
    streams may still be opened: a graceful shutdown as section 6.8 describes it."""
    CLOSING = enum.auto()
    """GOAWAY that names the last stream is sent; further streams are refused."""
    CLOSED = enum.auto()
    """Everything is said; the socket is to be closed."""
    FAILED = enum.auto()
    """The reason is said, by GOAWAY with an error code; section 5.4.1. What comes is dropped."""


class LifeEvent(enum.IntEnum):
    """What moves a connection from one `Life` to the next."""

    PREFACE_READ = enum.auto()
    """The client's preface was read."""
    DRAIN = enum.auto()
    """The server stops."""
    GOAWAY_KNOWN = enum.auto()
    """The client knows that the server stops, or had its time to know."""
    DONE = enum.auto()
    """The last stream has ended, or was ended."""
    FAULT = enum.auto()
    """The client broke the protocol."""
    LOST = enum.auto()
    """The socket is closed."""


_ENDS = {LifeEvent.FAULT: Life.FAILED, LifeEvent.LOST: Life.CLOSED}

LIFE: Mapping[Life, Mapping[LifeEvent, Life]] = {
    Life.PREFACE: {
        LifeEvent.PREFACE_READ: Life.OPEN,
        LifeEvent.DRAIN: Life.CLOSED,
        LifeEvent.DONE: Life.CLOSED,
        **_ENDS,
    },
    Life.OPEN: {LifeEvent.DRAIN: Life.DRAINING, LifeEvent.DONE: Life.CLOSED, **_ENDS},
    Life.DRAINING: {
        LifeEvent.DRAIN: Life.DRAINING,
        LifeEvent.GOAWAY_KNOWN: Life.CLOSING,
        LifeEvent.DONE: Life.CLOSED,
        **_ENDS,
    },
    Life.CLOSING: {
        LifeEvent.DRAIN: Life.CLOSING,
        LifeEvent.GOAWAY_KNOWN: Life.CLOSING,  # by the PING and by the clock
        LifeEvent.DONE: Life.CLOSED,
        **_ENDS,
    },
    # What the server or a stream still says of a connection that has ended changes nothing.
    Life.CLOSED: {
        LifeEvent.DRAIN: Life.CLOSED,
        LifeEvent.DONE: Life.CLOSED,
        LifeEvent.LOST: Life.CLOSED,
    },
    Life.FAILED: {
        LifeEvent.DRAIN: Life.FAILED,
        LifeEvent.DONE: Life.FAILED,
        LifeEvent.LOST: Life.CLOSED,
    },
}


class Expect(enum.IntEnum):
    """What the reader expects next."""

    PREFACE = enum.auto()
    """24 bytes; section 3.4."""
    SETTINGS = enum.auto()
    """The frame that ends the client's preface; section 3.4."""
    FRAME = enum.auto()
    """A frame of any type."""
    PAYLOAD = enum.auto()
    """The rest of a DATA frame, which is passed on as it comes; section 6.1."""
    CONTINUATION = enum.auto()
    """More of a header block, and nothing else on any stream; section 6.10."""
    NOTHING = enum.auto()
    """The connection is over: bytes are dropped; section 5.4.1."""


class Writing(enum.IntEnum):
    """What the writer does with what is to be sent."""

    THIS_TURN = enum.auto()
    """Answers are written at the end of the turn of the event loop that brings them."""
    GATHERING = enum.auto()
    """Bytes are being read: what answers them is written together afterwards."""
    PAUSED = enum.auto()
    """The client does not read; what is to be sent waits."""
    OVER = enum.auto()
    """The socket is gone; what is to be sent is dropped."""


class Flow(enum.IntEnum):
    """What moves the writer from one state to the next."""

    READING = enum.auto()  # bytes have come, and their frames are handled one by one
    READ = enum.auto()  # all of them are handled, or the turn is over
    PAUSE = enum.auto()  # more waits for the client than the socket is to hold
    RESUME = enum.auto()  # the client has read most of it
    LOST = enum.auto()  # the socket is closed


WRITER: Mapping[Writing, Mapping[Flow, Writing]] = {
    Writing.THIS_TURN: {
        Flow.READING: Writing.GATHERING,
        Flow.READ: Writing.THIS_TURN,
        Flow.PAUSE: Writing.PAUSED,
        Flow.RESUME: Writing.THIS_TURN,
        Flow.LOST: Writing.OVER,
    },
    Writing.GATHERING: {
        Flow.READING: Writing.GATHERING,
        Flow.READ: Writing.THIS_TURN,
        Flow.PAUSE: Writing.PAUSED,
        Flow.RESUME: Writing.GATHERING,
        Flow.LOST: Writing.OVER,
    },
    Writing.PAUSED: {
        Flow.READING: Writing.PAUSED,
        Flow.READ: Writing.PAUSED,
        Flow.PAUSE: Writing.PAUSED,
        Flow.RESUME: Writing.THIS_TURN,
        Flow.LOST: Writing.OVER,
    },
    # Calls end after their connection, and nobody reads what they still say.
    Writing.OVER: dict.fromkeys(Flow, Writing.OVER),
}


class StreamState(enum.IntEnum):
    """A stream; section 5.1."""

    IDLE = enum.auto()
    """Its number is above every number that was used, or even."""
    OPEN = enum.auto()
    """The request comes; the answer may have begun."""
    HALF_CLOSED_REMOTE = enum.auto()
    """The client has sent END_STREAM: the request is whole."""
    HALF_CLOSED_LOCAL = enum.auto()
    """The answer is whole, the request is not. Lasts until the end of a turn: then the client is
    told by RST_STREAM with NO_ERROR to send no more; section 8.1."""
    ENDED = enum.auto()
    """Closed, and the client has said so itself by END_STREAM or RST_STREAM: it sends no more."""
    RESET = enum.auto()
    """Closed by our RST_STREAM while the client was sending: what was under way is dropped."""
    SKIPPED = enum.auto()
    """Closed without having been used: a higher number was used before; section 5.1.1."""


class StreamEvent(enum.IntEnum):
    """What moves a stream from one state to the next."""

    BEGIN = enum.auto()  # HEADERS with a new number
    END_RECEIVED = enum.auto()  # a frame with END_STREAM: the request is whole
    END_SENT = enum.auto()  # the same of ours: the answer is whole
    RESET_RECEIVED = enum.auto()  # RST_STREAM: the client wants no answer
    RESET_SENT = enum.auto()  # the same of ours: the request is refused, or wanted no further


STREAM: Mapping[StreamState, Mapping[StreamEvent, StreamState]] = {
    StreamState.IDLE: {StreamEvent.BEGIN: StreamState.OPEN},
    StreamState.OPEN: {
        StreamEvent.END_RECEIVED: StreamState.HALF_CLOSED_REMOTE,
        StreamEvent.END_SENT: StreamState.HALF_CLOSED_LOCAL,
        StreamEvent.RESET_RECEIVED: StreamState.ENDED,
        StreamEvent.RESET_SENT: StreamState.RESET,
    },
    StreamState.HALF_CLOSED_REMOTE: {
        StreamEvent.END_SENT: StreamState.ENDED,
        StreamEvent.RESET_RECEIVED: StreamState.ENDED,
        StreamEvent.RESET_SENT: StreamState.ENDED,  # nothing of the request is under way
    },
    StreamState.HALF_CLOSED_LOCAL: {
        StreamEvent.END_RECEIVED: StreamState.ENDED,
        StreamEvent.RESET_RECEIVED: StreamState.ENDED,
        StreamEvent.RESET_SENT: StreamState.RESET,
    },
    StreamState.ENDED: {},
    StreamState.RESET: {
        StreamEvent.END_RECEIVED: StreamState.ENDED,
        StreamEvent.RESET_RECEIVED: StreamState.ENDED,
    },
    StreamState.SKIPPED: {},
}
