"""gRPC calls, each on one stream: request, answer, deadline, status.

Source: "gRPC over HTTP2". Texts of statuses that gRPC's own servers send are theirs.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

from ie_serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    QueueFull,
    RequestTooLarge,
    ServingError,
)
from ie_serving.server.calls import Answer, Buffer, Streaming
from ie_serving.server.eager import begin
from ie_serving.server.http2 import replies
from ie_serving.server.http2.headers import INFLATERS, Pairs, RequestHead
from ie_serving.server.http2.message_reader import Message, MessageReader, MessageTooLarge
from ie_serving.server.http2.sender import Sender
from ie_serving.server.status import Code, explain

LARGE = 4 * 1024
"""From this size on, messages are inflated in a thread: they grow a thousandfold."""
MOST_UNREAD = 1000
"""Requests of a streaming call that wait for the service."""
MOST_UNREAD_BYTES = 4 << 20


class Call:
    """One call. The connection feeds it; it answers through the connection's sender.

    Args of the constructor:
        number: the stream's.
        head: headers of the request.
        sender: of the connection.
        limit: bytes of the largest message.

    Attributes:
        complete: the client has sent all of its request.
        ended: the last frame has been written, or the client is gone.
        unacknowledged: bytes of data that were not given back to the client's window yet.
        number, window, unsent, trailers: see `sender.Outgoing`.
    """

    __slots__ = (
        "_deadline",
        "_head",
        "_limit",
        "_reader",
        "_sender",
        "_started",
        "_task",
        "_timer",
        "complete",
        "ended",
        "number",
        "trailers",
        "unacknowledged",
        "unsent",
        "window",
    )

    def __init__(self, number: int, head: RequestHead, sender: Sender, limit: int) -> None:
        self.number = number
        self.window = sender.initial_window
        self.unsent: deque[Buffer] = deque()
        self.trailers: bytes | None = None
        self.unacknowledged = 0
        self.ended = self.complete = False
        self._head = head
        self._sender = sender
        self._limit = limit
        self._reader = MessageReader(limit)
        self._started = False
        self._task: asyncio.Task[None] | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout_s is not None:
            self._start_clock(head.timeout_s)

    def time_remaining(self) -> float | None:
        """See `CallContext`."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def invocation_metadata(self) -> Pairs:
        """See `CallContext`."""
        return self._head.metadata

    def start(self) -> None:
        """Begin what need not wait for the request. The connection knows the call by now."""

    def receive(self, data: bytes, start: int, stop: int) -> None:
        """Take data[start:stop], a part of the request."""
        try:
            messages = self._reader.feed(data, start, stop)
        except MessageTooLarge as error:
            self._refuse(self._too_large(error.length))
            return
        for message in messages:
            if not self.ended:
                self._take(message)

    def end_request(self) -> None:
        """Know that the client has sent all of its request."""
        self.complete = True
        if self.ended:
            return
        if self._reader.within:
            self._refuse(InvalidRequest("the request ends within a message; send all of it"))
        else:
            self._taken()

    def _take(self, message: Message) -> None:
        raise NotImplementedError

    def _taken(self) -> None:
        raise NotImplementedError

    def fail_with(self, error: Exception) -> None:
        """End the call with the status of `error`."""
        self.fail(*explain(error))

    def fail(self, code: Code, text: str) -> None:
        """End the call with a status, unless it has ended."""
        if self.ended:
            return
        status = replies.failure(code, text, alone=not self._started)
        self._sender.finish(self, replies.headers_frame(self.number, status, ends=True))

    def _refuse(self, error: Exception) -> None:
        """End the call with the status of `error`, and whatever still works for it."""
        self.fail_with(error)
        self.cancel()

    def drained(self) -> None:
        """See `sender.Outgoing`."""

    def close(self) -> None:
        """Know that nothing more is sent."""
        self.ended = True
        if self._timer:
            self._timer.cancel()

    def cancel(self) -> None:
        """Drop the call: its client is gone or waits no longer."""
        self.close()
        self._sender.forget(self)
        if self._task:
            self._task.cancel()

    def _start_clock(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + seconds
        self._timer = loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._refuse(
            DeadlineExceeded(f"Deadline Exceeded: no reply within {self._head.timeout_s:g} s")
        )

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._task = begin(work)
        except asyncio.CancelledError:
            return  # it is answered; nobody here was to be cancelled

    def _start_reply(self) -> None:
        if not self._started:
            self._started = True
            self._sender.write(replies.headers_frame(self.number, replies.HEADERS, ends=False))

    def _end_reply(self) -> None:
        self._start_reply()
        success = replies.headers_frame(self.number, replies.SUCCESS, ends=True)
        self._sender.end(self, success)

    async def _content(self, message: Message) -> Buffer:
        """Give a message's bytes, inflated if it is compressed."""
        compressed, content = message
        if not compressed:
            return content
        if self._head.encoding not in INFLATERS:
            # INTERNAL, as gRPC's rules of compression demand.
            raise ServingError("a message is marked as compressed, but grpc-encoding is identity")
        if len(content) < LARGE:
            return self._inflate(content)
        return await asyncio.to_thread(self._inflate, content)

    def _inflate(self, content: Buffer) -> bytes:
        """Inflate; to at most the limit."""
        inflater = zlib.decompressobj(INFLATERS[self._head.encoding])
        try:
            data = inflater.decompress(content, self._limit + 1)
        except zlib.error as error:
            raise InvalidRequest(f"a message cannot be decompressed: {error}") from error
        if len(data) > self._limit:
            raise self._too_large(len(data))
        if not inflater.eof or inflater.unused_data:
            raise InvalidRequest("a message cannot be decompressed: its end is not where it should")
        return data

    def _too_large(self, length: int) -> RequestTooLarge:
        return RequestTooLarge(
            f"Received message larger than max ({length} vs. {self._limit}): send less at once, or"
            " raise --max_message_bytes"
        )

    def _interrupted(self) -> None:
        """Answer when the work was cancelled, but not by this call."""
        self.fail(Code.CANCELLED, "the server has cancelled the call; ask again")


class UnaryCall(Call):
    """One message in, one message out.

    Args of the constructor:
        answer: gives the reply.
    """

    __slots__ = ("_answer", "_messages")

    def __init__(
        self, number: int, head: RequestHead, sender: Sender, limit: int, answer: Answer
    ) -> None:
        super().__init__(number, head, sender, limit)
        self._answer = answer
        self._messages: list[Message] = []

    def _take(self, message: Message) -> None:
        self._messages.append(message)
        if len(self._messages) > 1:
            self._refuse_count("more")

    def _taken(self) -> None:
        if self._messages:
            self._run(self._work())
        else:
            self._refuse_count("none")

    def _refuse_count(self, came: str) -> None:
        self._refuse(NotSupported(f"a unary method takes exactly one message; {came} came"))

    async def _work(self) -> None:
        try:
            message = self._messages.pop()
            content = await self._content(message) if message[0] else message[1]
            self._reply(await self._answer(content, self))
        except asyncio.CancelledError:
            self._interrupted()
            raise
        except Exception as error:
            self.fail_with(error)

    def _reply(self, message: Buffer) -> None:
        if self.ended or self._sender.reply_at_once(self, message):
            return
        self._start_reply()
        self._sender.send(self, message)
        self._end_reply()


class StreamingCall(Call):
    """Messages in, messages out.

    Args of the constructor:
        method: gives the replies.
    """

    __slots__ = ("_method", "_sent", "_unread", "_unread_bytes")

    def __init__(
        self, number: int, head: RequestHead, sender: Sender, limit: int, method: Streaming
    ) -> None:
        super().__init__(number, head, sender, limit)
        self._method = method
        self._unread: asyncio.Queue[Message | None] = asyncio.Queue()
        self._unread_bytes = 0
        self._sent = asyncio.Event()

    def start(self) -> None:
        """See `Call`."""
        self._run(self._work())

    def drained(self) -> None:
        """See `sender.Outgoing`."""
        self._sent.set()

    def _take(self, message: Message) -> None:
        self._unread.put_nowait(message)
        self._unread_bytes += len(message[1])
        if self._unread.qsize() > MOST_UNREAD or self._unread_bytes > MOST_UNREAD_BYTES:
            self._refuse(
                QueueFull(
                    f"more than {MOST_UNREAD} messages or {MOST_UNREAD_BYTES} bytes wait; send"
                    " less at once"
                )
            )

    def _taken(self) -> None:
        self._unread.put_nowait(None)

    async def _work(self) -> None:
        try:
            async with aclosing(self._method.converse(self._requests())) as answers:
                async for reply in answers:
                    await self._reply(reply)
        except asyncio.CancelledError:
            self._interrupted()
            raise
        except Exception as error:
            self.fail_with(error)
        else:
            self._end_reply()

    async def _requests(self) -> AsyncIterator[Buffer]:
        while (message := await self._unread.get()) is not None:
            self._unread_bytes -= len(message[1])
            yield await self._content(message)

    async def _reply(self, message: Buffer) -> None:
        """Send a message; wait until the client takes it, since more may follow."""
        self._start_reply()
        self._sent.clear()
        self._sender.send(self, message)
        await self._sent.wait()
