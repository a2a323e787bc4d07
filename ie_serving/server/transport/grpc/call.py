"""gRPC calls, each on one HTTP/2 stream: request, answer, deadline, status.

Source: "gRPC over HTTP2". Texts of statuses that gRPC's own servers send are the same as theirs.
"""

import asyncio
import enum
import time
from collections.abc import Callable, Coroutine, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease
from ie_serving.core.runtime.eager_start import UnfinishedWork, proceed_unawaited
from ie_serving.core.runtime.states import after
from ie_serving.core.runtime.threads import let_go
from ie_serving.core.values.codes import ENDED, Code, code_of
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    ServingError,
)
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc import header_blocks
from ie_serving.server.transport.grpc.header_blocks import CallHead
from ie_serving.server.transport.grpc.message_reader import (
    IDENTITY,
    PREFIX,
    GrpcMessage,
    MessageReader,
    MessageTooLarge,
    compressed,
    inflated,
    too_large,
)
from ie_serving.server.transport.grpc.services import NO_SUCH_METHOD, Buffer, Unary
from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.headers import HeaderFields
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.http2.streams import Http2Stream

JOINED: Final = 32 * 1024
"""Largest answer in bytes that is copied into one buffer with its headers: a write of several
buffers costs more than the copy. Larger ones are sent from their own memory."""

_OPENING = frames.headers(0, header_blocks.HEADERS, ends=False)[:5]
_ENDING = frames.headers(0, header_blocks.SUCCESS, ends=True)[:5]
"""Frame heads around every reply of one message, up to the stream's number."""
_BEFORE = Struct(f">5sL{len(header_blocks.HEADERS)}sHBBBLBL")
"""HEADERS, the head of DATA, and the prefix of the message."""
_AFTER = Struct(f">5sL{len(header_blocks.SUCCESS)}s")

UNKNOWN_METHOD = header_blocks.failure(Code.UNIMPLEMENTED, NO_SUCH_METHOD, alone=True)


class ReplyStage(enum.IntEnum):
    """How much of the reply is sent: headers, then messages, then a status; "gRPC over HTTP2".

    A failure before the headers is sent as a single header block ("Trailers-Only").
    """

    NOTHING = enum.auto()
    HEADERS = enum.auto()
    ALL = enum.auto()


class ReplyEvent(enum.IntEnum):
    """Events of a reply."""

    BEGIN = enum.auto()  # its headers are sent; messages follow
    END = enum.auto()  # its status is sent, or nothing is wanted any more


REPLY: Final[Mapping[ReplyStage, Mapping[ReplyEvent, ReplyStage]]] = {
    ReplyStage.NOTHING: {
        ReplyEvent.BEGIN: ReplyStage.HEADERS,
        ReplyEvent.END: ReplyStage.ALL,
    },
    ReplyStage.HEADERS: {ReplyEvent.END: ReplyStage.ALL},
    # A call is cancelled also behind the status that it was ended with.
    ReplyStage.ALL: {ReplyEvent.END: ReplyStage.ALL},
}

# Before Python 3.12, looking up an enum member is a function call; every call needs these members.
# Its moves are looked up once: a look-up would cost each call as much as a function call.
_NOTHING: Final = ReplyStage.NOTHING
_ALL: Final = ReplyStage.ALL
_BEGUN: Final = REPLY[_NOTHING][ReplyEvent.BEGIN]
_SENT_AT_ONCE: Final = REPLY[_NOTHING][ReplyEvent.END]


class CallSettings(NamedTuple):
    """Settings for all calls of a server.

    Attributes:
        limit: bytes of the largest message.
        refused: called for each unary call that ends before its method has begun, being too large,
            too late or not inflatable, since the metrics cannot see it. A call that ends later is
            cancelled, with the code that it ends with as message.
        small: largest message in bytes that the budget does not count while it is processed.
    """

    limit: int
    refused: Callable[[BaseException], None]
    small: int


class Call(Http2Stream):
    """One call. The connection feeds it; it answers through the connection's sender.

    Args of the constructor:
        number: number of the stream.
        request: its headers.
        sender: sender of the connection.
        rules: rules of calls, as in `CallSettings`.
        method: answers the call.
    """

    __slots__ = (
        "_answered",
        "_deadline",
        "_lease",
        "_method",
        "_reader",
        "_request",
        "_rules",
        "_sender",
        "_task",
        "_timer",
    )
    _trailing = _after = b""  # a subclass's metadata, and the frame that ends a reply with it

    def __init__(
        self,
        number: int,
        request: CallHead,
        sender: Sender,
        rules: CallSettings,
        method: Any,  # noqa: ANN401  a subclass knows which
    ) -> None:
        self.number = number
        self._request = request
        self._sender = sender
        self._rules = rules
        self._method = method
        self._answered: ReplyStage = _NOTHING
        self._reader: MessageReader | None = None
        self._lease: Lease | None = None
        self._task: UnfinishedWork | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        if request.timeout_s is not None:
            self._start_clock(request.timeout_s)

    def time_remaining(self) -> float | None:
        """See `CallContext`."""
        if self._deadline is None:
            return None
        # The clock of the event loop, which any thread can read.
        return max(0.0, self._deadline - time.monotonic())

    def invocation_metadata(self) -> HeaderFields:
        """See `CallContext`."""
        return tuple(field for field in self._request.fields if field[0][:1] != b":")

    # Called by the connection.

    def receive(self, data: Buffer, start: int, stop: int, *, ends: bool) -> None:
        """See `Http2Stream`: a part of the request's messages."""
        if self._reader is None:
            self._reader = MessageReader(self._rules.limit)
        try:
            messages = self._reader.feed(data, start, stop)
        except MessageTooLarge as error:
            self._refuse(too_large(error.length, self._rules.limit))
            return
        except ServingError as error:  # the budget refuses the message
            self._refuse(error)
            return
        for message in messages:
            if self._answered is not _ALL:
                self._take(message)
        if ends and self._answered is not _ALL:
            self.input_ended()

    def input_ended(self) -> None:
        """See `Http2Stream`."""
        if self._reader and self._reader.within:
            self._refuse(InvalidRequest("the request ends within a message; send all of it"))
        else:
            self._input_complete()

    def finished(self) -> None:
        """See `Http2Stream`."""
        self._answered = after(REPLY, self._answered, ReplyEvent.END)
        self._lease = self._reader = None
        if self._timer:
            self._timer.cancel()

    def cancelled(self) -> None:
        """See `Http2Stream`: the client no longer waits for the reply."""
        is_late = self._request.is_nearly_late(self.time_remaining())
        self._break_off(Code.DEADLINE_EXCEEDED if is_late else Code.CANCELLED)

    def _break_off(self, code: Code) -> None:
        """End the call, and cancel its work; `code` is for the metrics."""
        self.finished()
        # Reference dropped: a cancelled task refers to its frames, and these to the call.
        task, self._task = self._task, None
        if task:
            task.cancel(code)

    def stop(self) -> None:
        """See `Http2Stream`."""
        self.fail(Code.UNAVAILABLE, "the server is shutting down; ask again elsewhere")
        self.cancelled()

    # Implemented by subclasses.

    def _take(self, message: GrpcMessage) -> None:
        raise NotImplementedError

    def _input_complete(self) -> None:
        raise NotImplementedError

    # The answer.

    def fail_with(self, error: Exception) -> None:
        """End the call with the status of `error`."""
        self.fail(*explain(error))

    def fail(self, code: Code, text: str, whole: str = "") -> None:
        """End the call with a status, unless it has ended; see `header_blocks.failure`."""
        if self._answered is _ALL:
            return
        # If nothing was sent yet, headers and status are one frame: Trailers-Only.
        alone = self._answered is _NOTHING
        status = header_blocks.failure(code, text, whole, alone=alone) + self._trailing
        self._sender.finish(self, frames.headers(self.number, status, ends=True))

    def _refuse(self, error: Exception) -> None:
        """End the call with the status of `error`, and cancel its work."""
        self.fail_with(error)
        self._break_off(code_of(error))

    def _start_clock(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + seconds
        self._timer = loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._refuse(
            DeadlineExceeded(f"Deadline Exceeded: no reply within {self._request.timeout_s:g} s")
        )

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            awaited = work.send(None)
        except (StopIteration, asyncio.CancelledError):
            return  # it has ended; if cancelled, by itself, since its call is answered
        self._task = proceed_unawaited(work, awaited)

    def _start_reply(self) -> None:
        if self._answered is _NOTHING:
            self._answered = _BEGUN
            self._sender.write(frames.headers(self.number, header_blocks.HEADERS, ends=False))

    def _send_message(self, message: Buffer) -> None:
        # Counted while it waits for the client, which may never read it.
        self._lease = BUDGET.lease(len(message))
        self._start_reply()
        self._sender.send(self, PREFIX.pack(0, len(message)), message)

    def _end_reply(self) -> None:
        self._start_reply()
        ending = self._after or frames.headers(self.number, header_blocks.SUCCESS, ends=True)
        self._sender.end(self, ending)

    async def _content(self, message: GrpcMessage) -> Buffer:
        """Return a message's bytes, inflated if they are compressed."""
        compressed, content = message
        if not compressed:
            return content
        try:
            return await inflated(content, self._request.encoding, self._rules.limit)
        except ENDED as error:
            self._rules.refused(error)
            raise

    def _interrupted(self, error: asyncio.CancelledError) -> None:
        """Answer when the work was cancelled by other code than this call."""
        let_go(error)
        self.fail(Code.CANCELLED, "the server has cancelled the call; ask again")


class CallOpener:
    """Opens the call of a request.

    Args of the constructor:
        methods: kind of call and method, by path.
        rules: rules of calls, as in `CallSettings`.
    """

    def __init__(
        self, methods: Mapping[bytes, tuple[type[Call], Any]], rules: CallSettings
    ) -> None:
        self.methods = methods
        self.rules = rules

    def accept(self, number: int, request: CallHead, sender: Sender) -> Call | bytes:
        """Return the call of a stream, or the header block that refuses it."""
        found = self.methods.get(request.path)
        if found is None or request.refusal is not None:
            return request.refusal or UNKNOWN_METHOD
        kind, method = found
        return kind(number, request, sender, self.rules, method)


WAITING: Final = 8 * 1024
"""Bytes of a call while it waits for its reply, without its message: frames of coroutines, and
mostly a task."""


class UnaryCall(Call):
    """A call with one message in, one message out. Its method is a `Unary`."""

    __slots__ = ("_message", "_size")
    _method: Unary

    def begun(self) -> None:
        """See `Http2Stream`."""
        self._message: GrpcMessage | None = None
        self._size = 0  # of the reply with its prefix, once there is one

    def receive(self, data: Buffer, start: int, stop: int, *, ends: bool) -> None:
        """See `Call`; a small request that arrives in one piece is not buffered."""
        # Most requests are one message in one frame: nothing has to be joined.
        if ends and self._reader is None and stop - start >= PREFIX.size:
            compressed, length = PREFIX.unpack_from(data, start)
            if length == stop - start - PREFIX.size and length <= self._rules.small:
                content = data[start + PREFIX.size : stop]
                if type(content) is not bytes:  # `bytes` of bytes would take 0.1 us
                    content = bytes(content)
                self._message = (bool(compressed), content)
                self._run(self._work(self._message))
                if self._task is not None:
                    self._wait(length)
                return
        super().receive(data, start, stop, ends=ends)

    def room(self, most: int) -> memoryview | None:
        """See `Http2Stream`."""
        return self._reader.room(most) if self._reader else None

    def _take(self, message: GrpcMessage) -> None:
        if self._message:
            self._refuse_count("more")
        self._message = message

    def _input_complete(self) -> None:
        message = self._message
        if message:
            self._run(self._work(message))
            if self._task is not None:
                self._wait(min(len(message[1]), SMALL))
        else:
            self._refuse_count("none")

    def _refuse(self, error: Exception) -> None:
        if self._task is None:
            self._rules.refused(error)
        super()._refuse(error)

    def _wait(self, size: int) -> None:
        """Count a small message, and its call, if the reply is not ready at once."""
        if self._answered is _ALL:
            return
        try:
            self._lease = BUDGET.lease(size + WAITING)
        except ServingError as error:
            self._refuse(error)

    async def _sent_compressed(self, reply: Buffer) -> bool:
        """Send a reply compressed as the client's request was; False if that does not pay."""
        encoding = self._request.reply_encoding
        smaller = await compressed(reply, encoding)
        if self._answered is _ALL:  # a deadline has expired meanwhile
            return True
        if smaller is not None:
            self._lease = BUDGET.lease(len(smaller))
            self._answered = _BEGUN
            opening = frames.headers(self.number, header_blocks.COMPRESSED[encoding], ends=False)
            self._sender.write(opening)
            self._sender.send(self, PREFIX.pack(1, len(smaller)), smaller)
            self._end_reply()
        return smaller is not None

    def _refuse_count(self, came: str) -> None:
        self._refuse(NotSupported(f"a unary method takes exactly one message; {came} came"))

    async def _work(self, message: GrpcMessage) -> None:
        """Answer; send a reply that fits all at once."""
        # The message may be large: only its content is kept while the model runs.
        self._message = None
        content: Buffer = b""
        try:
            content = await self._content(message) if message[0] else message[1]
            del message
            reply = await self._method(content, self)
            if self._answered is _ALL:
                return
            number, size = self.number, PREFIX.size + len(reply)
            self._size = size
            if self._request.reply_encoding is not IDENTITY and await self._sent_compressed(reply):
                return
            if size <= JOINED:
                data = (size >> 8, size & 0xFF, frames.DATA, 0, number, 0, len(reply))
                before = _BEFORE.pack(_OPENING, number, header_blocks.HEADERS, *data)
                ending = self._after or _AFTER.pack(_ENDING, number, header_blocks.SUCCESS)
                # Joined inline: each further call would cost as much as the join.
                if self._sender.send_whole(self, size, b"".join((before, reply, ending))):
                    self._answered = _SENT_AT_ONCE
                    if self._timer:
                        self._timer.cancel()
                    return
            self._send_message(reply)
            self._end_reply()
        except asyncio.CancelledError as error:
            content = b""
            self._interrupted(error)
            raise
        except Exception as error:
            content = b""
            self.fail_with(error)
