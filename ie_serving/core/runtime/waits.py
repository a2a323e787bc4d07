"""Owns tasks, waits for an event with a time limit, and between attempts (back-off). Pure asyncio.

`Backoff` tells how long to wait before a failed operation is tried again, and `SingleFlight` lets
callers wait for the same work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_MOST_DOUBLINGS = 32
"""Keeps the power within the range of a float; every limit in use is reached much earlier."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Exponential back-off with jitter: the wait doubles with each failure, up to a limit."""

    first_s: float
    """Longest wait after the first failure, in seconds."""

    longest_s: float
    """Limit of the growth, in seconds."""

    def delay_s(self, failures: int, chance: float) -> float:
        """Return how long to wait after `failures` failures in a row.

        Args:
            failures: number of failures; less than 1 counts as 1.
            chance: 0 to 1, at random, so that clients that failed together retry at various times.

        Returns:
            Between half and all of the longest wait, in seconds.
        """
        # The least wait is half of it: a wait of 0 would repeat a request at once.
        grown_s = self.first_s * float(1 << max(0, min(failures - 1, _MOST_DOUBLINGS)))
        return min(self.longest_s, grown_s) * (0.5 + 0.5 * chance)


async def set_within(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until `event` is set, at most `timeout_s` seconds; return whether it is set then.

    None waits without a limit. A cancellation is passed on even if the event is set in the same
    turn, as the end of a connection does: before Python 3.12 `asyncio.wait_for` loses it then.
    """
    if event.is_set():  # saves a task and a timer
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting,), timeout=timeout_s)
    finally:
        waiting.cancel()
    return event.is_set()


class Tasks(set["asyncio.Task[Any]"]):
    """The running tasks of one owner: the event loop alone holds tasks by weak references."""

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start `work`; the event loop's exception handler is called at once if it fails."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Cancel all."""
        for task in self:
            task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            told = {"message": "a task failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(told)


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all at once; the first error, or a cancellation, ends the others before it is raised."""
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class SingleFlight(Generic[K, T]):
    """Work that callers with the same key share while it is under way. Lives on one event loop.

    Attributes:
        under_way: the work by its key.
    """

    def __init__(self) -> None:
        self.under_way: dict[K, asyncio.Future[T]] = {}

    def begin(self, key: K, work: Callable[[], Awaitable[T]]) -> "asyncio.Future[T]":
        """Give the work under way, or begin it; a caller that is cancelled must not cancel it."""
        found = self.under_way.get(key)
        if found is None:
            found = self.under_way[key] = asyncio.ensure_future(work())
            found.add_done_callback(partial(self._ended, key))
        return found

    async def share(self, key: K, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for the work under way, or begin it. Raises whatever the work raises."""
        # Shielded: other callers may wait for it, so the cancellation of one must not end it.
        return await asyncio.shield(self.begin(key, work))

    def close(self) -> None:
        """Cancel the work."""
        for each in self.under_way.values():
            each.cancel()

    def _ended(self, key: K, ended: "asyncio.Future[T]") -> None:
        del self.under_way[key]
        if not ended.cancelled():
            ended.exception()  # retrieved: else asyncio logs the error when all callers have left
