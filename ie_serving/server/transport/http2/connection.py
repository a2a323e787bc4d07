"""One HTTP/2 connection without a socket: bytes in, streams, bytes out. Source: RFC 9113.

    receive(bytes) ──> frames ──> HEADERS: accept a Stream ──> DATA: Stream.receive
    Sender.out     <── frames <── Sender.send, end, reset <── the stream's answer

The connection uses no socket, loop or thread, and only the clock that it is given. Events are calls
of a `Http2Stream`'s methods instead of objects: a small call has three, and objects for them would
cost more than the rest of the protocol. `reader.py` finds the ends of frames; tables say which
frames are permitted when, and what follows (`rules.py`, `stream_states.py`).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ie_serving.core.runtime.states import after
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.headers import (
    HeaderBlock,
    HeaderFields,
    HeaderReader,
    Interpret,
    malformed_fields,
)
from ie_serving.server.transport.http2.reader import FrameReader
from ie_serving.server.transport.http2.rules import SMALL_DATA, Verdict, judge
from ie_serving.server.transport.http2.sender import NOT_HTTP2, READS, SERVER_PREFACE, Sender
from ie_serving.server.transport.http2.stream_states import (
    LIFE,
    STREAM,
    ConnectionEvent,
    ConnectionState,
    FrameEvent,
    SendEvent,
    SendState,
    StreamEvent,
    StreamState,
)
from ie_serving.server.transport.http2.streams import (
    CONNECTION_WINDOW,
    STREAM_WINDOW,
    Http2Stream,
    Payload,
    ReceiveWindow,
    StreamTable,
)
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

STREAMS_PER_FRAME = 100
"""Streams whose windows a setting changes at the cost of one frame to the flood guard."""
_GOODBYE = b"goodbye."
"""Payload of the PING by which a client shows that it knows of the GOAWAY before it."""

Accept: TypeAlias = Callable[[int, Any, Sender], Http2Stream | bytes]
"""Takes the number of a stream and `Interpret`'s result for its request; returns the stream, or the
header block that refuses it."""

# Before Python 3.12, looking up an enum member is a function call; every call needs these members.
_OPEN = STREAM[StreamState.IDLE][StreamEvent.BEGIN]
_CLOSING = ConnectionState.CLOSING
_END_RECEIVED = StreamEvent.END_RECEIVED


class Http2Connection(FrameReader):
    """One connection of a client.

    Args of the constructor:
        interpret: function that interprets a request, an `Interpret`.
        accept: function that takes a stream, an `Accept`.
        wake: called when there is something to write while no bytes are being read.
        clock: monotonic, in seconds.

    Attributes:
        headers: reader of the blocks that the client sends.
        life: state of the connection.
        streams: the open ones, and how the others were closed.
    """

    def __init__(
        self,
        interpret: Interpret,
        accept: Accept,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.life = ConnectionState.PREFACE
        self.streams = StreamTable()
        super().__init__(Sender(self.streams, wake), clock)
        self._accept = accept
        self._window = ReceiveWindow(0, CONNECTION_WINDOW)
        self.headers = HeaderReader(interpret)

    # Called by the driver.

    def drain(self) -> None:
        """Soon take no new streams, and end when the open ones have ended; section 6.8.

        The client is notified first, and its reply to a ping shows that it knows; requests that
        were in transit until then are still taken. If a client does not answer, the driver calls
        `goaway_known` after a time limit.
        """
        if self._move(ConnectionEvent.DRAIN) is ConnectionState.OPEN:
            self.sender.write(frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR))
            self.sender.write(frames.ping(_GOODBYE))

    def goaway_known(self) -> None:
        """Refuse new streams: the client knows that the server stops, or did not answer in time."""
        if self._move(ConnectionEvent.GOAWAY_KNOWN) is ConnectionState.DRAINING:
            self.sender.write(frames.goaway(max(0, self.streams.last), ErrorCode.NO_ERROR))

    def stop(self) -> None:
        """Make every stream answer now, then end."""
        for stream in list(self.streams.open.values()):
            stream.stop()
        if self.life is ConnectionState.DRAINING:
            self.goaway_known()
        self._move(ConnectionEvent.DONE)

    def resumed(self) -> None:
        """Continue: the client reads again. Give back the windows that were withheld meanwhile."""
        self.sender.apply(SendEvent.RESUME)
        self._renew_all()

    def end_if_done(self) -> None:
        """End once the last stream has ended and all data is written."""
        if self.life is ConnectionState.CLOSING and not self.streams.open and self.sender.idle:
            self._move(ConnectionEvent.DONE)

    def lost(self) -> None:
        """Cancel every stream: the client is gone."""
        self._move(ConnectionEvent.LOST)
        self._forget()
        self.streams.settle()
        self.sender.apply(SendEvent.LOST)

    def _move(self, event: ConnectionEvent) -> ConnectionState:
        """Move to the next state of the connection; return the last."""
        before, self.life = self.life, after(LIFE, self.life, event)
        if self.life >= ConnectionState.CLOSED:
            self._move_reader(FrameEvent.OVER)
            streams = list(self.streams.open.values())
            self.streams.open.clear()
            for stream in streams:
                self.sender.forget(stream)
                stream.cancelled()
        return before

    def _fail(self, fault: ConnectionFault) -> None:
        """Report the fault, and end: later frames cannot be interpreted any more."""
        peer = self.sender.peer
        client = peer[0] if isinstance(peer, tuple) else None
        code, cause = fault.code.name, fault.text
        log.info(Event("gRPC client sent away", client=client, code=code, cause=cause))
        self._say_last(frames.goaway(max(0, self.streams.last), fault.code, fault.text))

    def _say_last(self, last: bytes) -> None:
        self.sender.write(last)
        self._move(ConnectionEvent.FAULT)

    # Handling of frames.

    def _on_preface(self, *, valid: bool) -> None:
        """See `FrameReader`."""
        if valid:
            self.sender.write(SERVER_PREFACE)
        else:
            self._say_last(NOT_HTTP2)

    def _on_first_settings(self) -> None:
        """See `FrameReader`."""
        self._move(ConnectionEvent.PREFACE_READ)

    def _begin_data(self, flags: int, number: int, length: int, content: int) -> Http2Stream | None:
        """See `FrameReader`: the windows, the stream's state, `content-length`."""
        # Counted first, since the client also counts data that we drop.
        window = self._window
        window.left -= length
        if window.left < window.half:
            self._renew_window(window)
        stream = self.streams.open.get(number)
        ends = flags & frames.END_STREAM
        if stream is None or stream.state is not _OPEN:
            self._guard.count(content < SMALL_DATA)
            self._judge(frames.DATA, number, ends=bool(ends))
            return None
        # Exempt: an empty frame that ends a request; clients in .NET, Node and Rust send one.
        if not ends and content < SMALL_DATA:
            self._guard.count()
        if (not ends or stream.receive_window) and not self._count_data(stream, length):
            return None
        if stream.content_left is not None and not self._count_content(stream, content, ends):
            return None
        return stream

    def _taker(self, number: int) -> Http2Stream | None:
        """See `FrameReader`: a stream may have been answered between two parts of a frame."""
        stream = self.streams.open.get(number)
        return stream if stream is not None and stream.state is _OPEN else None

    def _on_data(self, data: Payload, start: int, stop: int, flags: int, number: int) -> None:
        """See `FrameReader`."""
        stream = self._begin_data(flags, number, stop - start, stop - start)
        if stream is None:
            return
        ends = flags & frames.END_STREAM
        if ends:
            stream.state = STREAM[_OPEN][_END_RECEIVED]
        stream.receive(data, start, stop, ends=bool(ends))

    def _pass_on(
        self, stream: Http2Stream, data: Payload, start: int, stop: int, flags: int
    ) -> None:
        """See `FrameReader`."""
        ends = flags & frames.END_STREAM
        if ends:
            stream.state = STREAM[stream.state][_END_RECEIVED]
        stream.receive(data, start, stop, ends=bool(ends))

    def _renew_window(self, window: ReceiveWindow) -> None:
        if window.left < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the window allows")
        if self.sender.state is not SendState.PAUSED:
            self.sender.write(window.renew())

    def _renew_all(self) -> None:
        """Give back the windows that were withheld, if the client reads."""
        if self.sender.state is SendState.PAUSED:
            return
        if self._window.left < self._window.half:
            self.sender.write(self._window.renew())
        for window in filter(None, [each.receive_window for each in self.streams.open.values()]):
            if window.left < window.half:
                self.sender.renew(window)

    def _count_data(self, stream: Http2Stream, length: int) -> bool:
        """Count data of a request that is longer than one frame. False: the stream was reset."""
        window = stream.receive_window
        # Made only here, since the usual request is one frame and needs no window of its own.
        if window is None:
            window = stream.receive_window = ReceiveWindow(stream.number, STREAM_WINDOW)
        window.left -= length
        if window.left < 0:
            self._reset(stream.number, ErrorCode.FLOW_CONTROL_ERROR)
            return False
        if window.left < window.half and self.sender.state is not SendState.PAUSED:
            self.sender.renew(window)
        return True

    def _count_content(self, stream: Http2Stream, size: int, ends: int) -> bool:
        """Section 8.1.1: `content-length` must be the sum of all DATA. False: it was reset."""
        assert stream.content_left is not None
        stream.content_left -= size
        if stream.content_left < 0 or (ends and stream.content_left):
            self._reset(stream.number, ErrorCode.PROTOCOL_ERROR)
            return False
        return True

    def _judge(self, kind: int, number: int, *, ends: bool = False) -> bool:
        """Apply the verdict for the stream's state; return whether to handle the frame."""
        verdict = judge(kind, number, self.streams.state_of(number))
        if verdict is Verdict.STREAM_CLOSED:
            self._reset(number, ErrorCode.STREAM_CLOSED)
        elif verdict is Verdict.DROP and (ends or kind == frames.RST_STREAM):
            self.streams.close(number, _END_RECEIVED)
        return verdict is Verdict.TAKE

    def _blame(self, number: int, code: ErrorCode, text: str) -> None:
        """End an open stream; for any other, end the connection: only open ones can be reset."""
        if number not in self.streams.open:
            raise ConnectionFault(code, text)
        self._reset(number, code)

    def _reset(self, number: int, code: ErrorCode, *, ends: bool = False) -> None:
        """Reset a stream on which the client broke the protocol.

        The flood guard counts it like a reset by the client: both drop a call with work done.
        """
        self._guard.count()
        self.sender.reset(number, code, ends=ends)

    def _on_block(
        self, flags: int, number: int, block: bytes, *, depends_on_itself: bool = False
    ) -> None:
        """See `FrameReader`: the headers of a new stream, or the trailers of one."""
        # Decoded even if it is refused below: our HPACK table must follow the client's.
        head = self.headers.known.get(block) or self.headers.decode(block)
        if not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams are odd")
        ends = bool(flags & frames.END_STREAM)
        streams = self.streams
        if number <= streams.last:
            self._on_trailers(number, head.fields, ends=ends)
            return
        # Clients usually leave no gaps, so only gaps have to be recorded.
        if number != streams.last + 2:
            streams.skip(number)
        streams.last = number
        if head.malformed or depends_on_itself or (ends and head.content_length):
            self._reset(number, ErrorCode.PROTOCOL_ERROR, ends=ends)
        elif self.life is _CLOSING or (len(streams.open) >= streams.room and not streams.grow()):
            self.sender.reset(number, ErrorCode.REFUSED_STREAM, ends=ends)
        else:
            self._begin_stream(number, head, ends=ends)

    def _begin_stream(self, number: int, head: HeaderBlock, *, ends: bool) -> None:
        stream = self._accept(number, head.request, self.sender)
        if isinstance(stream, bytes):
            self.sender.write(frames.headers(number, stream, ends=True))
            if not ends:
                self.sender.reset(number, ErrorCode.NO_ERROR, ends=False)
            return
        # Set here instead of in a constructor: the call has its own, and two cost more.
        stream.number = number
        stream.state = _OPEN
        stream.send_window = self.sender.initial_window
        stream.receive_window = stream.trailers = None
        stream.content_left = head.content_length
        stream.unsent = deque()
        self.streams.open[number] = stream
        stream.begun()
        if ends:
            self._end_input(stream)

    def _end_input(self, stream: Http2Stream) -> None:
        """Tell a stream that its request has ended, unless it was answered before."""
        if stream.state is _OPEN:
            stream.state = STREAM[_OPEN][_END_RECEIVED]
            stream.input_ended()
        elif stream.number in self.streams.open:
            self.streams.close(stream.number, _END_RECEIVED)

    def _on_trailers(self, number: int, fields: HeaderFields, *, ends: bool) -> None:
        """Section 8.1: trailers end a request. gRPC does not use their content."""
        stream = self.streams.open.get(number)
        if stream is None or stream.state is not _OPEN:
            self._guard.count()
            self._judge(frames.HEADERS, number, ends=ends)
        elif not ends or malformed_fields(fields) or stream.content_left:
            self._reset(number, ErrorCode.PROTOCOL_ERROR)
        else:
            self._end_input(stream)

    # The other frames, sections 6.3 to 6.9.

    def _on_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """See `FrameReader`. GOAWAY and frames of unknown types need no handling."""
        handler = _HANDLERS.get(kind)
        if handler and (number == 0 or self._judge(kind, number)):
            handler(self, flags, number, payload)

    def _on_priority(self, _flags: int, number: int, payload: bytes) -> None:
        """Priorities are obsolete; section 5.3.2. Only malformed ones are refused."""
        if frames.read_number(payload) & frames.LAST_STREAM == number:
            self._blame(number, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")

    def _on_rst_stream(self, _flags: int, number: int, _payload: bytes) -> None:
        stream = self.streams.open.pop(number)
        stream.state = after(STREAM, stream.state, StreamEvent.RESET_RECEIVED)
        self.sender.forget(stream)
        stream.cancelled()

    def _on_settings(self, flags: int, _number: int, payload: bytes) -> None:
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS with ACK and values")
            return
        values = frames.read_settings(payload)
        size = values.get(frames.INITIAL_WINDOW_SIZE, self.sender.initial_window)
        if size != self.sender.initial_window:
            # A frame of 15 bytes causes work for each open stream.
            self._guard.count(len(self.streams.open) // STREAMS_PER_FRAME)
            self.sender.widen_all(size)
        self.sender.frame = values.get(frames.MAX_FRAME_SIZE, self.sender.frame)
        self.sender.write(frames.SETTINGS_ACK)

    def _on_push_promise(self, _flags: int, _number: int, _payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients cannot push")

    def _on_ping(self, flags: int, _number: int, payload: bytes) -> None:
        if not flags & frames.ACK:
            self.sender.write(frames.ping(payload, frames.ACK))
        elif payload == READS:
            self.sender.client_reads = True
            self._renew_all()
        elif payload == _GOODBYE and self.life is ConnectionState.DRAINING:
            self.goaway_known()

    def _on_window_update(self, _flags: int, number: int, payload: bytes) -> None:
        increment = frames.read_number(payload) & frames.LARGEST_WINDOW
        if not increment:
            self._blame(number, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of nothing")
        elif not number:
            self.sender.widen_connection(increment)
        elif not self.sender.widen(self.streams.open[number], increment):
            self._reset(number, ErrorCode.FLOW_CONTROL_ERROR)


_HANDLERS: Mapping[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.PRIORITY: Http2Connection._on_priority,
    frames.RST_STREAM: Http2Connection._on_rst_stream,
    frames.SETTINGS: Http2Connection._on_settings,
    frames.PUSH_PROMISE: Http2Connection._on_push_promise,
    frames.PING: Http2Connection._on_ping,
    frames.WINDOW_UPDATE: Http2Connection._on_window_update,
}
"""Handler of each type of frame."""
