"""Calls with streams of messages: server-side, client-side and both.

A client may send as far ahead of the service as the receive window of its stream allows. The window
is given back when the service asks for more than has come, and not before, so a client that sends
faster than it is answered has to wait. Until then what has come stays the bytes that it is: of very
small messages the objects would take thirty times as much.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import DeadlineExceeded, ServingError
from ie_serving.server.transport.grpc.call import Answered, Call
from ie_serving.server.transport.grpc.message_reader import Message
from ie_serving.server.transport.grpc.services import Buffer, Streaming
from ie_serving.server.transport.http2.receive_window import STREAM_WINDOW, ReceiveWindow
from ie_serving.server.transport.unread import LEAST_READ, UNREAD_S

STEP: Final = 16 * 1024
"""Bytes that become messages at a time, when the service asks for the next: 3,000 at most."""
WAITING: Final = 256
"""Bytes that a message takes beside its content while it waits."""
ITSELF: Final = 8 * 1024
"""Bytes that a conversation takes by itself: task, queue, frames of generators."""
_ALL: Final = Answered.ALL
_NEVER: Final = -1
"""A window that the connection finds half used never: the service gives it back."""


class StreamingCall(Call):
    """Messages in, messages out. Its method is a `Streaming`."""

    __slots__ = ("_held", "_sent", "_unread", "_unread_lease", "_watching", "_whole")
    _method: Streaming

    def begun(self) -> None:
        """See `Stream`."""
        self.receive_window = ReceiveWindow(self.number, STREAM_WINDOW)
        self.receive_window.half = _NEVER
        self._held = bytearray()  # what has come behind messages that are not read
        self._whole = False  # all of the request has come, and the end of it is not told yet
        self._unread: asyncio.Queue[Message | None] = asyncio.Queue()
        self._unread_lease = Lease(BUDGET)
        self._sent = asyncio.Event()
        try:
            self._unread_lease.take(ITSELF)
        except ServingError as error:
            self._refuse(error)
            return
        self._run(self._work())

    def receive(self, data: bytes, start: int, stop: int, *, ends: bool) -> None:
        """See `Call`: parsed at once as long as the service waits for it."""
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

    def _hold(self, data: bytes) -> None:
        try:
            self._unread_lease.take(len(data))
        except ServingError as error:
            self._refuse(error)
            return
        self._held += data

    def _go_on(self) -> None:
        """Make messages of what is held, until there is one for the service."""
        while self._held and not self._unread.qsize() and self._answered is not _ALL:
            piece = bytes(self._held[:STEP])
            del self._held[:STEP]
            self._unread_lease.give(len(piece))
            super().receive(piece, 0, len(piece), ends=False)
        self._settle()

    def _settle(self) -> None:
        """Tell the end of the request, or let the client send more, where nothing is held."""
        window = self.receive_window
        if self._held or self._answered is _ALL or window is None:
            return
        if self._whole:
            self._whole = False
            super().input_ended()
        elif window.left < STREAM_WINDOW // 2 and not self._unread.qsize():
            self._sender.write(window.renew())

    def _take(self, message: Message) -> None:
        try:
            self._unread_lease.take(len(message[1]) + WAITING)
        except ServingError as error:
            self._refuse(error)
            return
        self._unread.put_nowait(message)

    def _taken(self) -> None:
        # None ends what `_requests` gives.
        self._unread.put_nowait(None)

    async def _work(self) -> None:
        try:
            # A service that is left midway must clean up now, not when it is collected.
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

    async def _next(self) -> Message | None:
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
        """Give up a client that has taken next to nothing of what waits for it."""
        if before - sum(map(len, self.unsent)) < LEAST_READ:
            self._refuse(
                DeadlineExceeded(f"the reply was not read within {UNREAD_S:g} s; ask again")
            )
        else:
            self._watch()
