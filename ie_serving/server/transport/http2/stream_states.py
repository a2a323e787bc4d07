"""State tables of an HTTP/2 connection, its reader, its writer and its streams. Source: RFC 9113.

Four small machines, each an enum and a table from state and event to the next state. An event that
a row does not name is illegal: it raises and changes nothing. Moves go through `after`; those that
each frame or each read makes look the table up in place. The states of a stream are those of
section 5.1. A server that never pushes needs no reserved states, but `closed` is three: the meaning
of a late frame depends on how the stream was closed.

    IDLE                 BEGIN          -> OPEN
    OPEN                 END_RECEIVED   -> HALF_CLOSED_REMOTE
    OPEN                 END_SENT       -> HALF_CLOSED_LOCAL
    OPEN                 RESET_RECEIVED -> ENDED
    OPEN                 RESET_SENT     -> RESET
    HALF_CLOSED_REMOTE   END_SENT       -> ENDED
    HALF_CLOSED_REMOTE   RESET_RECEIVED -> ENDED
    HALF_CLOSED_REMOTE   RESET_SENT     -> ENDED
    HALF_CLOSED_LOCAL    END_RECEIVED   -> ENDED
    HALF_CLOSED_LOCAL    RESET_RECEIVED -> ENDED
    HALF_CLOSED_LOCAL    RESET_SENT     -> RESET
    RESET                END_RECEIVED   -> ENDED
    RESET                RESET_RECEIVED -> ENDED
"""

import enum
from collections.abc import Mapping


class ConnectionState(enum.IntEnum):
    """A connection, from accepted to closed; sections 3.4, 5.4.1 and 6.8."""

    PREFACE = enum.auto()
    """The client has not sent its preface; section 3.4."""
    OPEN = enum.auto()
    """Streams may be opened."""
    DRAINING = enum.auto()
    """GOAWAY that names the highest stream, and PING, are sent. The client may not know yet, so it
    may still open streams: the graceful shutdown of section 6.8."""
    CLOSING = enum.auto()
    """GOAWAY that names the last stream is sent; further streams are refused."""
    CLOSED = enum.auto()
    """All frames are written; the socket has to be closed."""
    FAILED = enum.auto()
    """GOAWAY with an error code is sent; section 5.4.1. Further data is dropped."""


class ConnectionEvent(enum.IntEnum):
    """Events of a connection's `ConnectionState`."""

    PREFACE_READ = enum.auto()
    """The client's preface was read."""
    DRAIN = enum.auto()
    """The server stops."""
    GOAWAY_KNOWN = enum.auto()
    """The client knows that the server stops, or has had its time to answer."""
    DONE = enum.auto()
    """The last stream has ended, or was ended."""
    FAULT = enum.auto()
    """The client broke the protocol."""
    LOST = enum.auto()
    """The socket is closed."""


_ENDS = {
    ConnectionEvent.FAULT: ConnectionState.FAILED,
    ConnectionEvent.LOST: ConnectionState.CLOSED,
}

LIFE: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    ConnectionState.PREFACE: {
        ConnectionEvent.PREFACE_READ: ConnectionState.OPEN,
        ConnectionEvent.DRAIN: ConnectionState.CLOSED,
        ConnectionEvent.DONE: ConnectionState.CLOSED,
        **_ENDS,
    },
    ConnectionState.OPEN: {
        ConnectionEvent.DRAIN: ConnectionState.DRAINING,
        ConnectionEvent.DONE: ConnectionState.CLOSED,
        **_ENDS,
    },
    ConnectionState.DRAINING: {
        ConnectionEvent.DRAIN: ConnectionState.DRAINING,
        ConnectionEvent.GOAWAY_KNOWN: ConnectionState.CLOSING,
        ConnectionEvent.DONE: ConnectionState.CLOSED,
        **_ENDS,
    },
    ConnectionState.CLOSING: {
        ConnectionEvent.DRAIN: ConnectionState.CLOSING,
        ConnectionEvent.GOAWAY_KNOWN: ConnectionState.CLOSING,  # by the PING and by the clock
        ConnectionEvent.DONE: ConnectionState.CLOSED,
        **_ENDS,
    },
    # Late events of the server or a stream do not change a connection that has ended.
    ConnectionState.CLOSED: {
        ConnectionEvent.DRAIN: ConnectionState.CLOSED,
        ConnectionEvent.DONE: ConnectionState.CLOSED,
        ConnectionEvent.LOST: ConnectionState.CLOSED,
    },
    ConnectionState.FAILED: {
        ConnectionEvent.DRAIN: ConnectionState.FAILED,
        ConnectionEvent.DONE: ConnectionState.FAILED,
        ConnectionEvent.LOST: ConnectionState.CLOSED,
    },
}


class ExpectedData(enum.IntEnum):
    """Data that the reader expects next."""

    PREFACE = enum.auto()
    """24 bytes; section 3.4."""
    SETTINGS = enum.auto()
    """The frame that ends the client's preface; section 3.4."""
    FRAME = enum.auto()
    """A frame of any type."""
    PAYLOAD = enum.auto()
    """The rest of a DATA frame, which is passed on as it arrives; section 6.1."""
    CONTINUATION = enum.auto()
    """More of a header block, and nothing else on any stream; section 6.10."""
    NOTHING = enum.auto()
    """The connection is over: bytes are dropped; section 5.4.1."""


class FrameEvent(enum.IntEnum):
    """Events of the reader."""

    PREFACE = enum.auto()  # all bytes of the preface
    SETTINGS = enum.auto()  # the head of the first frame, which is SETTINGS
    PART_OF_DATA = enum.auto()  # the head of a DATA frame whose end has not arrived
    END_OF_DATA = enum.auto()  # its last byte
    PART_OF_HEADERS = enum.auto()  # HEADERS without END_HEADERS
    END_OF_HEADERS = enum.auto()  # CONTINUATION with END_HEADERS
    OVER = enum.auto()  # the connection has ended, or failed


READER: Mapping[ExpectedData, Mapping[FrameEvent, ExpectedData]] = {
    ExpectedData.PREFACE: {
        FrameEvent.PREFACE: ExpectedData.SETTINGS,
        FrameEvent.OVER: ExpectedData.NOTHING,
    },
    ExpectedData.SETTINGS: {
        FrameEvent.SETTINGS: ExpectedData.FRAME,
        FrameEvent.OVER: ExpectedData.NOTHING,
    },
    ExpectedData.FRAME: {
        FrameEvent.PART_OF_DATA: ExpectedData.PAYLOAD,
        FrameEvent.PART_OF_HEADERS: ExpectedData.CONTINUATION,
        FrameEvent.OVER: ExpectedData.NOTHING,
    },
    ExpectedData.PAYLOAD: {
        FrameEvent.END_OF_DATA: ExpectedData.FRAME,
        FrameEvent.OVER: ExpectedData.NOTHING,
    },
    ExpectedData.CONTINUATION: {
        FrameEvent.END_OF_HEADERS: ExpectedData.FRAME,
        FrameEvent.OVER: ExpectedData.NOTHING,
    },
    ExpectedData.NOTHING: {FrameEvent.OVER: ExpectedData.NOTHING},
}


class SendState(enum.IntEnum):
    """State of the writer, which decides when data is sent."""

    THIS_TURN = enum.auto()
    """Answers are written at the end of the turn of the event loop in which they are made."""
    GATHERING = enum.auto()
    """Bytes are being read: their replies are written together afterwards."""
    PAUSED = enum.auto()
    """The client does not read; data to be sent waits."""
    OVER = enum.auto()
    """The socket is closed; data to be sent is dropped."""


class SendEvent(enum.IntEnum):
    """Events of the writer."""

    READING = enum.auto()  # bytes have arrived, and their frames are handled one by one
    READ = enum.auto()  # all of them are handled, or the turn is over
    PAUSE = enum.auto()  # more data waits for the client than the socket's buffer should hold
    RESUME = enum.auto()  # the client has read most of it
    LOST = enum.auto()  # the socket is closed


WRITER: Mapping[SendState, Mapping[SendEvent, SendState]] = {
    SendState.THIS_TURN: {
        SendEvent.READING: SendState.GATHERING,
        SendEvent.READ: SendState.THIS_TURN,
        SendEvent.PAUSE: SendState.PAUSED,
        SendEvent.RESUME: SendState.THIS_TURN,
        SendEvent.LOST: SendState.OVER,
    },
    SendState.GATHERING: {
        SendEvent.READING: SendState.GATHERING,
        SendEvent.READ: SendState.THIS_TURN,
        SendEvent.PAUSE: SendState.PAUSED,
        SendEvent.RESUME: SendState.GATHERING,
        SendEvent.LOST: SendState.OVER,
    },
    SendState.PAUSED: {
        SendEvent.READING: SendState.PAUSED,
        SendEvent.READ: SendState.PAUSED,
        SendEvent.PAUSE: SendState.PAUSED,
        SendEvent.RESUME: SendState.THIS_TURN,
        SendEvent.LOST: SendState.OVER,
    },
    # Calls end after their connection, and what they send then is dropped.
    SendState.OVER: dict.fromkeys(SendEvent, SendState.OVER),
}


class StreamState(enum.IntEnum):
    """State of a stream; section 5.1."""

    IDLE = enum.auto()
    """Its number is higher than all used ones, or even."""
    OPEN = enum.auto()
    """The request is incomplete; the reply may have begun."""
    HALF_CLOSED_REMOTE = enum.auto()
    """The client has sent END_STREAM: the request is complete."""
    HALF_CLOSED_LOCAL = enum.auto()
    """The answer is complete, the request is not. Lasts until the end of a turn: then RST_STREAM
    with NO_ERROR asks the client to stop sending; section 8.1."""
    ENDED = enum.auto()
    """Closed, also by END_STREAM or RST_STREAM of the client, so it sends no more."""
    RESET = enum.auto()
    """Closed by our RST_STREAM while the client was sending: frames in transit are dropped."""
    SKIPPED = enum.auto()
    """Closed without use: a higher number was used before; section 5.1.1."""


class StreamEvent(enum.IntEnum):
    """Events of a stream."""

    BEGIN = enum.auto()  # HEADERS with a new number
    END_RECEIVED = enum.auto()  # a frame with END_STREAM: the request is complete
    END_SENT = enum.auto()  # our frame with END_STREAM: the reply is complete
    RESET_RECEIVED = enum.auto()  # RST_STREAM: the client wants no reply
    RESET_SENT = enum.auto()  # our RST_STREAM: the request is refused, or its rest not wanted


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
        StreamEvent.RESET_SENT: StreamState.ENDED,  # nothing of the request is in transit
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
