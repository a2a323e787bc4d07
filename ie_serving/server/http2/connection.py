"""One HTTP/2 connection: frames in, calls, frames out. Source: RFC 9113.

    bytes ──> frames ──> HEADERS: a new Call ──> DATA: its message ──> answer
    bytes <── Sender <── HEADERS, DATA, trailers <───────────────────────┘

What is read in one go is answered in one write. The payload of DATA is passed on as it comes, so
that a large message is copied once, whatever the size of its frames.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from ie_serving.server.http2 import frames
from ie_serving.server.http2.call import Call
from ie_serving.server.http2.calm import Calm
from ie_serving.server.http2.credit import Credit
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.http2.greeting import FRAME, GREETING, MOST_STREAMS, NOT_HTTP2
from ie_serving.server.http2.headers import LARGEST_HEADERS, HeaderReader, RequestHead
from ie_serving.server.http2.sender import Sender
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

WHOLE_FRAME = LARGEST_HEADERS + 1024
"""Largest frame that is gathered before it is read: any but DATA, and DATA with padding."""
PATIENCE_S = 20.0
"""How long a client may take to begin, and to read the last that is written to it."""
FAREWELL_S = 1.0
"""How long a client may take to know that it is to begin no more calls."""
LINGER_S = 1.0
"""How long what a client still sends is dropped, so that it reads why the connection ends."""
CALLS_PER_FRAME = 100
"""Calls whose windows a setting changes at the cost of one such frame."""

_GOODBYE = b"goodbye."

OpenCall: TypeAlias = Callable[[int, RequestHead, Sender], Call | bytes]
"""Makes the call of a stream, or the frame that refuses it."""


class Connection(asyncio.Protocol):
    """One connection of a client.

    Args of the constructor:
        open_call: see `OpenCall`.
        lost: called when the connection has ended.
        arrived: called whenever the client has sent something.
    """

    def __init__(
        self,
        open_call: OpenCall,
        lost: "Callable[[Connection], None]",
        arrived: Callable[[], None],
    ) -> None:
        self._open_call = open_call
        self._lost = lost
        self._arrived = arrived
        self._headers = HeaderReader()
        self._sender = Sender(self._sent_all)
        self._calls: dict[int, Call] = {}
        self._transport: asyncio.Transport | None = None
        self._greeted = False
        self._unread = b""
        self._rest_of_data: tuple[int, int, int] | None = None
        self._block: tuple[int, int, bytes] | None = None
        self._last = 0
        self._farewell: asyncio.TimerHandle | None = None
        self._draining = False
        calm = Calm()
        self._keep_calm = calm.bear
        self._forgive = calm.forgive
        self._acknowledge = Credit(self._sender, self._keep_calm).give_back
        self._handlers = {
            frames.DATA: self._on_padded_data,
            frames.HEADERS: self._on_headers,
            frames.PRIORITY: self._on_priority,
            frames.RST_STREAM: self._on_rst_stream,
            frames.SETTINGS: self._on_settings,
            frames.PUSH_PROMISE: self._on_push_promise,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            frames.WINDOW_UPDATE: self._on_window_update,
        }

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the client's greeting."""
        self._transport = transport
        self._sender.attach(transport)
        self._limit_time(transport)

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent; it may end anywhere within a frame."""
        if not self._transport:
            return  # it was told to go
        self._arrived()
        self._sender.hold()
        try:
            self._read(self._unread + data if self._unread else data)
        except ConnectionFault as fault:
            self._give_up(fault)
        self._sender.release()
        self._close_if_done()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._sender.pause()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._sender.resume()
        self._close_if_done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every call."""
        self._patience.cancel()
        if self._farewell:
            self._farewell.cancel()
        self._transport = None
        self._sender.detach()
        self._drop_calls()
        self._lost(self)

    # What the server calls.

    def drain(self) -> None:
        """Take no new calls, and close when those in flight have ended.

        The client is told first, and its answer to a ping then tells that it knows: a call that was
        on its way meanwhile is still taken. A client that does not answer is not waited for.
        """
        if self._farewell or not self._transport:
            return
        if not self._greeted:
            self._close()
            return
        self._sender.write(frames.goaway(frames.LAST_STREAM, ErrorCode.NO_ERROR))
        self._sender.write(frames.ping(_GOODBYE))
        loop = asyncio.get_running_loop()
        self._farewell = loop.call_later(FAREWELL_S, self._refuse_new_calls)

    def abort(self, refuse: Callable[[Call], None]) -> None:
        """End every call as `refuse` does, then close."""
        for call in list(self._calls.values()):
            refuse(call)
        self._refuse_new_calls()
        self._close()

    # Reading.

    def _read(self, data: bytes) -> None:
        self._unread = b""
        position = 0 if self._greeted else self._read_preface(data)
        end = len(data)
        while position < end and self._transport:
            if self._rest_of_data is not None:
                position = self._read_rest_of_data(data, position)
                continue
            if end - position < frames.HEAD_BYTES:
                break
            high, low, kind, flags, number = frames.HEAD.unpack_from(data, position)
            length = high << 8 | low
            start = position + frames.HEAD_BYTES
            stop = start + length
            if length > FRAME:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"frame above {FRAME} bytes")
            if kind == frames.DATA and not flags & frames.PADDED and self._block is None:
                position = self._read_data(data, start, stop, flags, number & frames.LAST_STREAM)
            elif length > WHOLE_FRAME:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    f"frame above {WHOLE_FRAME} bytes that is not data without padding",
                )
            elif stop > end:
                break
            else:
                self._on_frame(kind, flags, number & frames.LAST_STREAM, data[start:stop])
                position = stop
        if position < end:
            self._unread = data[position:]

    def _read_preface(self, data: bytes) -> int:
        """Check the first bytes; give where the first frame begins."""
        preface = frames.PREFACE
        if data[: len(preface)] != preface[: len(data)]:
            self._part(NOT_HTTP2)
            return len(data)
        if len(data) < len(preface) + frames.HEAD_BYTES:
            self._unread = data
            return len(data)
        self._greeted = True
        self._patience.cancel()
        self._sender.write(GREETING)
        kind, flags = data[len(preface) + 3 : len(preface) + 5]
        if kind != frames.SETTINGS or flags & frames.ACK:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        return len(preface)

    def _read_data(self, data: bytes, start: int, stop: int, flags: int, number: int) -> int:
        """Take what is there of a DATA frame without padding; give where it ends."""
        if stop <= len(data):
            self._on_data(number, data, start, stop, ends=bool(flags & frames.END_STREAM))
            return stop
        if start < len(data):
            self._on_data(number, data, start, len(data), ends=False)
        self._rest_of_data = (stop - len(data), flags, number)
        return len(data)

    def _read_rest_of_data(self, data: bytes, position: int) -> int:
        assert self._rest_of_data is not None
        length, flags, number = self._rest_of_data
        self._rest_of_data = None
        return self._read_data(data, position, position + length, flags, number)

    # Frames.

    def _on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None:
            self._on_continuation(kind, flags, number, payload)
            return
        handler = self._handlers.get(kind)
        if handler:
            handler(flags, number, payload)
        elif kind == frames.CONTINUATION:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        else:
            self._keep_calm()  # an extension: ignored, as section 5.5 asks

    def _on_data(self, number: int, data: bytes, start: int, stop: int, *, ends: bool) -> None:
        call = self._calls.get(number)
        self._acknowledge(call, stop - start, ends=ends)
        if call is None:
            self._check_known(number)
        elif call.complete:
            self._reset(number, ErrorCode.STREAM_CLOSED)
        else:
            call.receive(data, start, stop)
            if ends:
                call.end_request()

    def _on_padded_data(self, flags: int, number: int, payload: bytes) -> None:
        data = frames.unpadded(flags & frames.PADDED, payload)
        self._acknowledge(self._calls.get(number), len(payload) - len(data), ends=False)
        self._on_data(number, data, 0, len(data), ends=bool(flags & frames.END_STREAM))

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        if flags & (frames.PADDED | frames.WITH_PRIORITY):
            payload = frames.unpadded(flags, payload)
        if flags & frames.END_HEADERS:
            self._on_block(flags, number, payload)
        else:
            self._block = (flags, number, payload)

    def _on_continuation(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        assert self._block is not None
        first_flags, first_number, block = self._block
        if kind != frames.CONTINUATION or number != first_number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "headers were not continued")
        self._keep_calm()
        block += payload
        if len(block) > LARGEST_HEADERS:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        self._block = (first_flags, first_number, block)
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(first_flags, number, block)

    def _on_block(self, flags: int, number: int, block: bytes) -> None:
        head = self._headers.read(block)
        ends = bool(flags & frames.END_STREAM)
        if not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client's streams are odd")
        if number <= self._last:
            self._on_request_trailers(number, ends=ends)
            return
        self._last = number
        if head.malformed:
            self._reset(number, ErrorCode.PROTOCOL_ERROR)
        elif self._draining or len(self._calls) >= MOST_STREAMS:
            self._sender.write(frames.rst_stream(number, ErrorCode.REFUSED_STREAM))
        else:
            self._begin_call(number, head, ends=ends)

    def _begin_call(self, number: int, head: RequestHead, *, ends: bool) -> None:
        call = self._open_call(number, head, self._sender)
        if isinstance(call, bytes):
            self._sender.write(call)
            if not ends:
                self._sender.write(frames.rst_stream(number, ErrorCode.NO_ERROR))
            return
        self._calls[number] = call
        call.start()
        if ends:
            call.end_request()

    def _on_request_trailers(self, number: int, *, ends: bool) -> None:
        """Take headers that end a request; gRPC has no use for them."""
        call = self._calls.get(number)
        if call is None or call.complete:
            self._reset(number, ErrorCode.STREAM_CLOSED)
        elif not ends:
            self._reset(number, ErrorCode.PROTOCOL_ERROR)
        else:
            call.end_request()

    def _on_priority(self, _flags: int, number: int, payload: bytes) -> None:
        if not number or len(payload) != frames.PRIORITY_BYTES:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY of nothing or a wrong length")
        self._keep_calm()

    def _on_rst_stream(self, _flags: int, number: int, payload: bytes) -> None:
        frames.read_number(payload, "RST_STREAM")
        self._check_known(number)
        self._keep_calm()
        call = self._calls.pop(number, None)
        if call:
            call.cancel()

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        frames.check_of_connection(number, "SETTINGS")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS with ACK and values")
            return
        self._keep_calm()
        for name, value in frames.read_settings(payload).items():
            if name == frames.INITIAL_WINDOW_SIZE:
                self._on_initial_window(value)
            elif name == frames.MAX_FRAME_SIZE:
                self._sender.frame = value
        self._sender.write(frames.SETTINGS_ACK)

    def _on_initial_window(self, size: int) -> None:
        change = size - self._sender.initial_window
        if not change:
            return
        self._keep_calm(len(self._calls) // CALLS_PER_FRAME)
        self._sender.initial_window = size
        for call in list(self._calls.values()):
            if call.window + change > frames.LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")
            self._widen(call, change)

    def _on_push_promise(self, _flags: int, _number: int, _payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients cannot push")

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        frames.check_of_connection(number, "PING")
        if len(payload) != len(_GOODBYE):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING of a wrong length")
        if not flags & frames.ACK:
            self._keep_calm()
            self._sender.write(frames.ping(payload, frames.ACK))
        elif payload == _GOODBYE and self._farewell:
            self._refuse_new_calls()

    def _on_goaway(self, _flags: int, number: int, _payload: bytes) -> None:
        """The client will begin no more calls; it closes when it has its replies."""
        frames.check_of_connection(number, "GOAWAY")
        self._keep_calm()

    def _on_window_update(self, _flags: int, number: int, payload: bytes) -> None:
        increment = frames.read_number(payload, "WINDOW_UPDATE") & frames.LARGEST_WINDOW
        if number == 0:
            if not increment:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of nothing")
            self._sender.widen(increment)
            return
        call = self._calls.get(number)
        if call is None:
            self._check_known(number)
        elif not increment:
            self._reset(number, ErrorCode.PROTOCOL_ERROR)
        else:
            self._widen(call, increment)

    def _widen(self, call: Call, increment: int) -> None:
        call.window += increment
        if call.window > frames.LARGEST_WINDOW:
            self._reset(call.number, ErrorCode.FLOW_CONTROL_ERROR)
        else:
            self._sender.widened(call)

    # Ends.

    def _sent_all(self, number: int) -> None:
        """Close a call whose last frame is written."""
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.close()
        self._forgive()
        if not call.complete:
            asyncio.get_running_loop().call_soon(self._stop_request, call)
        if self._draining:
            asyncio.get_running_loop().call_soon(self._close_if_done)

    def _stop_request(self, call: Call) -> None:
        """Tell the client to send no more of a request that was answered before its end."""
        if not call.complete:
            self._sender.write(frames.rst_stream(call.number, ErrorCode.NO_ERROR))

    def _reset(self, number: int, code: ErrorCode) -> None:
        """End a stream on which the client broke the protocol.

        That counts as if the client had reset it: both drop a call for which work was done.
        """
        self._keep_calm()
        call = self._calls.pop(number, None)
        if call:
            call.cancel()
        self._sender.write(frames.rst_stream(number, code))

    def _check_known(self, number: int) -> None:
        """Bear frames of a stream that was, not of one that never began."""
        if not number & 1 or number > self._last:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {number} was not opened")

    def _refuse_new_calls(self) -> None:
        if self._draining:
            return
        self._draining = True
        self._sender.write(frames.goaway(self._last, ErrorCode.NO_ERROR))
        asyncio.get_running_loop().call_soon(self._close_if_done)

    def _close_if_done(self) -> None:
        if self._draining and not self._calls and not self._sender.paused:
            self._close()

    def _close(self) -> None:
        """Close once everything that was written has been sent."""
        self._sender.detach()
        self._drop_calls()
        if self._transport:
            self._patience.cancel()
            self._limit_time(self._transport)
            self._transport.close()
            self._transport = None

    def _drop_calls(self) -> None:
        for call in list(self._calls.values()):
            call.cancel()
        self._calls.clear()

    def _limit_time(self, transport: asyncio.Transport) -> None:
        self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, transport.abort)

    def _give_up(self, fault: ConnectionFault) -> None:
        """Tell what was wrong, and close: the frames that follow mean nothing any more."""
        log.info(Event("gRPC client sent away", code=fault.code.name, why=fault.text))
        self._sender.release()
        self._part(frames.goaway(self._last, fault.code, fault.text))

    def _part(self, last: bytes) -> None:
        """Write the last that is said; to close while the client sends could keep it from it."""
        assert self._transport
        self._transport.write(last)
        self._patience.cancel()
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(LINGER_S, self._transport.abort)
        self._transport = None
        self._sender.detach()
        self._drop_calls()
