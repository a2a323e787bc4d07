"""Memory for bytes of an announced length, counted in the budget as they arrive.

Messages of gRPC and bodies of HTTP/1.1 are copied once, to where they stay. A large one is read
from the socket to memory that the connection names; otherwise the transport would make bytes of
each read, of 256 KB at most, and these would be copied once more.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease, leased

AHEAD = SMALL
"""Bytes of memory reserved as soon as a length is announced. The rest of a longer message is
reserved after that many bytes have arrived: 5 bytes alone cannot claim a gigabyte."""
FREE = 4096
"""Bytes of an incomplete message that the budget does not count."""
STEP = 1 << 18
"""Bytes by which the count of an incomplete message runs ahead of the received bytes."""
ROOM = 1 << 20
"""Bytes that are counted before they are read straight to their memory."""
HUGE_PAGE = 2 << 20
"""Bytes of memory that writing one byte may take: numpy asks the kernel for huge pages for arrays
from 4 MB on, and some kernels use them for any. That much more than was written is counted."""


class Filling:
    """The bytes of one message, or of one body, that have arrived.

    Args of the constructor:
        length: number of bytes that are to come.

    Attributes:
        filled: number of bytes that have come.
        length: number of bytes that are expected.
    """

    __slots__ = ("_counted", "_lease", "_memory", "filled", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.filled = 0
        self._counted = FREE  # bytes that may come before more are counted
        self._lease: Lease | None = None
        self._memory = self._get(min(length, AHEAD))

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Copy the next bytes; the caller gives at most as many as are missing.

        Raises:
            ServingError: the budget is spent.
        """
        filled = self.filled + len(data)
        if filled > self._counted:
            self._count(filled)
        if filled > len(self._memory):
            self._grow()
        self._memory[self.filled : filled] = data
        self.filled = filled

    def reserve(self) -> None:
        """Get room for the next bytes; count it unless much is left. Raises: ServingError."""
        if self._counted - self.filled < min(ROOM // 2, self.length - self.filled):
            self._count(self.filled + ROOM - STEP)
        if self._counted > len(self._memory):
            self._grow()

    @property
    def room(self) -> memoryview:
        """Memory for the next bytes, as much as is counted; `came` tells how many were written."""
        return self._memory[self.filled : self._counted]

    def came(self, count: int) -> None:
        """Record bytes that were written to `room`."""
        self.filled += count

    def taken(self) -> memoryview:
        """Give all bytes, once they have come; the memory keeps its count as long as it is used."""
        return self._memory.toreadonly()

    def _grow(self) -> None:
        # Memory is taken for the whole message: unwritten memory costs nothing. Growing by doubling
        # copies data, which blocked the event loop for 40 ms at 16 MB.
        larger = self._get(self.length)
        larger[: self.filled] = self._memory[: self.filled]
        self._memory = larger

    def _count(self, filled: int) -> None:
        """Count the received bytes, and a step ahead, so that the budget is rarely called."""
        upto = min(self.length, filled + STEP)
        lease = self._leased()
        lease.take(min(self.length, upto + HUGE_PAGE) - lease.size)
        self._counted = upto

    def _leased(self) -> Lease:
        """Return the lease of the memory: a small one has none."""
        if self._lease is None:
            self._lease = Lease(BUDGET)
        return self._lease

    def _get(self, size: int) -> memoryview:
        """Get memory that costs nothing until it is written, and that keeps the lease alive."""
        if size < AHEAD:
            return np.empty(size, np.uint8).data
        return leased(size, self._leased()).data


LEAST: Final = 1 << 18
"""Missing bytes of a body from which reading it directly costs less than the switch."""


def is_worth(filling: Filling) -> bool:
    """Tell whether to read the rest of a body directly: its client is sending it, and it is long.

    A client that has sent little may send no more: memory is not reserved for its announcement.
    """
    return filling.filled >= AHEAD and filling.length - filling.filled >= LEAST


class DirectReads(asyncio.BufferedProtocol):
    """The protocol of a connection while much data comes.

    Args of the constructor:
        connection: the protocol before and after.
        room: gives memory for the next bytes, for one at least.
        came: called with the number of bytes that have come.
    """

    def __init__(
        self,
        connection: asyncio.Protocol,
        room: Callable[[], memoryview],
        came: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._room = room
        self._came = came

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._room()

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._came(nbytes)

    def eof_received(self) -> bool | None:
        """See asyncio.BufferedProtocol."""
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.resume_writing()


def set_protocol(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    """Give a transport that reads another protocol; uvloop looks for its kind where it begins."""
    transport.pause_reading()
    transport.set_protocol(protocol)
    transport.resume_reading()
