"""The streams of one connection and their receive windows; RFC 9113 sections 5.1, 5.2 and 6.9.

Once half of a window is used, the received bytes are given back to the client, whether or not a
service has read them: the message size limits what a call may hold, not the window. Nothing is
given back while the client does not read our frames, so that such a client cannot send without end.
A ping goes out with the first window of a stream that the connection gives back; the client's
answer shows that it reads. A client that keeps to its windows answers before the third window.
"""

from collections import deque
from typing import TypeAlias

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.states import after
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.rules import LARGEST_FRAME
from ie_serving.server.transport.http2.stream_states import STREAM, StreamEvent, StreamState

STREAM_WINDOW = 4 << 20
"""Bytes of one request that a client may send ahead of our WINDOW_UPDATE; more resets the stream
with FLOW_CONTROL_ERROR. At 100 ms of round trip it permits 40 MB/s."""
CONNECTION_WINDOW = 16 << 20
"""Receive window of all requests of a connection together; more ends the connection."""

TRUSTED = 2
"""Renewals of a stream's window before the client has answered the ping: up to 10 MB."""

assert LARGEST_FRAME <= STREAM_WINDOW // 2  # the first frame of a request fits, so is not counted


Payload: TypeAlias = bytes | memoryview
MOST_STREAMS = 1000
"""Streams of one connection that may be open at a time; we announce it, so clients delay further
ones, and one more is refused with REFUSED_STREAM."""
FREE_STREAMS = 20
"""Streams of these that the budget does not count."""
STEP = 70
"""Step in which further streams are counted."""
STREAM_BYTES = 2048
"""Bytes of a stream without its data, until it is answered; measured were 1,850."""
MOST_RESET = 2 * MOST_STREAMS
"""Streams that we have reset which each connection remembers. A further one replaces the oldest:
late frames on that one then end the connection. At most `MOST_STREAMS` are open at a time, and a
client receives a reset before it has opened as many again."""
MOST_GAPS = 100
"""Gaps between stream numbers that are remembered. Beyond it, HEADERS in the oldest gap end the
connection with STREAM_CLOSED instead of PROTOCOL_ERROR."""


class ReceiveWindow:
    """Bytes that the client may still send, on one stream or on the connection.

    Attributes:
        left: number of these bytes; negative if the client has sent more than permitted.
        half: the window is renewed when `left` is below.
        renewals: number of renewals.
    """

    __slots__ = ("_number", "_size", "half", "left", "renewals")

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self._size = size
        self.left = size
        self.half = size // 2
        self.renewals = 0

    def renew(self) -> bytes:
        """Give back the used bytes; return the WINDOW_UPDATE frame for that."""
        used = self._size - self.left
        self.left = self._size
        self.renewals += 1
        return frames.window_update(self._number, used)


class Http2Stream:
    """One stream; a subclass handles its events for the code that serves it.

    The connection sets the attributes when it accepts the stream, and calls the methods.

    Attributes:
        number: identifier of the stream.
        state: state of the stream.
        send_window: bytes that the client accepts on it; negative after SETTINGS that shrink it.
        receive_window: receive window of a request that is longer than one frame, else None.
        content_left: bytes of DATA still missing from `content-length`; None without.
        unsent: data that waits for the client's windows.
        trailers: the frame that ends the reply once all data is sent; None while it goes on.
    """

    __slots__ = (
        "content_left",
        "number",
        "receive_window",
        "send_window",
        "state",
        "trailers",
        "unsent",
    )
    number: int
    state: StreamState
    send_window: int
    receive_window: ReceiveWindow | None
    content_left: int | None
    unsent: "deque[Payload]"
    trailers: bytes | None

    def begun(self) -> None:
        """The stream is open; its reply may begin before its request is complete."""

    def receive(self, data: Payload, start: int, stop: int, *, ends: bool) -> None:
        """data[start:stop] has arrived, the last of the request if `ends`; it is not kept."""

    def room(self, most: int) -> memoryview | None:
        """Give the memory that the next `most` bytes are copied to, if `receive` copies them."""

    def input_ended(self) -> None:
        """The request has ended without further data: by its headers or by trailers."""

    def all_sent(self) -> None:
        """No data of the reply waits any longer."""

    def finished(self) -> None:
        """The end of the reply is sent."""

    def cancelled(self) -> None:
        """The stream was reset by either side, or the client is gone."""

    def stop(self) -> None:
        """The server stops: answer now, with a failure."""


class StreamTable:
    """The streams of a connection: the open ones, and how the others were closed.

    Attributes:
        open: streams by number, from their first HEADERS until both sides have ended them.
        last: highest number that the client has used.
        room: number that may be open before `grow` has to be called.
    """

    __slots__ = ("_lease", "_reset", "_skipped", "last", "open", "room")

    def __init__(self) -> None:
        self.open: dict[int, Http2Stream] = {}
        self.last = -1
        self.room = FREE_STREAMS
        self._lease = Lease(BUDGET)
        self._reset: dict[int, None] = {}
        self._skipped: deque[range] = deque(maxlen=MOST_GAPS)

    def state_of(self, number: int) -> StreamState:
        """Return the state of any stream, by its number."""
        stream = self.open.get(number)
        if stream is not None:
            return stream.state
        # Even numbers are for the server's streams, and we open none.
        if number > self.last or not number & 1:
            return StreamState.IDLE
        if number in self._reset:
            return StreamState.RESET
        # Checked last, since gaps are rare: any other number was used and has ended.
        if any(number in gap for gap in self._skipped):
            return StreamState.SKIPPED
        return StreamState.ENDED

    def grow(self) -> bool:
        """Make room for more streams; False if the limit is reached, or the budget is spent."""
        if self.room >= MOST_STREAMS:
            return False
        try:
            self._lease.take(STEP * STREAM_BYTES)
        except ServingError:
            return False
        self.room += STEP
        return True

    def settle(self) -> None:
        """Return unused room to the budget."""
        while self.room - STEP >= max(FREE_STREAMS, len(self.open)):
            self.room -= STEP
            self._lease.give(STEP * STREAM_BYTES)

    def skip(self, number: int) -> None:
        """Close the numbers between the last used one and `number`; section 5.1.1."""
        self._skipped.append(range(self.last + 2, number, 2))

    def remember_reset(self, number: int) -> None:
        """Remember a stream that we have reset, since frames of it may be in transit."""
        # Dicts keep insertion order, so the first is the oldest.
        if len(self._reset) >= MOST_RESET:
            del self._reset[next(iter(self._reset))]
        self._reset[number] = None

    def close(self, number: int, event: StreamEvent) -> None:
        """Record that the client has ended a stream that was answered or reset before."""
        self._reset.pop(number, None)
        stream = self.open.get(number)
        if stream is not None and stream.state is StreamState.HALF_CLOSED_LOCAL:
            stream.state = after(STREAM, stream.state, event)
            del self.open[number]
