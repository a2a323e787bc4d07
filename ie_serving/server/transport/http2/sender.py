"""Sender of a connection: its first frames, and all later ones as far as the windows permit.

Bytes gather in `out`, and data that waits for a window gathers in its stream; the owner of the
socket takes them from here, and pauses the sender. Source: RFC 9113 section 5.2 and 6.9.
"""

from collections import deque
from collections.abc import Callable

from ie_serving.core.runtime.states import after
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.headers import LARGEST_HEADERS
from ie_serving.server.transport.http2.rules import LARGEST_FRAME
from ie_serving.server.transport.http2.stream_states import (
    STREAM,
    WRITER,
    SendEvent,
    SendState,
    StreamEvent,
    StreamState,
)
from ie_serving.server.transport.http2.streams import (
    CONNECTION_WINDOW,
    MOST_STREAMS,
    STREAM_WINDOW,
    TRUSTED,
    Http2Stream,
    Payload,
    ReceiveWindow,
    StreamTable,
)

SERVER_PREFACE = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: LARGEST_FRAME,
        frames.MAX_HEADER_LIST_SIZE: LARGEST_HEADERS,
    }
) + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
"""SETTINGS, and the connection's window, which no setting changes; section 3.4 and 6.9.2."""

_ADVICE = b"this port speaks gRPC over HTTP/2; REST has a port of its own\n"
NOT_HTTP2 = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)
"""An HTTP/1.1 reply: most clients on the wrong port speak it; those with TLS cannot be answered."""

TURN = 256 * 1024
"""Bytes that one stream sends before the next gets its turn: enough that a write costs little
beside its bytes, few enough that a small reply waits less than 1 ms for a large one."""
MOST_UNSENT = 5000
"""Frames other than DATA that wait for a client which does not read. With more, the client is
dropped without a GOAWAY, which it would not read either. They take about 5 MB."""

READS = b"you read"
"""Payload of the ping by which a client shows that it reads our frames."""

_THIS_TURN = SendState.THIS_TURN
_PAUSED = SendState.PAUSED
_END_SENT = StreamEvent.END_SENT
_ENDED = StreamState.ENDED


class Sender:
    """Sends the frames of one connection.

    Args of the constructor:
        streams: streams of the connection.
        wake: called when there is something to write while no bytes are being read.

    Attributes:
        out: frames to be written before any others.
        waiting: streams whose data or end waits for its turn, in the order of turns.
        state: state of writing.
        initial_window: window of streams that are opened from now on.
        frame: largest payload in bytes of a frame that the client accepts.
        early: streams that were answered before their request has ended; see `stop_requests`.
        sent: answers, and DATA frames of long answers, that were sent so far.
        client_reads: whether the client has answered the ping of `renew`; None: it was not sent.
        client: names in the certificate of the client.
        peer: the client's address, as the socket has it, if there is a socket.
    """

    def __init__(self, streams: StreamTable, wake: Callable[[], None]) -> None:
        self._streams = streams
        self._wake = wake
        self._window = frames.DEFAULT_WINDOW
        self.early: list[Http2Stream] = []
        self.out: list[bytes] = []
        self.waiting: dict[Http2Stream, None] = {}
        self.state = SendState.THIS_TURN
        self.initial_window = frames.DEFAULT_WINDOW
        self.frame = frames.DEFAULT_FRAME
        self.sent = 0
        self.client_reads: bool | None = None
        self.client: tuple[str, ...] = ()
        self.peer: object = None

    # Called by the connection and its driver.

    def apply(self, event: SendEvent) -> None:
        """Move to the next state of the writer."""
        self.state = after(WRITER, self.state, event)
        if self.state is SendState.OVER:
            self.waiting.clear()
            self.out.clear()

    def turn(self) -> list[Payload]:
        """Return what the next stream may send in its turn; empty if no window permits any."""
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
        """Ask the client to stop sending requests that were answered before their end.

        Called when all data that was read together is handled, since the end may be in it.
        """
        early, self.early = self.early, []
        for stream in early:
            if stream.state is StreamState.HALF_CLOSED_LOCAL:
                self.reset(stream.number, ErrorCode.NO_ERROR, ends=False)

    @property
    def idle(self) -> bool:
        """Whether all data is written."""
        return not self.out and not self.waiting

    # Called by streams.

    def write(self, frame: bytes) -> None:
        """Send frames that no window limits."""
        if self.state is SendState.OVER:
            return
        self.out.append(frame)
        if self.state is _THIS_TURN:
            self._wake()

    def send_whole(self, stream: Http2Stream, size: int, written: bytes) -> bool:
        """Send a whole reply, the last of its stream.

        Args:
            stream: its `finished` is not called.
            size: bytes of its one DATA frame.
            written: all frames of the reply.

        Returns:
            False, and nothing is sent, if the reply exceeds one frame or the windows, or would
            overtake waiting data.
        """
        if (
            # A small answer must not overtake waiting ones, or large ones would never be sent.
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

    def send(self, stream: Http2Stream, *pieces: Payload) -> None:
        """Send data as soon as the windows permit it; headers were sent before."""
        stream.unsent.extend(piece for piece in pieces if piece)
        self._await_turn(stream)

    def end(self, stream: Http2Stream, trailers: bytes) -> None:
        """Send the frame that ends a stream, after all its data."""
        stream.trailers = trailers
        self._await_turn(stream)

    def finish(self, stream: Http2Stream, trailers: bytes) -> None:
        """Send the frame that ends a stream, in place of its remaining data."""
        self.forget(stream)
        self._end(stream)
        stream.finished()
        self.write(trailers)

    def forget(self, stream: Http2Stream) -> None:
        """Send nothing more of a stream."""
        self.waiting.pop(stream, None)
        stream.unsent.clear()

    def reset(self, number: int, code: ErrorCode, *, ends: bool) -> None:
        """Send RST_STREAM, and cancel the stream if it is open.

        Args:
            number: number of the stream.
            code: reason.
            ends: the client has sent all of a stream that is not open.
        """
        stream = self._streams.open.pop(number, None)
        if stream is not None:
            stream.state = after(STREAM, stream.state, StreamEvent.RESET_SENT)
            ends = stream.state is _ENDED
            self.forget(stream)
            stream.cancelled()
        if not ends:
            # The client may not know yet: its frames until then are dropped, not punished.
            self._streams.remember_reset(number)
        self.write(frames.rst_stream(number, code))

    def renew(self, window: ReceiveWindow) -> None:
        """Renew the window of a stream, unless the client seems to read none of our frames."""
        if self.client_reads is None:
            self.client_reads = False
            # The ping comes first: its reply then precedes the data that the window permits.
            self.write(frames.ping(READS))
        if self.client_reads or window.renewals < TRUSTED:
            self.write(window.renew())

    # The client's windows.

    def widen_connection(self, increment: int) -> None:
        """Widen the connection's send window.

        Raises:
            ConnectionFault: the window becomes too large.
        """
        self._window += increment
        if self._window > frames.LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")

    def widen(self, stream: Http2Stream, increment: int) -> bool:
        """Widen a stream's send window; SETTINGS may also shrink it. False: it is too large."""
        stream.send_window += increment
        if stream.send_window > frames.LARGEST_WINDOW:
            return False
        if stream.unsent:
            self._await_turn(stream)
        return True

    def widen_all(self, size: int) -> None:
        """Apply a new initial window to the open streams; section 6.9.2.

        Raises:
            ConnectionFault: a window becomes too large.
        """
        change, self.initial_window = size - self.initial_window, size
        for stream in list(self._streams.open.values()):
            if not self.widen(stream, change):
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")

    # Within.

    def _await_turn(self, stream: Http2Stream) -> None:
        if self.state is SendState.OVER:
            return
        self.waiting[stream] = None
        if self.state is _THIS_TURN:
            self._wake()

    def _end(self, stream: Http2Stream) -> None:
        """Record that the reply is complete."""
        self.sent += 1
        stream.state = STREAM[stream.state][_END_SENT]
        if stream.state is _ENDED:
            del self._streams.open[stream.number]
        else:
            self.early.append(stream)

    def _turn_of(self, stream: Http2Stream) -> list[Payload]:
        """Return as much data of one stream as its turn and the windows permit."""
        room = min(TURN, self._window, stream.send_window)
        pieces: list[Payload] = []
        while stream.unsent and room > 0:
            # Most of a long reply is full frames of one piece, which are taken together.
            count = _take_full(stream.unsent, room, self.frame, stream.number, pieces)
            if count:
                size = count * self.frame
            else:
                size = _take(stream.unsent, min(room, self.frame), stream.number, pieces)
            room -= size
            self._window -= size
            stream.send_window -= size
            self.sent += count or 1
        # Trailers need no window: they are sent with the last data.
        if not stream.unsent and stream.trailers is not None:
            pieces.append(stream.trailers)
            self._end(stream)
            stream.finished()
        elif not stream.unsent:
            stream.all_sent()
        elif stream.send_window > 0:
            self.waiting[stream] = None
        return pieces


def _take(unsent: "deque[Payload]", room: int, number: int, pieces: list[Payload]) -> int:
    """Move up to `room` bytes from `unsent` to `pieces`, as one DATA frame; return its size."""
    index = len(pieces)
    size = 0
    while unsent and size < room:
        piece = unsent.popleft()
        if len(piece) > room - size:
            whole = memoryview(piece)
            unsent.appendleft(whole[room - size :])
            piece = whole[: room - size]
        pieces.append(piece)
        size += len(piece)
    pieces.insert(index, frames.head(frames.DATA, 0, number, size))
    return size


def _take_full(
    unsent: "deque[Payload]", room: int, frame: int, number: int, pieces: list[Payload]
) -> int:
    """Move full frames of the first piece to `pieces`, as many as fit; return their count."""
    whole = memoryview(unsent[0])
    count = min(room, len(whole)) // frame
    if count:
        head = frames.head(frames.DATA, 0, number, frame)
        for start in range(0, count * frame, frame):
            pieces += (head, whole[start : start + frame])
        unsent[0] = whole[count * frame :]
        if not unsent[0]:
            unsent.popleft()
    return count
