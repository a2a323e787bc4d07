"""What one connection sends: at once where the client's windows allow it, in turns where not."""

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from time import monotonic
from typing import Protocol

from ie_serving.server.calls import Buffer
from ie_serving.server.http2 import frames, replies
from ie_serving.server.http2.frames import ConnectionFault, ErrorCode
from ie_serving.server.http2.message_reader import PREFIX

JOINED = 32 * 1024
"""Replies below this size are copied into one buffer with their headers."""
TURN = 256 * 1024
"""Bytes that one stream sends before the next gets its turn."""
HIGH_WATER = 256 * 1024
"""Bytes that wait for a slow client before its streams pause."""
MOST_UNSENT = 5000
"""Frames other than data that a client which reads nothing may cause."""
FLUSH_AFTER_S = 0.001
"""Replies to requests that were read together wait for each other no longer than this."""

_OPENING = frames.head(frames.HEADERS, frames.END_HEADERS, 0, len(replies.HEADERS))[:5]
_ENDING = frames.head(
    frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 0, len(replies.SUCCESS)
)[:5]
"""Heads of the frames around every reply of one message, up to the stream's number."""
_BEFORE = Struct(f">5sL{len(replies.HEADERS)}sHBBBLBL")
"""HEADERS, the head of DATA, the prefix of the message."""
_AFTER = Struct(f">5sL{len(replies.SUCCESS)}s")


class Outgoing(Protocol):
    """What of a stream the sender knows.

    Attributes:
        number: the stream's.
        window: bytes that the client takes on it.
        unsent: its data that waits.
        trailers: the frame that ends it once all data is sent; None while it goes on.
    """

    number: int
    window: int
    unsent: "deque[Buffer]"
    trailers: bytes | None

    def drained(self) -> None:
        """Know that no data waits any more."""


class Sender:
    """The sending half of a connection.

    Args of the constructor:
        ended: called with each stream whose end has been sent.

    Attributes:
        initial_window: window of streams that are opened from now on.
        frame: largest payload of a frame that the client takes.
        paused: the client does not read; what is to be sent waits.
    """

    def __init__(self, ended: Callable[[int], None]) -> None:
        self.initial_window = frames.DEFAULT_WINDOW
        self.frame = frames.DEFAULT_FRAME
        self._ended = ended
        self._window = frames.DEFAULT_WINDOW
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._waiting: dict[Outgoing, None] = {}
        self.paused = False
        self._held_since: float | None = None

    def attach(self, transport: asyncio.Transport) -> None:
        """Begin to write to `transport`."""
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)

    def detach(self) -> None:
        """Drop whatever is still to be sent: the client is gone."""
        self._transport = None
        self._waiting.clear()
        self._out.clear()

    def hold(self) -> None:
        """Gather what is written until `release`."""
        self._held_since = monotonic()

    def release(self) -> None:
        """Write what was gathered."""
        self._held_since = None
        self._flush()

    def write(self, frame: bytes) -> None:
        """Write frames that no window governs; give the client up where too many wait already."""
        if self._transport is None:
            return
        self._out.append(frame)
        if self.paused and len(self._out) > MOST_UNSENT:
            self._transport.abort()
        self._flush_unless_held()

    def reply_at_once(self, stream: Outgoing, message: Buffer) -> bool:
        """Send headers, one message and the trailers of success.

        Returns:
            False, and nothing is sent, where it does not fit into one frame and the windows.
        """
        size = PREFIX.size + len(message)
        if self._blocked(stream, size):
            return False
        self._window -= size
        self._out.append(_whole_reply(stream.number, message))
        self._ended(stream.number)
        self._flush_unless_held()
        return True

    def _blocked(self, stream: Outgoing, size: int) -> bool:
        return (
            size > JOINED
            or size > self.frame
            or size > self._window
            or size > stream.window
            or self.paused
            or bool(self._waiting)
        )

    def send(self, stream: Outgoing, message: Buffer) -> None:
        """Send a message as soon as the windows allow it; headers were sent before."""
        stream.unsent.append(PREFIX.pack(0, len(message)))
        if message:
            stream.unsent.append(message)
        self._waiting[stream] = None
        self._pump()

    def end(self, stream: Outgoing, trailers: bytes) -> None:
        """Send the end of a stream after all its data."""
        stream.trailers = trailers
        self._waiting[stream] = None
        self._pump()

    def finish(self, stream: Outgoing, trailers: bytes) -> None:
        """Send the end of a stream instead of what it still has to send."""
        self.forget(stream)
        self._ended(stream.number)
        self.write(trailers)

    def forget(self, stream: Outgoing) -> None:
        """Send nothing more of a stream."""
        self._waiting.pop(stream, None)
        stream.unsent.clear()

    def pause(self) -> None:
        """Stop sending data until `resume`: the client does not read."""
        self.paused = True

    def resume(self) -> None:
        """Go on."""
        self.paused = False
        self._pump()
        self._flush_unless_held()

    def widen(self, increment: int) -> None:
        """Take more data for the connection.

        Raises:
            ConnectionFault: the window becomes too large.
        """
        self._window += increment
        if self._window > frames.LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "window above 2^31-1")
        self._pump()

    def widened(self, stream: Outgoing) -> None:
        """Go on with a stream whose window has grown."""
        if stream.unsent:
            self._waiting[stream] = None
            self._pump()

    def _pump(self) -> None:
        while self._waiting and not self.paused:
            stream = next(iter(self._waiting))
            if stream.unsent and self._window <= 0:
                return
            del self._waiting[stream]
            self._send_turn(stream)

    def _send_turn(self, stream: Outgoing) -> None:
        """Send as much of one stream as its turn and the windows allow."""
        room = min(TURN, self._window, stream.window)
        pieces: list[Buffer] = []
        while stream.unsent and room > 0:
            size = _take(stream.unsent, min(room, self.frame), stream.number, pieces)
            room -= size
            self._window -= size
            stream.window -= size
        if not stream.unsent and stream.trailers is not None:
            pieces.append(stream.trailers)
            self._ended(stream.number)
        elif not stream.unsent:
            stream.drained()
        elif stream.window > 0:
            self._waiting[stream] = None
        self._write_large(pieces)

    def _write_large(self, pieces: list[Buffer]) -> None:
        if not pieces:
            return
        self._flush()
        if self._transport:
            self._transport.writelines(pieces)

    def _flush_unless_held(self) -> None:
        if self._held_since is None:
            self._flush()
        elif monotonic() - self._held_since > FLUSH_AFTER_S:
            self._flush()
            self._held_since = monotonic()

    def _flush(self) -> None:
        if self._out and self._transport and not self.paused:
            self._transport.write(b"".join(self._out))
            self._out.clear()


def _whole_reply(number: int, message: Buffer) -> bytes:
    """Write the three frames of a reply at once."""
    size = PREFIX.size + len(message)
    data = (size >> 8, size & 0xFF, frames.DATA, 0, number)
    before = _BEFORE.pack(_OPENING, number, replies.HEADERS, *data, 0, len(message))
    return b"".join((before, message, _AFTER.pack(_ENDING, number, replies.SUCCESS)))


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
