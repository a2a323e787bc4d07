"""Turns the requests of one stream into answers in order: pure asyncio, no model and no protocol.

    requests ──Inflow──> numbered ──newest──> in_order ──> answers

`Inflow` can be ended from outside. `numbered` counts in the budget the bytes that requests hold.
`newest` is used only for a live source, and drops the oldest waiting request. `in_order` works on a
few requests at a time, and reads no more until the client has taken a reply: the transport then
stops reading, and the flow control of HTTP/2 or TCP makes the client wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sized
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar, cast

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import ServingError

P = TypeVar("P", bound=Sized)
T = TypeVar("T")

ITEM: Final = 8 * 1024
"""Bytes that a request of a stream takes beside its message: its task and coroutine frames."""


@dataclass(frozen=True, slots=True)
class Item(Generic[P]):
    """One request of a stream.

    Attributes:
        index: position in the stream, counted from 0.
        payload: the message as received.
        dropped: number of requests before it that were dropped.
        refusal: error to answer at once, because the budget is spent.
        size: bytes that the budget counts for the request.
        lease: the stream's lease, which holds these bytes.
    """

    index: int
    payload: P
    dropped: int = 0
    refusal: ServingError | None = None
    size: int = 0
    lease: Lease | None = None

    def give(self) -> None:
        """Return the bytes to the budget: the reply was taken, or there will be none."""
        if self.lease is not None:
            self.lease.give(self.size)


@dataclass(frozen=True, slots=True)
class StreamOutcome(Generic[T]):
    """The outcome of one request.

    Attributes:
        index: index of the `Item`.
        outcome: the reply, or the error.
        dropped: value of `Item.dropped`.
        payload: the request as received; None for a reply of a kernel's own stream.
    """

    index: int
    outcome: T | Exception
    dropped: int = 0
    payload: Sized | None = field(default=None, compare=False)


class Inflow(Generic[T]):
    """Passes requests on until `end` is called, which acts as if the client had sent its last."""

    def __init__(self, requests: AsyncIterator[T]) -> None:
        self._requests = requests
        self._next: asyncio.Task[T] | None = None
        self._over = False

    def __aiter__(self) -> "Inflow[T]":
        return self

    async def __anext__(self) -> T:
        if self._over:
            raise StopAsyncIteration
        # A task, so that `end` can interrupt this wait and nothing else.
        self._next = asyncio.create_task(_next(self._requests))
        try:
            return await self._next
        except asyncio.CancelledError:
            if self._over:
                raise StopAsyncIteration from None
            self._next.cancel()
            raise
        except _StreamEnded:
            self._over = True
            raise StopAsyncIteration from None
        finally:
            self._next = None

    def end(self) -> None:
        """Take no further request."""
        self._over = True
        if self._next is not None:
            self._next.cancel()


class _StreamEnded(Exception):
    """There is no next request; a task cannot raise StopAsyncIteration."""


async def _next(requests: AsyncIterator[T]) -> T:
    async for request in requests:
        return request
    raise _StreamEnded


async def numbered(requests: AsyncIterator[P], lease: Lease) -> AsyncGenerator[Item[P], None]:
    """Number requests, and count the bytes that they hold in their stream's lease."""
    index = 0
    async for payload in requests:
        yield _counted(index, payload, lease)
        index += 1


# This is no part of the generator: a caught error refers to the frames it has passed, and the code
# that phrases the error clears those (`let_go`), which would end a generator that has to go on.
def _counted(index: int, payload: P, lease: Lease) -> Item[P]:
    size = len(payload) + ITEM
    try:
        lease.take(size)
        return Item(index, payload, size=size, lease=lease)
    except ServingError as error:
        return Item(index, payload, refusal=error)


async def newest(items: AsyncIterator[Item[P]], most: int) -> AsyncGenerator[Item[P], None]:
    """Keep reading while the consumer is busy; drop the oldest waiting item beyond `most`."""
    waiting: deque[Item[P]] = deque()
    news = asyncio.Event()
    dropped = 0

    async def read() -> None:
        nonlocal dropped
        async for item in items:
            waiting.append(item)
            if len(waiting) > most:
                waiting.popleft().give()
                dropped += 1
            news.set()

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: news.set())
    try:
        while waiting or not reading.done():
            if not waiting:
                news.clear()
                await news.wait()
                continue
            lost, dropped = dropped, 0
            yield replace(waiting.popleft(), dropped=lost)
        await reading
    finally:
        await _abandon(reading)


class Outlet(Generic[T]):
    """A bounded queue of replies; the producer reserves room before it makes one."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)
        self._made: asyncio.Queue[T | None] = asyncio.Queue()

    async def reserve(self) -> None:
        """Wait for room for one more."""
        await self._room.acquire()

    def add(self, each: T) -> None:
        """Add one reply, for which room was reserved."""
        self._made.put_nowait(each)

    def end(self) -> None:
        """Mark the end: there are no more replies."""
        self._made.put_nowait(None)

    async def taken(self) -> AsyncGenerator[T, None]:
        """Yield each reply; its room becomes free when the next one is requested."""
        while (each := await self._made.get()) is not None:
            yield each
            self._room.release()


async def made(
    work: Callable[[Outlet[T]], Coroutine[Any, Any, None]], most: int
) -> AsyncGenerator[T, None]:
    """Yield what `work` adds to an outlet of size `most`; at the end raise the error of `work`."""
    outlet: Outlet[T] = Outlet(most)
    task = asyncio.create_task(work(outlet))
    task.add_done_callback(lambda _: outlet.end())
    try:
        async with aclosing(outlet.taken()) as each:
            async for one in each:
                yield one
        await task
    finally:
        await _abandon(task)


async def in_order(
    items: AsyncIterator[Item[P]], work: Callable[[P], Awaitable[T]], most: int
) -> AsyncGenerator[StreamOutcome[T], None]:
    """Work on up to `most` requests at a time; yield the replies in the order of arrival."""
    begun: set[asyncio.Task[T | Exception]] = set()

    async def begin(outlet: Outlet[tuple[Item[P], asyncio.Task[T | Exception]]]) -> None:
        await outlet.reserve()
        async for item in items:
            task = asyncio.create_task(_outcome(item, work))
            begun.add(task)
            outlet.add((item, task))
            await outlet.reserve()

    try:
        async with aclosing(made(begin, most)) as entries:
            async for item, task in entries:
                outcome = await task
                begun.discard(task)
                yield StreamOutcome(item.index, outcome, item.dropped, item.payload)
                item.give()
    finally:
        for task in begun:
            task.cancel()


async def _outcome(item: Item[P], work: Callable[[P], Awaitable[T]]) -> T | Exception:
    if item.refusal is not None:
        return item.refusal
    try:
        outcome = await work(item.payload)
        # Counted: a reply may wait for those before it, and stays in memory until it is sent.
        if isinstance(outcome, (bytes, bytearray, memoryview)):
            return cast(T, BUDGET.held_with(outcome))
        return outcome
    except Exception as error:
        return error


async def _abandon(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end: the iterator it reads from can only be closed then."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # retrieved, since asyncio logs an exception that never is
