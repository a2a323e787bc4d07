"""Lends infer requests, first come, first served. None is ever lost to a cancelled waiter."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

from ie_serving.core.values.errors import QueueFull

S = TypeVar("S")

MOST_WAITING = 10_000
"""Requests that wait for one model at a time; the next is refused with QueueFull. As many as there
may be connections: a proxy sends the calls of all its clients over one or two, 1,000 at a time over
each. What they hold is bounded by the budget of bytes, how long they wait by their deadlines."""


class Pool(Generic[S]):
    """Items that one user has at a time. Used from one event loop; nothing here blocks.

    Attributes:
        free: items that nobody has; while there are any, nobody waits. `Program` takes from it and
            gives back to it in place, which saves small requests two calls.
        waiters: those who wait, in order.
        size: how many items there are, lent or free.
    """

    def __init__(self, items: Iterable[S]) -> None:
        self.free = list(items)
        self.waiters: OrderedDict[asyncio.Future[S], None] = OrderedDict()
        self.size = len(self.free)

    @property
    def others_idle(self) -> bool:
        """Whether at most one item is lent: the caller's."""
        return len(self.free) >= self.size - 1

    async def take(self) -> S:
        """Give an item as soon as every earlier waiter has had one.

        Raises:
            QueueFull: `MOST_WAITING` wait already.
        """
        if self.free:
            return self.free.pop()
        if len(self.waiters) >= MOST_WAITING:
            raise QueueFull(
                f"{MOST_WAITING} requests wait for this model already: ask again later, send"
                " fewer at once, or add servers"
            )
        waiter: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        self.waiters[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give(
                    waiter.result()
                )  # the item was handed over in the turn of the loop that cancelled
            else:
                self.waiters.pop(waiter, None)
            raise

    def give(self, item: S) -> None:
        """Take an item back, or hand it to the first who waits."""
        # A cancelled waiter stays in the queue until its task runs again, and is passed over here.
        while self.waiters:
            waiter, _ = self.waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_result(item)
                return
        self.free.append(item)
