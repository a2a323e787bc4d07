"""Splits a request's data into messages. Source: "gRPC over HTTP2", Length-Prefixed-Message."""

import struct

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, SMALL, Lease, leased

PREFIX = struct.Struct(">BL")
"""Whether the message is compressed, and its length in bytes."""
VIEWED = SMALL
"""Bytes from which a message is a view of memory that the budget counts; a smaller one is copied to
bytes, which are cheaper to parse than a view."""
AHEAD = VIEWED
"""Bytes of memory reserved as soon as a message's length is announced. The rest of a longer message
is reserved after that many bytes have arrived: 5 bytes alone cannot claim a gigabyte."""
FREE = 4096
"""Bytes of an incomplete message that the budget does not count."""
STEP = 1 << 18
"""Bytes by which the count of an incomplete message runs ahead of the received bytes."""
HUGE_PAGE = 2 << 20
"""Bytes of memory that writing one byte may take: numpy asks the kernel for huge pages for arrays
from 4 MB on, and some kernels use them for any. That much more than was written is counted."""

Message = tuple[bool, "bytes | memoryview"]
"""Whether the message is compressed, and its bytes."""


class MessageTooLarge(Exception):
    """A message announces more bytes than the limit.

    Attributes:
        length: the announced length.
    """

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


class MessageReader:
    """Reassembles the messages of one request; a message that arrives in one piece is copied once.

    Args of the constructor:
        limit: bytes of the largest message.
    """

    __slots__ = (
        "_compressed",
        "_counted",
        "_filled",
        "_lease",
        "_length",
        "_limit",
        "_memory",
        "_prefix",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._prefix = b""
        self._memory: memoryview | None = None
        self._filled = 0
        self._length = 0
        self._compressed = False
        self._counted = 0  # bytes of the incomplete message that the budget counts so far
        self._lease: Lease | None = None

    @property
    def within(self) -> bool:
        """Whether a message is incomplete."""
        return bool(self._prefix) or self._memory is not None

    def feed(self, data: bytes, start: int, stop: int) -> list[Message]:
        """Take a piece of data; return the messages that end in it.

        Raises:
            MessageTooLarge: the next message is larger than the limit.
            ServingError: the budget is spent.
        """
        found: list[Message] = []
        while start < stop:
            if self._memory is None:
                start = self._begin(data, start, stop, found)
            else:
                start = self._fill(self._memory, data, start, stop, found)
        return found

    def _begin(self, data: bytes, start: int, stop: int, found: list[Message]) -> int:
        """Read a prefix, and the message if it is complete."""
        missing = PREFIX.size - len(self._prefix)
        self._prefix += data[start : min(start + missing, stop)]
        start += missing
        if start > stop:
            return stop
        compressed, length = PREFIX.unpack(self._prefix)
        if length > self._limit:
            raise MessageTooLarge(length)
        BUDGET.check(length)
        self._prefix = b""
        end: int = start + length
        if end <= stop and length < VIEWED:
            found.append((bool(compressed), data[start:end]))
            return end
        self._compressed = bool(compressed)
        self._length = length
        self._filled = 0
        self._counted = FREE
        self._lease = None
        self._memory = self._get(min(length, AHEAD))
        return start

    def _fill(
        self, memory: memoryview, data: bytes, start: int, stop: int, found: list[Message]
    ) -> int:
        taken = min(self._length - self._filled, stop - start)
        filled = self._filled + taken
        if filled > self._counted:
            self._count(filled)
        if filled > len(memory):
            memory = self._grow(memory)
        memory[self._filled : filled] = memoryview(data)[start : start + taken]
        self._filled = filled
        if filled == self._length:
            self._memory = self._lease = None
            message = bytes(memory) if filled < VIEWED else memory.toreadonly()
            found.append((self._compressed, message))
        return start + taken

    def _grow(self, memory: memoryview) -> memoryview:
        # For the whole message: unwritten memory costs nothing. Growing by doubling copies data,
        # which blocked the event loop for 40 ms at 16 MB.
        larger = self._get(self._length)
        larger[: self._filled] = memory[: self._filled]
        self._memory = larger
        return larger

    def _count(self, filled: int) -> None:
        """Count the received bytes, and a step ahead, so that the budget is rarely called."""
        upto = min(self._length, filled + STEP)
        lease = self._leased()
        lease.take(min(self._length, upto + HUGE_PAGE) - lease.size)
        self._counted = upto

    def _leased(self) -> Lease:
        """Return the lease of the incomplete message: a small one has none."""
        if self._lease is None:
            self._lease = Lease(BUDGET)
        return self._lease

    def _get(self, size: int) -> memoryview:
        """Get memory that costs nothing until it is written, and that keeps the lease alive."""
        if size < VIEWED:
            return np.empty(size, np.uint8).data
        return leased(size, self._leased()).data
