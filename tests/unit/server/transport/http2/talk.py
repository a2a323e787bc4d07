"""A connection without a socket, a clock that stands still, and streams that say what they hear."""

from collections.abc import Callable
from typing import Any

from hyperframe.frame import Frame, GoAwayFrame, RstStreamFrame

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.connection import Http2Connection
from ie_serving.server.transport.http2.headers import HeaderFields
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.http2.stream_states import SendState
from ie_serving.server.transport.http2.streams import Http2Stream
from tests.unit.server.transport.http2.peer import HELLO, Header, call_headers, headers
from tests.unit.server.transport.http2.wire import parsed

QUIET = "ok"


class Heard(Http2Stream):
    """A stream that notes its events, and answers when it is told to."""

    def __init__(self, sender: Sender, answer: Callable[["Heard"], None]) -> None:
        self._sender = sender
        self._answer = answer
        self.events: list[str] = []
        self.data = b""

    def begun(self) -> None:
        self.events.append("begun")
        self._answer(self)

    def receive(self, data: bytes, start: int, stop: int, *, ends: bool) -> None:
        self.data += data[start:stop]
        if ends:
            self.events.append("whole")

    def input_ended(self) -> None:
        self.events.append("whole")

    def all_sent(self) -> None:
        self.events.append("all sent")

    def finished(self) -> None:
        self.events.append("finished")

    def cancelled(self) -> None:
        self.events.append("cancelled")

    def stop(self) -> None:
        self.answer()

    def answer(self) -> None:
        self._sender.finish(self, frames.headers(self.number, b"", ends=True))


def silent(_: Heard) -> None:
    """Answer nothing."""


class Talk:
    """One connection, what it writes, and its streams by number.

    Attributes:
        now: the clock's time.
        answer: what each new stream does when it has begun.
        refuse: header block that new requests are refused with; None takes them.
    """

    def __init__(self, *hello: bytes) -> None:
        self.now = 0.0
        self.written = b""
        self.streams: dict[int, Heard] = {}
        self.requests: list[HeaderFields] = []
        self.answer = silent
        self.refuse: bytes | None = None
        self.connection = Http2Connection(
            lambda fields, _: fields, self._accept, self._take, lambda: self.now
        )
        self.say(*(hello or (HELLO,)))
        self.written = b""

    def _accept(self, number: int, request: Any, sender: Sender) -> Http2Stream | bytes:
        self.requests.append(request)
        if self.refuse is not None:
            return self.refuse
        stream = self.streams[number] = Heard(sender, self.answer)
        return stream

    def say(self, *parts: bytes) -> bytes:
        """Let the client send; give what the connection leaves for the next turn."""
        rest = self.connection.receive(b"".join(parts))
        self._take()
        return rest

    def _take(self) -> None:
        sender = self.connection.sender
        if sender.state is SendState.PAUSED:
            return
        self.written += b"".join(sender.out)
        sender.out.clear()
        while pieces := sender.turn():
            self.written += b"".join(pieces)

    def frames(self) -> list[Frame]:
        """Frames that were written since the last time."""
        written, self.written = self.written, b""
        return parsed(written)

    def verdict(self) -> str:
        """Give the error that was answered since the last time, and on what."""
        found = self.frames()
        for frame in found:
            if isinstance(frame, GoAwayFrame) and frame.error_code:
                return f"goaway {frame.error_code}"
        for frame in found:
            if isinstance(frame, RstStreamFrame) and frame.error_code:
                return f"reset {frame.error_code}"
        return QUIET


def opened(number: int, *flags: str) -> bytes:
    """HEADERS of a request."""
    return headers(number, call_headers("Any"), *flags)


def request(*more: Header, without: str = "") -> list[Header]:
    """Fields of a request, but for those of one name."""
    return [f for f in call_headers("Any") if f[0] != without] + list(more)
