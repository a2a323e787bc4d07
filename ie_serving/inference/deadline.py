"""A time limit on a piece of work, at no cost where the work never waits.

`asyncio.wait_for` would wrap the work in a second task, which costs more than a small inference,
and asks for a task around it, which a coroutine has only from its first wait on
(`core/runtime/eager.py`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar, cast

from ie_serving.core.values.errors import DeadlineExceeded

T = TypeVar("T")

_TIME_IS_UP: Final = "the limit of its time has passed"
"""Why work is cancelled here."""


def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Limit `work` to `seconds`, if there is a limit; see `limited`."""
    return work if seconds is None else limited(seconds, work)


async def limited(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Give what `work` gives, or raise DeadlineExceeded after `seconds`; see `Limited`."""
    try:
        awaited = work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    alarm = Alarm(seconds)
    try:
        return await Limited(alarm, work, awaited)
    finally:
        alarm.stop()


class Alarm:
    """Ends works that take longer than they all may. Belongs to one event loop.

    One timer, set for the oldest work. It stays set when that work ends; when it goes off, it ends
    what is due and is set again for the oldest that is left. To set a timer for each work and to
    cancel it takes 2.7 us, this 0.5.

    Args of the constructor:
        seconds: that a work may take.
    """

    __slots__ = ("_due", "_rings_at", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # When each is due: all may take as long, so they are in that order.
        self._due: dict[Limited[Any], float] = {}
        self._rings_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: "Limited[Any]") -> None:
        """Have `work` ended when it has taken too long from now on."""
        loop = asyncio.get_running_loop()
        due = self._due[work] = loop.time() + self.seconds
        if self._timer is None:
            self._rings_at = due
            self._timer = loop.call_later(self.seconds, self._ring)

    def remove(self, work: "Limited[Any]") -> None:
        """Forget `work`, which is over."""
        self._due.pop(work, None)

    def stop(self) -> None:
        """End nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()

    def _ring(self) -> None:
        """End what is due, and come back when the next is."""
        loop = asyncio.get_running_loop()
        # Timers are as exact as a millisecond: one that goes off is not early.
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


class Limited(Generic[T]):
    """Work that has begun to wait, with a limit on its time.

    When time is up, what `work` waits for is cancelled, as if its task were cancelled. A
    cancellation that comes from elsewhere is passed on as it is, also when it comes while `work`
    cleans up because its time is up: whoever cancels a task waits for it to end as cancelled.

    Args of the constructor:
        alarm: its limit, from now on.
        work: that has been sent None once.
        awaited: what it gave then.
    """

    __slots__ = ("_alarm", "_awaited", "_due", "_expired", "_work")

    def __init__(self, alarm: Alarm, work: Coroutine[Any, Any, T], awaited: object) -> None:
        self._alarm = alarm
        self._work = work
        self._expired = False
        self._due = False  # a cancellation that found nothing to cancel
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        before = 0 if task is None else _cancellations(task)
        self._alarm.add(self)
        try:
            return (yield from self._go_on())
        except asyncio.CancelledError as error:
            # Work that began without a task may have one by now, which nobody cancelled before it
            # began; or none, and then what it waits for says why it was cancelled (`eager.py`).
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
        """Do for `work` what `await` does, with an eye on what it waits for."""
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
        """Cancel the work: its time is up."""
        # What the work waits for is cancelled, not a task: there may be none (`eager.py`).
        self._expired = self._due = True
        self._cancel()

    def _cancel(self) -> None:
        if isinstance(self._awaited, asyncio.Future):
            self._due = not self._awaited.cancel(_TIME_IS_UP)

    def _too_long(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            "Timed out waiting for notification: the inference took longer than the limit of"
            f" {self._alarm.seconds:g} s; send less at once or raise the limit"
        )


def _cancellations(task: "asyncio.Task[Any] | None") -> int:
    """Tell how often a task was cancelled by somebody else.

    Python 3.10 does not count, so there a cancellation that comes after the time is up is lost, as
    it is with `asyncio.wait_for`.
    """
    if task is not None and sys.version_info >= (3, 11):
        return task.cancelling()
    return 0
