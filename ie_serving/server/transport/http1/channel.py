"""A connection that has switched from HTTP/1.1 to another protocol: bytes with flow control."""

import asyncio
from collections.abc import Callable
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.waits import set_within
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.peer import LEAST_READ, UNREAD_S

MOST_UNREAD: Final = 64 * 1024
"""Bytes that may wait to be read; beyond it the socket is not read, so that the client waits."""


class Channel(asyncio.Protocol):
    """The bytes of one connection. Belongs to one event loop.

    Args of the constructor:
        transport: transport of the connection; from now on it notifies this object.
        lost: called when the connection has ended.

    Attributes:
        received, sent: numbers of bytes received and written.
    """

    def __init__(
        self, transport: asyncio.Transport, lost: Callable[[Exception | None], None]
    ) -> None:
        self._transport = transport
        self._lost = lost
        self.received = self.sent = 0
        self._unread = bytearray()
        self._lease = Lease(BUDGET)
        self._refused: ServingError | None = None
        self._is_lost = False
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        transport.set_protocol(self)
        if not transport.is_reading():
            transport.resume_reading()

    async def read(self, timeout_s: float) -> bytes:
        """Return received bytes, or wait for some; empty if none arrive in time.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent.
            asyncio.CancelledError: the client has left.
        """
        while not self._unread:
            if self._refused:
                raise self._refused
            if self._is_lost:
                raise asyncio.CancelledError
            self._news.clear()
            if not await set_within(self._news, timeout_s):
                return b""
        data = bytes(self._unread)
        self._unread.clear()
        self._lease.release()
        if not (self._transport.is_reading() or self._transport.is_closing()):
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Write; wait until the client has read; abort if it does not: see `UNREAD_S`."""
        self.put(data)
        if not self._writable.is_set():
            await self._until_read()

    def put(self, data: bytes) -> None:
        """Write a few bytes without waiting, behind data that the client has not read yet."""
        if not self._transport.is_closing():
            self.sent += len(data)
            self._transport.write(data)

    def abort(self) -> None:
        """Close the connection at once, without a closing message."""
        self._transport.abort()

    async def _until_read(self) -> None:
        left = self._transport.get_write_buffer_size()
        while not await set_within(self._writable, UNREAD_S):
            before, left = left, self._transport.get_write_buffer_size()
            if before - left < LEAST_READ:
                self.abort()  # which ends the wait: see `connection_lost`

    # -- from the transport ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.received += len(data)
        try:
            self._lease.take(len(data))
        except ServingError as error:
            self._refused = error
            self._transport.pause_reading()
        else:
            self._unread += data
            if len(self._unread) > MOST_UNREAD:
                self._transport.pause_reading()
        self._news.set()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._is_lost = True
        self._news.set()
        self._writable.set()
        self._unread.clear()
        self._lease.release()
        self._lost(error)
