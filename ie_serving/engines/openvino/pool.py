"""Lends slots, first come, first served. No slot is ever lost to a cancelled waiter."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

from ie_serving.errors import QueueFull

S = TypeVar("S")

MOST_WAITING = 1000
"""Requests that wait at a time; each keeps its tensors in memory."""


class Pool(Generic[S]):
    """Items that one user has at a time. Used from one event loop; nothing here blocks."""

    def __init__(self, items: Iterable[S]) -> None:
        self._free = list(items)
        self._size = len(self._free)
        self._waiters: OrderedDict[asyncio.Future[S], None] = OrderedDict()

    @property
    def idle(self) -> bool:
        """Whether nothing is lent."""
        return len(self._free) == self._size

    def take_free(self) -> S | None:
        """Give an item that is free, or None. A free item means that nobody waits."""
        return self._free.pop() if self._free else None

    async def take(self) -> S:
        """Give an item as soon as every earlier waiter has had one.

        Raises:
            QueueFull: `MOST_WAITING` wait already.
        """
        if self._free:
            return self._free.pop()
        if len(self._waiters) >= MOST_WAITING:
            raise QueueFull(
                f"{MOST_WAITING} requests wait for this model already: ask again later, send"
                " fewer at once, or add servers"
            )
        waiter: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give(waiter.result())  # handed over in the very tick of the cancellation
            else:
                self._waiters.pop(waiter, None)
            raise

    def give(self, item: S) -> None:
        """Take an item back, or hand it to the first who waits."""
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_result(item)
                return
        self._free.append(item)
