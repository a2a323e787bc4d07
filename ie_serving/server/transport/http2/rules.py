"""The rules of frames: a table of their types, and the flood guard. Source: RFC 9113.

A frame is checked in the order of a row: is it on a stream or on the connection, as its type
demands; is its length permitted; does the flood guard permit it; and what verdict follows from the
state of its stream. A fault on an open stream ends that stream; all others end the connection
(section 5.4: a stream that is not open cannot be reset).

The flood guard limits the rate of frames that cost the server work and carry no data. It is a token
bucket. gRPC clients send a ping to measure the path for every reply that they read (Go's and Java's
do) and widen windows as they read, so each reply of the server permits frames.
"""

import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.stream_states import StreamState


class FrameScope(enum.Enum):
    """Whether a frame concerns a stream or the connection, which is stream 0."""

    STREAM = enum.auto()
    CONNECTION = enum.auto()
    EITHER = enum.auto()


class Verdict(enum.Enum):
    """Response to a frame in a state of its stream."""

    TAKE = enum.auto()
    """The frame is handled."""
    DROP = enum.auto()
    """The frame was in transit when the stream was closed: decoded, counted, and then ignored."""
    STREAM_CLOSED = enum.auto()
    """RST_STREAM with STREAM_CLOSED; section 5.1, half-closed (remote)."""
    CONNECTION_CLOSED = enum.auto()
    """GOAWAY with STREAM_CLOSED; section 5.1, closed."""
    CONNECTION_PROTOCOL = enum.auto()
    """GOAWAY with PROTOCOL_ERROR; section 5.1, idle, and section 5.1.1."""


class FrameRule(NamedTuple):
    """One frame type.

    Attributes:
        name: name in RFC 9113.
        section: section of RFC 9113.
        scope: where it is permitted; anywhere else is a PROTOCOL_ERROR.
        least, most, unit: its length in bytes lies between the first two and is a multiple of the
            third; else FRAME_SIZE_ERROR.
        weight: number of units that the flood guard counts for it.
        states: verdict by the state of its stream.
    """

    name: str
    section: str
    scope: FrameScope
    least: int
    most: int
    unit: int
    weight: int
    states: Mapping[StreamState, Verdict]


LARGEST_FRAME = 1 << 20
"""Bytes of the largest frame that we announce to accept: large messages need few frames, and frames
that are buffered need no more memory than this. A larger one is a FRAME_SIZE_ERROR."""

_S = StreamState
_V = Verdict
_ALWAYS = dict.fromkeys(StreamState, Verdict.TAKE)

_ON_DATA = {
    _S.IDLE: _V.CONNECTION_PROTOCOL,  # 5.1: only HEADERS and PRIORITY in the idle state
    _S.OPEN: _V.TAKE,
    _S.HALF_CLOSED_REMOTE: _V.STREAM_CLOSED,  # 6.1
    _S.HALF_CLOSED_LOCAL: _V.DROP,  # already answered
    _S.ENDED: _V.CONNECTION_CLOSED,
    _S.RESET: _V.DROP,
    _S.SKIPPED: _V.CONNECTION_CLOSED,
}
_ON_HEADERS = {
    **_ON_DATA,
    _S.IDLE: _V.TAKE,  # 6.2: opens the stream
    _S.SKIPPED: _V.CONNECTION_PROTOCOL,  # 5.1.1: numbers only grow
}
_ON_CONTROL = {  # 5.1: may be in transit when a stream is closed
    **dict.fromkeys(StreamState, _V.DROP),
    _S.IDLE: _V.CONNECTION_PROTOCOL,
    _S.OPEN: _V.TAKE,
    _S.HALF_CLOSED_REMOTE: _V.TAKE,
    _S.HALF_CLOSED_LOCAL: _V.TAKE,
}

_ANY = (0, LARGEST_FRAME, 1)

RULES: Mapping[int, FrameRule] = {
    frames.DATA: FrameRule("DATA", "6.1", FrameScope.STREAM, *_ANY, 0, _ON_DATA),
    frames.HEADERS: FrameRule("HEADERS", "6.2", FrameScope.STREAM, *_ANY, 0, _ON_HEADERS),
    frames.PRIORITY: FrameRule("PRIORITY", "6.3", FrameScope.STREAM, 5, 5, 1, 1, _ALWAYS),
    frames.RST_STREAM: FrameRule("RST_STREAM", "6.4", FrameScope.STREAM, 4, 4, 1, 1, _ON_CONTROL),
    frames.SETTINGS: FrameRule(
        "SETTINGS", "6.5", FrameScope.CONNECTION, 0, LARGEST_FRAME, 6, 1, {}
    ),
    frames.PUSH_PROMISE: FrameRule("PUSH_PROMISE", "6.6", FrameScope.STREAM, *_ANY, 0, _ALWAYS),
    frames.PING: FrameRule("PING", "6.7", FrameScope.CONNECTION, 8, 8, 1, 1, {}),
    frames.GOAWAY: FrameRule("GOAWAY", "6.8", FrameScope.CONNECTION, 8, LARGEST_FRAME, 1, 1, {}),
    frames.WINDOW_UPDATE: FrameRule(
        "WINDOW_UPDATE", "6.9", FrameScope.EITHER, 4, 4, 1, 1, _ON_CONTROL
    ),
    frames.CONTINUATION: FrameRule("CONTINUATION", "6.10", FrameScope.STREAM, *_ANY, 1, _ALWAYS),
}

EXTENSION = FrameRule("unknown", "5.5", FrameScope.EITHER, *_ANY, 1, _ALWAYS)
"""Frames of unknown types are ignored everywhere."""

_FAULTS = {
    Verdict.CONNECTION_PROTOCOL: frames.ErrorCode.PROTOCOL_ERROR,
    Verdict.CONNECTION_CLOSED: frames.ErrorCode.STREAM_CLOSED,
}
"""The verdicts that end the connection, with the error code of its GOAWAY."""


def judge(kind: int, number: int, state: StreamState) -> Verdict:
    """Return the verdict on a frame of stream `number`.

    Raises:
        ConnectionFault: the verdict is that the connection ends.
    """
    rule = RULES[kind]
    verdict = rule.states[state]
    if code := _FAULTS.get(verdict):
        text = f"{rule.name} on stream {number}, whose state is {state.name}"
        raise frames.ConnectionFault(code, text)
    return verdict


PER_S = 1000
"""Frames that one connection may send per second: keep-alives and cancelled calls need a tenth."""
BURST = 10_000
"""Frames that it may send at once; one more ends the connection with ENHANCE_YOUR_CALM. Together
they cost about 50 ms of processor time."""
EARNED = 3
"""Frames that one reply, or one DATA frame of a long one, permits: a ping, two WINDOW_UPDATE."""
SMALL_DATA = 32
"""Bytes of payload below which a DATA frame that does not end a request counts as carrying no data:
its head costs more than its payload. Clients that send a message's prefix of 5 bytes alone send one
for each call, which the reply permits."""


class FloodGuard:
    """Counts such frames of one connection.

    Args of the constructor:
        clock: monotonic, in seconds.
        sent: returns how many replies and DATA frames were sent so far.
    """

    __slots__ = ("_clock", "_left", "_sent", "_sent_before", "_since")

    def __init__(self, clock: Callable[[], float], sent: Callable[[], int]) -> None:
        self._clock = clock
        self._sent = sent
        self._left = float(BURST)
        self._since = clock()
        self._sent_before = 0

    def count(self, weight: int = 1) -> None:
        """Count a frame that costs as much work as `weight` simple ones.

        Raises:
            ConnectionFault: too many frames.
        """
        if self._left < weight:
            self._allow()
        self._left -= weight
        if self._left < 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def _allow(self) -> None:
        """Add the frames permitted by time and by answers since the bucket was last empty.

        Done only when it is empty, so that a reply costs nothing here.
        """
        now, sent = self._clock(), self._sent()
        earned = (now - self._since) * PER_S + (sent - self._sent_before) * EARNED
        self._left = min(BURST, self._left + earned)
        self._since, self._sent_before = now, sent
