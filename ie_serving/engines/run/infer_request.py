"""The protocols that a driver implements to be run: infer requests, and their admission."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.tensors import Arrays

Outputs = Arrays
Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input, in the order of `Admission.names`."""


class InferRequest(Protocol):
    """Memory and engine state for one inference at a time.

    The outputs are views that the next inference overwrites. Errors of the engine are of the types
    that its driver names to `Program`.
    """

    def fill(self, inputs: Arrays) -> None:
        """Copy the inputs in. Raises: InvalidTensor; NotFinite, for another program to take."""

    def run(self) -> Outputs:
        """Infer the filled inputs once, in the fastest way that is safe for this model."""

    def run_new(self) -> Outputs:
        """As `run`, for inputs of shapes that this model may not have seen. In any thread."""

    def cancel(self) -> None:
        """Let a run, in another thread, end early with an error where that harms nothing."""

    def renew(self) -> None:
        """Put the request in order after a failure. Blocking, for seconds if `renews`."""

    @property
    def renews(self) -> bool:
        """Whether `renew` has anything to do."""


class QueuedRequest(InferRequest, Protocol):
    """An infer request that can be queued in the engine while the engine runs others."""

    def start(self) -> None:
        """Queue the filled inputs behind the engine's running inference. Does not wait."""

    def finish(self) -> Outputs:
        """Wait for the started inference; give its outputs. In any thread. Raises as `run_new`."""


class Admission(Protocol):
    """Which combinations of input shapes a model takes.

    Attributes:
        names: the inputs whose shapes are open, in order.
        known: combinations that need no `check` any more.
    """

    @property
    def names(self) -> Sequence[str]:
        """See above."""

    @property
    def known(self) -> Collection[Shapes]:
        """See above."""

    async def check(self, shapes: Shapes) -> None:
        """Let a combination pass that is not known.

        Raises:
            InvalidTensor: the model does not take it.
            QueueFull: too many wait for their check already.
        """


S = TypeVar("S")

MOST_WAITING = 10_000
"""Requests that wait for one model at a time; the next is refused with QueueFull. It equals the
limit of connections: a proxy sends its clients' calls over one or two connections, 1,000 at a time
over each. The budget of bytes bounds their memory, their deadlines bound their wait."""


class Pool(Generic[S]):
    """Items, each lent to one user at a time. Used from one event loop; nothing here blocks.

    Attributes:
        free: items not lent; while there are any, `waiters` is empty. `Program` takes and returns
            items here in place, which saves small requests two calls.
        waiters: waiting users, in order.
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
        """Take an item back, or hand it to the first waiter."""
        # A cancelled waiter stays in the queue until its task runs again, and is passed over here.
        while self.waiters:
            waiter, _ = self.waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_result(item)
                return
        self.free.append(item)
