"""Calls with streams of messages: server-side, client-side and both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from ie_serving.core.budget import BUDGET, Lease
from ie_serving.core.errors import QueueFull, ServingError
from ie_serving.server.transport.grpc.call import Call
from ie_serving.server.transport.grpc.message_reader import Message
from ie_serving.server.transport.grpc.services import Buffer, Streaming

MOST_UNREAD: Final = 1000
"""Messages of one conversation that wait for the service; one more ends it: RESOURCE_EXHAUSTED."""
MOST_UNREAD_BYTES: Final = 4 << 20
"""The same in bytes: as much as the receive window of its stream (`receive_window.py`)."""
WAITING: Final = 256
"""Bytes that a message takes beside its content while it waits."""
ITSELF: Final = 8 * 1024
"""Bytes that a conversation takes by itself: task, queue, frames of generators."""


class StreamingCall(Call):
    """Messages in, messages out. Its method is a `Streaming`."""

    __slots__ = ("_sent", "_unread", "_unread_bytes", "_unread_lease")
    _method: Streaming

    def begun(self) -> None:
        """See `Stream`."""
        self._unread: asyncio.Queue[Message | None] = asyncio.Queue()
        self._unread_bytes = 0
        self._unread_lease = Lease(BUDGET)
        self._sent = asyncio.Event()
        try:
            self._unread_lease.take(ITSELF)
        except ServingError as error:
            self._refuse(error)
            return
        self._run(self._work())

    def all_sent(self) -> None:
        """See `Stream`."""
        self._lease = None
        self._sent.set()

    def finished(self) -> None:
        """See `Stream`."""
        super().finished()
        self._unread_lease.release()

    def _take(self, message: Message) -> None:
        size = len(message[1]) + WAITING
        try:
            self._unread_lease.take(size)
        except ServingError as error:
            self._refuse(error)
            return
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
        # None ends what `_requests` gives.
        self._unread.put_nowait(None)

    async def _work(self) -> None:
        try:
            # A service that is left midway must clean up now, not when it is collected.
            async with aclosing(self._method.converse(self._requests())) as answers:
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
        while (message := await self._unread.get()) is not None:
            self._unread_bytes -= len(message[1])
            self._unread_lease.give(len(message[1]) + WAITING)
            yield await self._content(message)

    async def _reply(self, message: Buffer) -> None:
        """Send a message; wait until the client takes it, since more may follow."""
        self._sent.clear()
        self._send_message(message)
        await self._sent.wait()
