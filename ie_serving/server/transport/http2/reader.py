"""Framing: splits the bytes of one connection into frames. Source: RFC 9113 sections 3.4, 4, 6.10.

This class finds the end of each frame, and checks its type, length and frequency; a subclass
handles the frame. The payload of DATA is passed on as it arrives, so that a large message is copied
once, whatever the size of its frames; every other frame is buffered until complete.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease
from ie_serving.core.runtime.states import after
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.transport.http2.headers import LARGEST_BLOCK
from ie_serving.server.transport.http2.rules import (
    EXTENSION,
    LARGEST_FRAME,
    RULES,
    FloodGuard,
    FrameScope,
)
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.http2.stream_states import (
    READER,
    WRITER,
    ExpectedData,
    FrameEvent,
    SendEvent,
)
from ie_serving.server.transport.http2.streams import Http2Stream, Payload

TURN_S = 0.001
"""Seconds of work on one connection's data before the results are written and other connections get
their turn. Replies to requests that were read together are delayed at most this long by each other,
and a client that sends much at once does not block other clients."""

DIRECT = 64 * 1024
"""Missing bytes of a DATA frame from which they are read straight to their message."""

# Before Python 3.12, looking up an enum member is a function call; every call needs these members.
_FRAME = ExpectedData.FRAME
# Both methods that assign these run in one state alone.
_AFTER_PART = READER[_FRAME][FrameEvent.PART_OF_DATA]
_AFTER_DATA = READER[ExpectedData.PAYLOAD][FrameEvent.END_OF_DATA]
_READING = SendEvent.READING
_READ = SendEvent.READ
_BLOCK_FLAGS = frames.PADDED | frames.WITH_PRIORITY | frames.END_HEADERS

_unpack_head = frames.HEAD.unpack_from
"""Bound once, since it is called for each frame of each connection."""


class _Payload(NamedTuple):
    """An incomplete DATA frame: the number of missing bytes, and its head."""

    missing: int
    flags: int
    number: int


class _Block(NamedTuple):
    """An incomplete header block.

    Attributes:
        flags, number: flags and stream of the HEADERS frame.
        fragments: joined.
        depends_on_itself: the frame says that the stream depends on itself.
    """

    flags: int
    number: int
    fragments: bytes
    depends_on_itself: bool


_NO_PAYLOAD = _Payload(0, 0, 0)
_NO_BLOCK = _Block(0, 0, b"", depends_on_itself=False)


class FrameReader(ABC):
    """Reads the frames of one connection.

    Args of the constructor:
        sender: sender of the connection.
        clock: monotonic, in seconds.

    Attributes:
        sender: holds data to be written.
    """

    def __init__(self, sender: Sender, clock: Callable[[], float]) -> None:
        self.sender = sender
        self._guard = FloodGuard(clock, lambda: sender.sent)
        self._clock = clock
        self._expect = ExpectedData.PREFACE
        self._partial = bytearray()
        self._lease: Lease | None = None  # of a large frame in `_partial`
        self._needed = 0
        self._payload = _NO_PAYLOAD
        self._block = _NO_BLOCK

    def receive(self, data: Payload) -> bytes:
        """Process data from the client, which may end anywhere within a frame, and is not kept.

        Returns:
            The rest when the turn is over, to be passed again before any other data.
        """
        if self._partial:
            data = self._gathered_piece(data)
        sender = self.sender
        sender.state = WRITER[sender.state][_READING]
        try:
            position = self._read(data)
        except ConnectionFault as fault:
            self._fail(fault)
            position = len(data)
        if sender.early:
            sender.stop_requests()
        sender.state = WRITER[sender.state][_READ]
        return b"" if position == len(data) else bytes(data[position:])

    def room(self) -> memoryview | None:
        """Give memory for the rest of a long DATA frame, if it has a buffer; pass it as data."""
        missing, _, number = self._payload
        if self._expect is not ExpectedData.PAYLOAD or missing < DIRECT:
            return None
        stream = self._taker(number)
        return stream.room(missing) if stream is not None else None

    def _read(self, data: Payload) -> int:
        """Read up to the end of the data or of the turn; return the position.

        The two frames of a small request are handled here directly, so that they cost little; every
        other frame goes through the table. DATA does not end a turn: it is cheap, and a large
        message should not wait for turns.
        """
        position, end = 0, len(data)
        until = self._clock() + TURN_S
        while position < end:
            if self._expect is not _FRAME and (reader := _READERS.get(self._expect)):
                position = reader(self, data, position)
                continue
            if end - position < frames.HEAD_BYTES:
                return self._keep(data, position, frames.HEAD_BYTES)
            high, low, kind, flags, number = _unpack_head(data, position)
            number &= frames.LAST_STREAM
            start = position + frames.HEAD_BYTES
            stop = start + (high << 8 | low)
            if kind == frames.DATA and self._expect is _FRAME and not flags & frames.PADDED:
                if stop - start > LARGEST_FRAME:
                    _check_size(kind, stop - start)
                if stop > end:
                    self._begin_payload(flags, number, stop - start)
                    position = start
                else:
                    self._on_data(data, start, stop, flags, number)
                    position = stop
                continue
            if self._clock() > until:
                return position
            if stop > end:
                _check_size(kind, stop - start)
                return self._keep(data, position, stop - position)
            # Kept beyond this read, so no view. `bytes` of bytes would take 0.1 us.
            payload = data[start:stop] if type(data) is bytes else bytes(data[start:stop])
            usual = kind == frames.HEADERS and flags & _BLOCK_FLAGS == frames.END_HEADERS
            if usual and self._expect is _FRAME and stop - start <= LARGEST_BLOCK:
                self._on_block(flags, number, payload)
            else:
                self._on_frame(kind, flags, number, payload)
            position = stop
        return position

    def _move_reader(self, piece: FrameEvent) -> None:
        self._expect = after(READER, self._expect, piece)

    def _keep(self, data: Payload, position: int, needed: int) -> int:
        """Keep a piece until it has `needed` bytes."""
        if needed >= SMALL:
            self._count(needed)
        self._partial += data[position:]
        self._needed = needed
        return len(data)

    def _gathered_piece(self, data: Payload) -> bytes:
        """Append `data` to the kept piece; return nothing while that is too short."""
        # A bytearray grows in place, so a frame that arrives byte by byte costs no more than one
        # that arrives whole.
        self._partial += data
        if len(self._partial) < self._needed:
            return b""
        data = bytes(self._partial)
        self._partial.clear()
        self._lease = None
        return data

    def _forget(self) -> None:
        """Drop an incomplete frame."""
        self._partial.clear()
        self._lease = None

    def _count(self, size: int) -> None:
        """Count a large buffered frame that is not data of a call."""
        try:
            self._lease = BUDGET.lease(size)
        except ServingError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from error

    def _read_preface(self, data: Payload, _position: int) -> int:
        """Section 3.4: the preface, which a client sends before any other data."""
        preface = frames.PREFACE
        # Compared byte by byte as it arrives: a client of another protocol may wait for a reply.
        if data[: len(preface)] != preface[: len(data)]:
            self._on_preface(valid=False)
            return len(data)
        if len(data) < len(preface):
            return self._keep(data, 0, len(data) + 1)
        self._move_reader(FrameEvent.PREFACE)
        self._on_preface(valid=True)
        return len(preface)

    def _read_nothing(self, data: Payload, _position: int) -> int:
        return len(data)

    # DATA, section 6.1.

    def _begin_payload(self, flags: int, number: int, length: int) -> None:
        """Begin an incomplete DATA frame."""
        self._begin_data(flags, number, length, length)
        self._payload = _Payload(length, flags, number)
        self._expect = _AFTER_PART

    def _read_payload(self, data: Payload, position: int) -> int:
        """Pass on the received part of an incomplete DATA frame."""
        missing, flags, number = self._payload
        stream = self._taker(number)
        stop = min(position + missing, len(data))
        missing -= stop - position
        if not missing:
            self._expect = _AFTER_DATA
            if stream is not None:
                self._pass_on(stream, data, position, stop, flags)
            return stop
        self._payload = _Payload(missing, flags, number)
        if stream is not None:
            stream.receive(data, position, stop, ends=False)
        return stop

    def _on_padded_data(self, flags: int, number: int, payload: bytes) -> None:
        data = frames.unpadded(flags & frames.PADDED, payload)
        stream = self._begin_data(flags, number, len(payload), len(data))
        if stream is not None:
            self._pass_on(stream, data, 0, len(data), flags)

    # Any other frame, by the table.

    def _on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Check a frame by its row, in the order that `rules.py` describes; then handle it."""
        _check_size(kind, len(payload))
        rule = RULES.get(kind, EXTENSION)
        self._check_expected(kind, flags, rule.name)
        if (
            number == 0
            if rule.scope is FrameScope.STREAM
            else number and rule.scope is FrameScope.CONNECTION
        ):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{rule.name} on stream {number}")
        # Counted before it is handled, so that refused frames count, too.
        if rule.weight:
            self._guard.count(rule.weight)
        if not rule.least <= len(payload) <= rule.most or len(payload) % rule.unit:
            self._refuse_size(kind, number, f"{rule.name} of {len(payload)} bytes")
        elif kind == frames.HEADERS:
            self._on_headers(flags, number, payload)
        elif kind == frames.CONTINUATION:
            self._on_continuation(flags, number, payload)
        elif kind == frames.DATA:
            self._on_padded_data(flags, number, payload)
        else:
            self._on_control(kind, flags, number, payload)

    def _check_expected(self, kind: int, flags: int, name: str) -> None:
        """Refuse a frame of a type that is not permitted at this point."""
        if self._expect is ExpectedData.SETTINGS:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
            self._move_reader(FrameEvent.SETTINGS)
            self._on_first_settings()
        elif (kind == frames.CONTINUATION) is not (self._expect is ExpectedData.CONTINUATION):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{name} where it must not be")

    def _refuse_size(self, kind: int, number: int, text: str) -> None:
        if kind != frames.PRIORITY:  # the only type whose wrong length is a stream error; 6.3
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, text)
        self._blame(number, ErrorCode.FRAME_SIZE_ERROR, text)

    # HEADERS and CONTINUATION, sections 6.2 and 6.10.

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        block = frames.unpadded(flags, payload)
        # Refused later: the block must be decoded first, to keep the table up to date.
        depends_on_itself = frames.depends_on(flags, payload) == number
        if flags & frames.END_HEADERS:
            self._on_block(flags, number, block, depends_on_itself=depends_on_itself)
        else:
            self._block = _Block(flags, number, block, depends_on_itself=depends_on_itself)
            self._move_reader(FrameEvent.PART_OF_HEADERS)

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        first = self._block
        if number != first.number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of another stream")
        block = first.fragments + payload
        if len(block) > LARGEST_BLOCK:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        if flags & frames.END_HEADERS:
            self._block = _NO_BLOCK
            self._move_reader(FrameEvent.END_OF_HEADERS)
            self._on_block(first.flags, number, block, depends_on_itself=first.depends_on_itself)
        else:
            self._block = first._replace(fragments=block)

    # Implemented by the subclass.

    @abstractmethod
    def _on_preface(self, *, valid: bool) -> None:
        """Handle the preface; `valid`: the client speaks HTTP/2."""

    @abstractmethod
    def _on_first_settings(self) -> None:
        """Handle the end of the client's preface, before its SETTINGS are handled."""

    @abstractmethod
    def _on_data(self, data: Payload, start: int, stop: int, flags: int, number: int) -> None:
        """Handle a DATA frame without padding, whose payload is data[start:stop]."""

    @abstractmethod
    def _begin_data(self, flags: int, number: int, length: int, content: int) -> Http2Stream | None:
        """Count a DATA frame by its head.

        Args:
            flags: flags of the frame.
            number: number of its stream.
            length: length of its payload: padding counts toward windows.
            content: content of its data: padding does not count toward `content-length`.

        Returns:
            The stream that takes the data; None if the data is dropped.
        """

    @abstractmethod
    def _taker(self, number: int) -> Http2Stream | None:
        """Return the stream that takes the rest of a DATA frame; None if that is dropped."""

    @abstractmethod
    def _pass_on(
        self, stream: Http2Stream, data: Payload, start: int, stop: int, flags: int
    ) -> None:
        """Pass the last part of a DATA frame to a stream: data[start:stop]."""

    @abstractmethod
    def _on_block(
        self, flags: int, number: int, block: bytes, *, depends_on_itself: bool = False
    ) -> None:
        """Handle a complete header block."""

    @abstractmethod
    def _on_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Handle a frame other than DATA, HEADERS and CONTINUATION."""

    @abstractmethod
    def _blame(self, number: int, code: ErrorCode, text: str) -> None:
        """End an open stream; for any other, end the connection: only open ones can be reset."""

    @abstractmethod
    def _fail(self, fault: ConnectionFault) -> None:
        """End the connection: later frames cannot be interpreted any more."""


_READERS: Mapping[ExpectedData, Callable[[FrameReader, Payload, int], int]] = {
    ExpectedData.PREFACE: FrameReader._read_preface,
    ExpectedData.PAYLOAD: FrameReader._read_payload,
    ExpectedData.NOTHING: FrameReader._read_nothing,
}
"""Reader of bytes that are not the start of a frame, by state."""


def _check_size(kind: int, length: int) -> None:
    """Refuse a frame by its head, before it is buffered, if its length is wrong for its type."""
    if length > LARGEST_FRAME:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"frame above {LARGEST_FRAME} bytes")
    if kind in (frames.HEADERS, frames.CONTINUATION) and length > LARGEST_BLOCK:
        raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
