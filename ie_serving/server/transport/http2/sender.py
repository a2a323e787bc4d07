"""The writing half of a connection: at once where the windows allow it, in turns where not.

Bytes gather in `out`, and data that waits for a window in its stream; whoever owns the socket takes
them from here and says when it wants no more. Source: RFC 9113 section 5.2 and 6.9.
"""

from collections import deque
from collections.abc import Callable

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.states import (
    STREAM,
    WRITER,
    Flow,
    StreamEvent,
    StreamState,
    Writing,
)
from ie_serving.server.transport.http2.streams import Buffer, Stream, Streams

TURN = 256 * 1024
"""Bytes that one stream sends before the next gets its turn: large enough that a write costs little
beside its bytes, small enough that a small reply waits less than a millisecond for a large one."""
MOST_UNSENT = 5000
"""Frames other than DATA that wait for a client which does not read. With more it is dropped
without a word: it would not read that either. They take about 5 MB."""

_THIS_TURN = Writing.THIS_TURN
_PAUSED = Writing.PAUSED
_END_SENT = StreamEvent.END_SENT
_ENDED = StreamState.ENDED


class Sender:
    """Sends the frames of one connection.

    Args of the constructor:
        streams: of the connection.
        wake: called when there is something to write and no bytes are being read.

    Attributes:
        out: frames to be written before anything else.
        waiting: streams whose data or end waits for its turn, in the order of turns.
        state: see `Writing`.
        initial_window: window of streams that are opened from now on.
        frame: bytes of the largest payload of a frame that the client takes.
        early: streams that were answered before their request has ended; see `stop_requests`.
        sent: answers, and DATA frames of long answers, that were sent so far.
        client: names in the certificate of the client.
        peer: the client's address, as the socket has it, where there is a socket.
    """

    def __init__(self, streams: Streams, wake: Callable[[], None]) -> None:
        self._streams = streams
        self._wake = wake
        self._window = frames.DEFAULT_WINDOW
        self.early: list[Stream] = []
        self.out: list[bytes] = []
        self.waiting: dict[Stream, None] = {}
        self.state = Writing.THIS_TURN
        self.initial_window = frames.DEFAULT_WINDOW
        self.frame = frames.DEFAULT_FRAME
        self.sent = 0
        self.client: tuple[str, ...] = ()
        self.peer: object = None

    # What the connection and its driver say.

    def apply(self, event: Flow) -> None:
        """Move to the next state of the writer."""
        self.state = WRITER[self.state][event]
        if self.state is Writing.OVER:
            self.waiting.clear()
            self.out.clear()

    def turn(self) -> list[Buffer]:
        """Take what the next stream may send in its turn; empty where no window allows any."""
        while self.waiting:
            stream = next(iter(self.waiting))
            if stream.unsent and self._window <= 0:
                break
            del self.waiting[stream]
            pieces = self._turn_of(stream)
            if pieces:
                return pieces
        return []

    def stop_requests(self) -> None:
        """Tell the client to send no more of requests that were answered before their end.

        Called when everything that was read together is handled: the end may have been in it.
        """
        early, self.early = self.early, []
        for stream in early:
            if stream.state is StreamState.HALF_CLOSED_LOCAL:
                self.reset(stream.number, ErrorCode.NO_ERROR, ends=False)

    @property
    def idle(self) -> bool:
        """Whether all is written."""
        return not self.out and not self.waiting

    # What streams send.

    def write(self, frame: bytes) -> None:
        """Send frames that no window governs."""
        if self.state is Writing.OVER:
            return
        self.out.append(frame)
        if self.state is _THIS_TURN:
            self._wake()

    def send_whole(self, stream: Stream, size: int, written: bytes) -> bool:
        """Send a whole answer, the last of its stream.

        Args:
            stream: it is not told that it has finished.
            size: bytes of its one DATA frame.
            written: all frames of the answer.

        Returns:
            False, and nothing is sent, where it does not fit into one frame and the windows, or
            would overtake what waits.
        """
        if (
            # A small answer must not overtake what waits, or large ones would never be sent.
            size > stream.send_window
            or size > self._window
            or size > self.frame
            or self.waiting
            or self.state >= _PAUSED
        ):
            return False
        self._window -= size
        self.out.append(written)
        self._end(stream)
        if self.state is _THIS_TURN:
            self._wake()
        return True

    def send(self, stream: Stream, *pieces: Buffer) -> None:
        """Send data as soon as the windows allow it; headers were sent before."""
        stream.unsent.extend(piece for piece in pieces if piece)
        self._await_turn(stream)

    def end(self, stream: Stream, trailers: bytes) -> None:
        """Send the frame that ends a stream, after all its data."""
        stream.trailers = trailers
        self._await_turn(stream)

    def finish(self, stream: Stream, trailers: bytes) -> None:
        """Send the frame that ends a stream, instead of the data that it still has to send."""
        self.forget(stream)
        self._end(stream)
        stream.finished()
        self.write(trailers)

    def forget(self, stream: Stream) -> None:
        """Send nothing more of a stream."""
        self.waiting.pop(stream, None)
        stream.unsent.clear()

    def reset(self, number: int, code: ErrorCode, *, ends: bool) -> None:
        """Send RST_STREAM, and cancel the stream if it is open.

        Args:
            number: of the stream.
            code: why.
            ends: the client has sent all of a stream that is not open.
        """
        stream = self._streams.open.pop(number, None)
        if stream is not None:
            stream.state = STREAM[stream.state][StreamEvent.RESET_SENT]
            ends = stream.state is _ENDED
            self.forget(stream)
            stream.cancelled()
        if not ends:
            # The client may not know yet: what it sends until then is dropped, not punished.
            self._streams.remember_reset(number)
        self.write(frames.rst_stream(number, code))

    # The client's windows.

    def widen_connection(self, increment: int) -> None:
        """Take more data for the connection.

        Raises:
            ConnectionFault: the window becomes too large.
        """
        self._window += increment
        if self._window > frames.LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")

    def widen(self, stream: Stream, increment: int) -> bool:
        """Take more data for a stream; less, where SETTINGS shrink it. False: it is too large."""
        stream.send_window += increment
        if stream.send_window > frames.LARGEST_WINDOW:
            return False
        if stream.unsent:
            self._await_turn(stream)
        return True

    def widen_all(self, size: int) -> None:
        """Apply a new initial window to the streams that are open; section 6.9.2.

        Raises:
            ConnectionFault: a window becomes too large.
        """
        change, self.initial_window = size - self.initial_window, size
        for stream in list(self._streams.open.values()):
            if not self.widen(stream, change):
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")

    # Within.

    def _await_turn(self, stream: Stream) -> None:
        if self.state is Writing.OVER:
            return
        self.waiting[stream] = None
        if self.state is _THIS_TURN:
            self._wake()

    def _end(self, stream: Stream) -> None:
        """Know that the answer is whole."""
        self.sent += 1
        stream.state = STREAM[stream.state][_END_SENT]
        if stream.state is _ENDED:
            del self._streams.open[stream.number]
        else:
            self.early.append(stream)

    def _turn_of(self, stream: Stream) -> list[Buffer]:
        """Take as much of one stream as its turn and the windows allow."""
        room = min(TURN, self._window, stream.send_window)
        pieces: list[Buffer] = []
        while stream.unsent and room > 0:
            size = _take(stream.unsent, min(room, self.frame), stream.number, pieces)
            room -= size
            self._window -= size
            stream.send_window -= size
            self.sent += 1
        # Trailers need no window: they go with the last data.
        if not stream.unsent and stream.trailers is not None:
            pieces.append(stream.trailers)
            self._end(stream)
            stream.finished()
        elif not stream.unsent:
            stream.all_sent()
        elif stream.send_window > 0:
            self.waiting[stream] = None
        return pieces


def _take(unsent: "deque[Buffer]", room: int, number: int, pieces: list[Buffer]) -> int:
    """Move up to `room` bytes from `unsent` to `pieces`, as one DATA frame; give its size."""
    place = len(pieces)
    size = 0
    while unsent and size < room:
        piece = unsent.popleft()
        if len(piece) > room - size:
            whole = memoryview(piece)
            unsent.appendleft(whole[room - size :])
            piece = whole[: room - size]
        pieces.append(piece)
        size += len(piece)
    pieces.insert(place, frames.head(frames.DATA, 0, number, size))
    return size
