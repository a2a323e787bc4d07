"""A time limit on a piece of work, at no cost where the work never waits.

`asyncio.wait_for` would wrap the work in a second task, which costs more than a small inference,
and asks for a task around it, which a coroutine has only from its first wait on
(`core/eager.py`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar, cast

from ie_serving.core.errors import DeadlineExceeded

T = TypeVar("T")


def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Limit `work` to `seconds`, if there is a limit; see `limited`."""
    return work if seconds is None else limited(seconds, work)


async def limited(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Give what `work` gives, or raise DeadlineExceeded after `seconds`; see `Limited`."""
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    return await Limited(seconds, work, awaited)


class Limited(Generic[T]):
    """Work that has begun to wait, with a timer on it.

    When time is up, what `work` waits for is cancelled, as if its task were cancelled. A
    cancellation that comes from elsewhere is passed on as it is, also when it comes while `work`
    cleans up because its time is up: whoever cancels a task waits for it to end as cancelled.

    Args of the constructor:
        seconds: from now on.
        work: that has been sent None once.
        awaited: what it gave then.
    """

    __slots__ = ("_awaited", "_due", "_expired", "_seconds", "_work")

    def __init__(self, seconds: float, work: Coroutine[Any, Any, T], awaited: object) -> None:
        self._seconds = seconds
        self._work = work
        self._expired = False
        self._due = False  # a cancellation that found nothing to cancel
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        before = _cancellations(task)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)
        try:
            return (yield from self._go_on())
        except asyncio.CancelledError:
            # Work that began without a task (`eager.py`) has one by now, which nobody cancelled
            # before it began.
            now = asyncio.current_task()
            cancelled = _cancellations(now) > (before if now is task else 0)
            if self._expired and not cancelled:
                raise self._too_long() from None
            raise
        finally:
            timer.cancel()

    def _go_on(self) -> Generator[Any, Any, T]:
        """Do for `work` what `await` does, with an eye on what it waits for."""
        while True:
            self._cancel()
            try:
                value = yield self._awaited
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:
                resume = partial(self._work.throw, error)
            else:
                resume = partial(self._work.send, value)
            try:
                self._awaited = resume()
            except StopIteration as end:
                return cast(T, end.value)

    def _expire(self) -> None:
        # What the work waits for is cancelled, not a task: there may be none (`eager.py`).
        self._expired = self._due = True
        self._cancel()

    def _cancel(self) -> None:
        if self._due and isinstance(self._awaited, asyncio.Future):
            self._due = not self._awaited.cancel()

    def _too_long(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            "Timed out waiting for notification: the inference took longer than the limit of"
            f" {self._seconds:g} s; send less at once or raise the limit"
        )


def _cancellations(task: "asyncio.Task[Any] | None") -> int:
    """Tell how often a task was cancelled by somebody else.

    Python 3.10 does not count, so there a cancellation that comes after the time is up is lost, as
    it is with `asyncio.wait_for`.
    """
    if task is not None and sys.version_info >= (3, 11):
        return task.cancelling()
    return 0
