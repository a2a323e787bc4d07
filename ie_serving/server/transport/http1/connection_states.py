"""State tables of an HTTP/1.1 connection: its two halves, and a large body.

An HTTP/1.1 connection carries requests one after the other in one direction, and replies in the
same order in the other (RFC 9112 section 9.3). The halves advance almost independently: a client
may send its next requests before it has its first reply ("pipelining", section 9.3.2), and a
server may reply before the request's body is complete, and must then read the rest or close
(section 9.3). So each half has a state of its own:

    Reader          state of the client's data
    Writer          state of our replies

    IDLE ──HEAD_BEGINS──> HEAD ──SMALL──> GATHERING ──END──> IDLE, or by LAST_END to CLOSED
                            └───LARGE──> STREAMING ──END──> IDLE, or by LAST_END to CLOSED

    OPEN ──REPLY──> OPEN        OPEN ──LAST_REPLY──> LAST ──CLOSE──> CLOSED
    OPEN ──FILLED──> FULL ──EMPTIED──> OPEN; FULL may send the same messages as OPEN
    OPEN ──INPUT_CLOSED──> ENDING ──REPLY──> ENDING, and by LAST_REPLY to LAST
    OPEN ──SWITCH──> SWITCHED ──CLOSE──> CLOSED

A small body is gathered, so that the application gets it together with the head and never waits for
it. A large body, or one of unknown length that turns out to be large, is passed on in pieces as it
arrives, and has states of its own:

    Body            state of its missing part

    HELD_BACK ──ASKED_FOR──> COMING ──END──> WHOLE, or by BREAK to BROKEN

Any fault in the client's data closes the reader at once (`FAULT`), since it is not known where the
next request would begin (section 11.2, request smuggling). The writer stays open: the requests
before the fault still get their replies, and then the fault its own.

The tables hold all permitted moves. Any other move raises an error, and changes nothing.
"""

import enum
from collections.abc import Mapping
from typing import Final


class Reader(enum.Enum):
    """State of the client's data."""

    IDLE = "between two requests"
    HEAD = "in a request line or header; section 3 and 5"
    GATHERING = "in a body that is kept until it is whole; section 6"
    STREAMING = "in a body that is passed on in pieces; section 6"
    CLOSED = "no further request is read; what still comes is dropped; section 9.6"


class ReaderEvent(enum.Enum):
    """Events of the reader."""

    HEAD_BEGINS = "the first byte of a request line"
    SMALL = "a head has ended; its body, if any, is small or of unknown length"
    LARGE = "a head has ended; its body is large, or its client waits to be told to send it"
    GROWN = "a body of unknown length has become large"
    END = "a request has ended, another may follow"
    LAST_END = "a request has ended, and its client or its version lets none follow; section 9.3"
    FAULT = "the bytes are no request that this server takes; section 2.2"
    CLOSE = "the connection has ended"


class Writer(enum.Enum):
    """State of our replies."""

    OPEN = "replies, in the order of the requests"
    FULL = "the reply to what has begun; no more is begun before the client has read"
    ENDING = "replies to what has come whole: the client has closed its sending side behind it"
    SWITCHED = "whatever the other protocol says: HTTP has ended; RFC 9110 section 7.8"
    LAST = "nothing: the last reply is sent, the rest of its request is read and thrown away"
    CLOSED = "nothing: the connection has ended, or will when all that is written is sent"


class WriterEvent(enum.Enum):
    """Events of the writer."""

    CONTINUE = "an interim reply 100; RFC 9110 section 10.1.1"
    REPLY = "a reply, after which the connection goes on"
    LAST_REPLY = "a reply that says `connection: close`; section 9.6"
    REFUSAL = "the reply to a fault, which always is the last"
    SWITCH = "the reply 101; RFC 9110 section 15.2.2"
    FILLED = "more waits for the client than the socket is to hold"
    EMPTIED = "the client has read most of it"
    INPUT_CLOSED = "the client has closed its sending side right behind a request; section 9.6"
    CLOSE = "the connection has ended"


class Body(enum.Enum):
    """State of a body that is passed on in pieces."""

    HELD_BACK = "all of it, once its client is told to send it; RFC 9110 section 10.1.1"
    COMING = "pieces"
    WHOLE = "nothing: it has come to its end"
    BROKEN = "nothing: its client has left, or what it sends is wrong"


class BodyEvent(enum.Enum):
    """Events of a body."""

    ASKED_FOR = "the application reads, so its client was told to send it"
    END = "its last piece has come"
    BREAK = "its client has left, or sent what is no body"


READER: Final[Mapping[Reader, Mapping[ReaderEvent, Reader]]] = {
    Reader.IDLE: {
        ReaderEvent.HEAD_BEGINS: Reader.HEAD,
        ReaderEvent.FAULT: Reader.CLOSED,
        ReaderEvent.CLOSE: Reader.CLOSED,
    },
    Reader.HEAD: {
        ReaderEvent.HEAD_BEGINS: Reader.HEAD,  # again, without the offered upgrade; section 7.8
        ReaderEvent.SMALL: Reader.GATHERING,
        ReaderEvent.LARGE: Reader.STREAMING,
        ReaderEvent.FAULT: Reader.CLOSED,
        ReaderEvent.CLOSE: Reader.CLOSED,
    },
    Reader.GATHERING: {
        ReaderEvent.GROWN: Reader.STREAMING,
        ReaderEvent.END: Reader.IDLE,
        ReaderEvent.LAST_END: Reader.CLOSED,
        ReaderEvent.FAULT: Reader.CLOSED,
        ReaderEvent.CLOSE: Reader.CLOSED,
    },
    Reader.STREAMING: {
        ReaderEvent.END: Reader.IDLE,
        ReaderEvent.LAST_END: Reader.CLOSED,
        ReaderEvent.FAULT: Reader.CLOSED,
        ReaderEvent.CLOSE: Reader.CLOSED,
    },
    Reader.CLOSED: {ReaderEvent.CLOSE: Reader.CLOSED},
}

WRITER: Final[Mapping[Writer, Mapping[WriterEvent, Writer]]] = {
    Writer.OPEN: {
        WriterEvent.CONTINUE: Writer.OPEN,
        WriterEvent.REPLY: Writer.OPEN,
        WriterEvent.LAST_REPLY: Writer.LAST,
        WriterEvent.REFUSAL: Writer.CLOSED,
        WriterEvent.SWITCH: Writer.SWITCHED,
        WriterEvent.FILLED: Writer.FULL,
        WriterEvent.EMPTIED: Writer.OPEN,
        WriterEvent.INPUT_CLOSED: Writer.ENDING,
        WriterEvent.CLOSE: Writer.CLOSED,
    },
    Writer.ENDING: {
        WriterEvent.REPLY: Writer.ENDING,
        WriterEvent.LAST_REPLY: Writer.LAST,
        WriterEvent.REFUSAL: Writer.CLOSED,
        WriterEvent.SWITCH: Writer.LAST,  # its client has ended already
        WriterEvent.FILLED: Writer.ENDING,  # no further request can come
        WriterEvent.EMPTIED: Writer.ENDING,
        WriterEvent.CLOSE: Writer.CLOSED,
    },
    Writer.FULL: {
        WriterEvent.CONTINUE: Writer.FULL,
        WriterEvent.REPLY: Writer.FULL,
        WriterEvent.LAST_REPLY: Writer.LAST,
        WriterEvent.REFUSAL: Writer.CLOSED,
        WriterEvent.SWITCH: Writer.SWITCHED,
        WriterEvent.FILLED: Writer.FULL,
        WriterEvent.EMPTIED: Writer.OPEN,
        WriterEvent.CLOSE: Writer.CLOSED,
    },
    Writer.SWITCHED: {WriterEvent.CLOSE: Writer.CLOSED},
    Writer.LAST: {
        WriterEvent.FILLED: Writer.LAST,  # closing waits for the socket anyway
        WriterEvent.EMPTIED: Writer.LAST,
        WriterEvent.CLOSE: Writer.CLOSED,
    },
    Writer.CLOSED: dict.fromkeys(
        (WriterEvent.FILLED, WriterEvent.EMPTIED, WriterEvent.CLOSE), Writer.CLOSED
    ),
}

BODY: Final[Mapping[Body, Mapping[BodyEvent, Body]]] = {
    Body.HELD_BACK: {
        BodyEvent.ASKED_FOR: Body.COMING,
        BodyEvent.END: Body.WHOLE,  # it was sent without leave, as section 10.1.1 allows
        BodyEvent.BREAK: Body.BROKEN,
    },
    Body.COMING: {
        BodyEvent.END: Body.WHOLE,
        BodyEvent.BREAK: Body.BROKEN,
    },
    Body.WHOLE: {},
    Body.BROKEN: {},
}

IDLE: Final = Reader.IDLE
HEAD: Final = Reader.HEAD
OPEN: Final = Writer.OPEN
ENDING: Final = Writer.ENDING
SENDING: Final = (Writer.OPEN, Writer.FULL, Writer.ENDING)
"""States in a tuple, for a check at every request: looking up an enum member costs as much as a
call."""
