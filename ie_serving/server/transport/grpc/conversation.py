"""Streaming gRPC calls: server-side, client-side and bidirectional.

A client may send as far ahead of the service as the receive window of its stream allows. The window
is given back only when the service asks for more than has arrived, so a client that sends faster
than it is answered has to wait. Until then received data stays raw bytes: as objects, very small
messages would take thirty times as much memory.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import DeadlineExceeded, ServingError
from ie_serving.server.transport.grpc.call import Call, ReplyStage
from ie_serving.server.transport.grpc.message_reader import GrpcMessage
from ie_serving.server.transport.grpc.services import Buffer, StreamingMethod
from ie_serving.server.transport.http2.streams import STREAM_WINDOW, ReceiveWindow
from ie_serving.server.transport.peer import LEAST_READ, UNREAD_S

STEP: Final = 16 * 1024
"""Bytes that are split into messages (3,000 at most) when the service asks for the next one."""
WAITING: Final = 256
"""Bytes of a waiting message beside its content."""
ITSELF: Final = 8 * 1024
"""Bytes of a conversation without messages: task, queue, frames of generators."""
_ALL: Final = ReplyStage.ALL
_NEVER: Final = -1
"""Window size at which the connection never gives back the window: the service does."""


class StreamingCall(Call):
    """A call with a stream of messages each way. Its method is a `StreamingMethod`."""

    __slots__ = ("_held", "_sent", "_unread", "_unread_lease", "_watching", "_whole")
    _method: StreamingMethod

    def begun(self) -> None:
        """See `Stream`."""
        self.receive_window = ReceiveWindow(self.number, STREAM_WINDOW)
        self.receive_window.half = _NEVER
        self._held = bytearray()  # data behind messages that the service has not read
        self._whole = False  # all of the request has arrived, but the service has not seen its end
        self._unread: asyncio.Queue[GrpcMessage | None] = asyncio.Queue()
        self._unread_lease = Lease(BUDGET)
        self._sent = asyncio.Event()
        try:
            self._unread_lease.take(ITSELF)
        except ServingError as error:
            self._refuse(error)
            return
        self._run(self._work())

    def receive(self, data: Buffer, start: int, stop: int, *, ends: bool) -> None:
        """See `Call`: parsed at once while the service waits for a message."""
        while start < stop and self._is_waited_for():
            end = min(start + STEP, stop)
            super().receive(data, start, end, ends=False)
            start = end
        if start < stop and self._answered is not _ALL:
            self._hold(data[start:stop])
        self._whole = self._whole or ends
        self._settle()

    def input_ended(self) -> None:
        """See `Stream`."""
        self._whole = True
        self._settle()

    def all_sent(self) -> None:
        """See `Stream`."""
        self._lease = None
        self._sent.set()

    def finished(self) -> None:
        """See `Stream`."""
        super().finished()
        self._held.clear()
        self._unread_lease.release()

    def _is_waited_for(self) -> bool:
        return not (self._held or self._unread.qsize() or self._answered is _ALL)

    def _hold(self, data: Buffer) -> None:
        try:
            self._unread_lease.take(len(data))
        except ServingError as error:
            self._refuse(error)
            return
        self._held += data

    def _go_on(self) -> None:
        """Split held data into messages until there is one for the service."""
        while self._held and not self._unread.qsize() and self._answered is not _ALL:
            piece = bytes(self._held[:STEP])
            del self._held[:STEP]
            self._unread_lease.give(len(piece))
            super().receive(piece, 0, len(piece), ends=False)
        self._settle()

    def _settle(self) -> None:
        """If no data is held, signal the end of the request, or let the client send more."""
        window = self.receive_window
        if self._held or self._answered is _ALL or window is None:
            return
        if self._whole:
            self._whole = False
            super().input_ended()
        elif window.left < STREAM_WINDOW // 2 and not self._unread.qsize():
            self._sender.write(window.renew())

    def _take(self, message: GrpcMessage) -> None:
        try:
            self._unread_lease.take(len(message[1]) + WAITING)
        except ServingError as error:
            self._refuse(error)
            return
        self._unread.put_nowait(message)

    def _input_complete(self) -> None:
        # None ends the iterator of `_requests`.
        self._unread.put_nowait(None)

    async def _work(self) -> None:
        try:
            # An abandoned service generator must clean up now, not at garbage collection.
            async with aclosing(self._method.converse(self._requests(), self)) as answers:
                async for reply in answers:
                    await self._reply(reply)
        except asyncio.CancelledError as error:
            self._interrupted(error)
            raise
        except Exception as error:
            self.fail_with(error)
        else:
            self._end_reply()

    async def _requests(self) -> AsyncIterator[Buffer]:
        while (message := await self._next()) is not None:
            self._unread_lease.give(len(message[1]) + WAITING)
            yield await self._content(message)

    async def _next(self) -> GrpcMessage | None:
        if not self._unread.qsize():
            self._go_on()
        return await self._unread.get()

    async def _reply(self, message: Buffer) -> None:
        """Send a message; wait until the client takes it, since more may follow."""
        self._sent.clear()
        self._send_message(message)
        if self._sent.is_set():
            return
        self._watch()
        try:
            await self._sent.wait()
        finally:
            self._watching.cancel()

    def _watch(self) -> None:
        left = sum(map(len, self.unsent))
        self._watching = asyncio.get_running_loop().call_later(UNREAD_S, self._look, left)

    def _look(self, before: int) -> None:
        """Abort a client that has taken next to nothing of the data that waits for it."""
        if before - sum(map(len, self.unsent)) < LEAST_READ:
            self._refuse(
                DeadlineExceeded(f"the reply was not read within {UNREAD_S:g} s; ask again")
            )
        else:
            self._watch()
