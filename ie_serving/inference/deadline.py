"""Time limits on work, at no cost for work that never waits.

`asyncio.wait_for` would wrap the work in a second task, which costs more than a small inference. It
also needs a current task, which an eagerly started coroutine has only from its first wait on
(`core/runtime/eager_start.py`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar, cast

from ie_serving.core.values.errors import DeadlineExceeded, advised

T = TypeVar("T")

_TIME_IS_UP: Final = "the limit of its time has passed"
"""Message of a cancellation by this module."""


def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Limit `work` to `seconds`, if there is a limit; see `limited`."""
    return work if seconds is None else limited(seconds, work)


async def limited(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or raise DeadlineExceeded after `seconds`; see `LimitedWork`."""
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    alarm = Alarm(seconds)
    try:
        return await LimitedWork(alarm, work, awaited)
    finally:
        alarm.stop()


class Alarm:
    """Cancels each work that exceeds a time limit, the same for all. Belongs to one event loop.

    One timer is set for the oldest work. The timer stays set when that work ends; when it fires, it
    cancels all works that are due and is set for the oldest remaining one. This costs 0.5 us for
    each work; setting and cancelling a timer for each would cost 2.7 us.

    Args of the constructor:
        seconds: longest time of each work.
    """

    __slots__ = ("_due", "_rings_at", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # Time at which each work is due, in ascending order, since all have the same limit.
        self._due: dict[LimitedWork[Any], float] = {}
        self._rings_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: "LimitedWork[Any]") -> None:
        """Cancel `work` if it still runs after the limit, counted from now."""
        loop = asyncio.get_running_loop()
        due = self._due[work] = loop.time() + self.seconds
        if self._timer is None:
            self._rings_at = due
            self._timer = loop.call_later(self.seconds, self._ring)

    def remove(self, work: "LimitedWork[Any]") -> None:
        """Forget `work`, which has ended."""
        self._due.pop(work, None)

    def stop(self) -> None:
        """Stop the timer; cancel no further work."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()

    def _ring(self) -> None:
        """Cancel all due works, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        # Timers are exact to a millisecond only: treat a timer that fired as due, not as early.
        at = max(loop.time(), self._rings_at)
        self._timer = None
        while self._due:
            work, due = next(iter(self._due.items()))
            if due > at:
                self._rings_at = due
                self._timer = loop.call_later(due - at, self._ring)
                return
            del self._due[work]
            work.expire()


class LimitedWork(Generic[T]):
    """Work that has begun to wait, with a limit on its time.

    When time is up, the future that `work` awaits is cancelled, as if the task of `work` were. A
    cancellation from outside is passed on unchanged, also while `work` cleans up after its limit:
    code that cancels a task expects that task to end as cancelled.

    Args of the constructor:
        alarm: enforces the limit, from now on.
        work: coroutine to which None was sent once.
        awaited: value that the coroutine yielded then.
    """

    __slots__ = ("_alarm", "_awaited", "_due", "_expired", "_work")

    def __init__(self, alarm: Alarm, work: Coroutine[Any, Any, T], awaited: object) -> None:
        self._alarm = alarm
        self._work = work
        self._expired = False
        self._due = False  # a cancellation was wanted, and there was nothing to cancel
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        before = 0 if task is None else _cancellations(task)
        self._alarm.add(self)
        try:
            return (yield from self._go_on())
        except asyncio.CancelledError as error:
            # Work that began without a task may run in one by now, with no cancellation from before
            # it began; without any, the awaited future says why it was cancelled
            # (`eager_start.py`).
            now = asyncio.current_task()
            if now is None:
                cancelled = error.args != (_TIME_IS_UP,)
            else:
                cancelled = _cancellations(now) > (before if now is task else 0)
            if self._expired and not cancelled:
                raise self._too_long() from None
            raise
        finally:
            self._alarm.remove(self)

    def _go_on(self) -> Generator[Any, Any, T]:
        """Drive `work` as `await` does, and remember the future that it waits for."""
        while True:
            if self._due:
                self._cancel()
            try:
                value = yield self._awaited
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:
                resume: Callable[[Any], object] = self._work.throw
                given: Any = error
            else:
                resume, given = self._work.send, value
            try:
                self._awaited = resume(given)
            except StopIteration as end:
                reply: T = end.value
                return reply

    def expire(self) -> None:
        """Cancel the work because its time is up."""
        # Cancels the awaited future, not a task: there may be no task (`eager_start.py`).
        self._expired = self._due = True
        self._cancel()

    def _cancel(self) -> None:
        if isinstance(self._awaited, asyncio.Future):
            self._due = not self._awaited.cancel(_TIME_IS_UP)

    def _too_long(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            advised(
                "Timed out waiting for notification",
                f": the inference took longer than the limit of {self._alarm.seconds:g} s;"
                " send less at once or raise the limit",
            )
        )


def _cancellations(task: "asyncio.Task[Any] | None") -> int:
    """Return how often code outside this module has cancelled a task.

    Python 3.10 does not count cancellations. There, one that comes after the time is up is lost, as
    with `asyncio.wait_for`.
    """
    if task is not None and sys.version_info >= (3, 11):
        return task.cancelling()
    return 0
