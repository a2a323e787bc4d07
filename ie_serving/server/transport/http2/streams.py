"""The streams of one connection; RFC 9113 section 5.1."""

from collections import deque
from typing import TypeAlias

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http2.receive_window import ReceiveWindow
from ie_serving.server.transport.http2.states import STREAM, StreamEvent, StreamState

Buffer: TypeAlias = bytes | memoryview

MOST_STREAMS = 1000
"""Streams of one connection that may be open at a time; we announce it, clients hold further ones
back by themselves, and one more is refused with REFUSED_STREAM."""
FREE_STREAMS = 20
"""Of these, those that are not counted in the budget."""
STEP = 70
"""Streams that are counted at a time."""
STREAM_BYTES = 2048
"""Bytes that a stream holds by itself, until it is answered; measured were 1,850."""
MOST_RESET = 2 * MOST_STREAMS
"""Streams that we reset which are remembered for each connection. The oldest is forgotten for a new
one: what is still under way on it then ends the connection. At most `MOST_STREAMS` are open at a
time, and a client hears of a reset before it has opened as many again."""
MOST_GAPS = 100
"""Gaps between the numbers of streams that are remembered. Beyond it, HEADERS in the oldest gap end
the connection with STREAM_CLOSED instead of PROTOCOL_ERROR."""


class Stream:
    """One stream, and what its frames mean to whoever serves it: a subclass.

    The connection sets the attributes when it takes the stream, and calls the methods.

    Attributes:
        number: identifier of the stream.
        state: see `StreamState`.
        send_window: bytes that the client takes on it; negative after SETTINGS that shrink it.
        receive_window: of a request that is longer than one frame, else None.
        content_left: bytes of DATA that `content-length` still promises; None without.
        unsent: data that waits for the client's windows.
        trailers: the frame that ends the answer once all data is sent; None while it goes on.
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
    unsent: "deque[Buffer]"
    trailers: bytes | None

    def begun(self) -> None:
        """The stream is open; its answer may begin before its request has come."""

    def receive(self, data: bytes, start: int, stop: int, *, ends: bool) -> None:
        """data[start:stop] has come, the last of the request if `ends`."""

    def input_ended(self) -> None:
        """The request has ended without further data: by its headers or by trailers."""

    def all_sent(self) -> None:
        """No data of the answer waits any more."""

    def finished(self) -> None:
        """The end of the answer is sent."""

    def cancelled(self) -> None:
        """The stream was reset by either side, or the client is gone."""

    def stop(self) -> None:
        """The server does not wait any longer: answer now, with a failure."""


class Streams:
    """Which streams there are, and how those that are closed were closed.

    Attributes:
        open: streams by number, from their first HEADERS until both sides have ended them.
        last: highest number that the client has used.
        room: how many may be open, before `grow` is asked for more.
    """

    __slots__ = ("_lease", "_reset", "_skipped", "last", "open", "room")

    def __init__(self) -> None:
        self.open: dict[int, Stream] = {}
        self.last = -1
        self.room = FREE_STREAMS
        self._lease = Lease(BUDGET)
        self._reset: dict[int, None] = {}
        self._skipped: deque[range] = deque(maxlen=MOST_GAPS)

    def state_of(self, number: int) -> StreamState:
        """Give the state of any stream, by its number."""
        stream = self.open.get(number)
        if stream is not None:
            return stream.state
        # Even numbers are a server's, and we open no streams.
        if number > self.last or not number & 1:
            return StreamState.IDLE
        if number in self._reset:
            return StreamState.RESET
        # Last, since a gap is rare: then what is left was used and has ended.
        if any(number in gap for gap in self._skipped):
            return StreamState.SKIPPED
        return StreamState.ENDED

    def grow(self) -> bool:
        """Make room for more streams; False where there are enough, or no memory is left."""
        if self.room >= MOST_STREAMS:
            return False
        try:
            self._lease.take(STEP * STREAM_BYTES)
        except ServingError:
            return False
        self.room += STEP
        return True

    def settle(self) -> None:
        """Give back the room that is not used."""
        while self.room - STEP >= max(FREE_STREAMS, len(self.open)):
            self.room -= STEP
            self._lease.give(STEP * STREAM_BYTES)

    def skip(self, number: int) -> None:
        """Close the numbers between the last that was used and `number`; section 5.1.1."""
        self._skipped.append(range(self.last + 2, number, 2))

    def remember_reset(self, number: int) -> None:
        """Know that frames of a stream that we reset may be under way."""
        # Dicts keep their order, so the first is the oldest.
        if len(self._reset) >= MOST_RESET:
            del self._reset[next(iter(self._reset))]
        self._reset[number] = None

    def close(self, number: int, event: StreamEvent) -> None:
        """Know that the client has ended a stream that was answered or reset before."""
        self._reset.pop(number, None)
        stream = self.open.get(number)
        if stream is not None and stream.state is StreamState.HALF_CLOSED_LOCAL:
            stream.state = STREAM[stream.state][event]
            del self.open[number]
