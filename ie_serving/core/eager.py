"""Run a coroutine at once; make it a task only if it has to wait.

Most answers to small requests never wait: their inference runs on the event loop. A task that first
waits for its turn would cost them more time than the rest of the transport, and steps of a graph
that stand side by side several times what they cost otherwise.

Python 3.12 has this: `asyncio.Task(..., eager_start=True)`. Before, the first step is made by hand,
without a task around it: `asyncio.current_task()` then gives whatever task runs around it, mostly
none. So what limits the time of such work must cancel the task that `begin` gives.

Requests that are gathered all wait, once, for their batch. `begin_alone` lets what nobody awaits go
on behind a `Direct` future without a task, too: made and run, one takes 4 us, this half of it.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Protocol, TypeVar, cast

T = TypeVar("T")


class Going(Protocol):
    """Work that goes on; a task is one."""

    def cancel(self, msg: Any = ..., /) -> bool:  # noqa: ANN401  as `asyncio.Task` has it
        """Raise CancelledError in it, with `msg`, where it waits."""

    def add_done_callback(self, ended: Callable[[Any], object], /) -> None:
        """Have `ended` called, with whatever, when it has ended. Once at most."""


class Direct(asyncio.Future[T]):
    """A future behind which work that `begin_alone` began goes on without a task.

    What such work does between this wait and its next one finds no `asyncio.current_task()`: only
    those await it who know that.
    """

    __slots__ = ()


def begin_eagerly(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | None":
    """Run `work` until it first waits. From Python 3.12 on.

    Args:
        work: not started yet.

    Returns:
        The task that goes on with it, or None where it has ended already.

    Raises:
        BaseException: whatever `work` raises before it first waits.
    """
    options: dict[str, Any] = {"loop": asyncio.get_running_loop(), "eager_start": True}
    task = asyncio.Task(work, **options)
    if not task.done():
        return task
    task.result()
    return None


def begin_by_hand(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | None":
    """Do the same in any Python."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Begun(work, awaited))


begin: Final = begin_eagerly if sys.version_info >= (3, 12) else begin_by_hand


def begin_alone_by_hand(work: Coroutine[Any, Any, None]) -> Going | None:
    """Run `work`, which nobody awaits, until it first waits.

    Args:
        work: not started yet. What it raises later the loop's exception handler is told.

    Returns:
        The work that goes on, or None where it has ended already.

    Raises:
        BaseException: whatever `work` raises before it first waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    if isinstance(awaited, Direct):
        return _Alone(work, awaited)
    return asyncio.get_running_loop().create_task(_Begun(work, awaited))


begin_alone: Final = begin_eagerly if sys.version_info >= (3, 12) else begin_alone_by_hand


class _Alone:
    """Work that what it waits for wakes, as long as that is a `Direct`; then a task goes on."""

    __slots__ = ("_due", "_ended", "_waits", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Direct[Any]) -> None:
        self._work = work
        self._due: asyncio.CancelledError | None = None
        self._ended: Callable[[Any], object] | None = None
        self._waits: asyncio.Future[Any] = awaited
        awaited._asyncio_future_blocking = False  # as `_mark`, without the call
        awaited.add_done_callback(self._go_on)

    def cancel(self, *said: object) -> bool:
        """See `Going`; before the work goes on where what it waits for is there already."""
        if not self._waits.cancel(*said):
            self._due = asyncio.CancelledError(*said)
        return True

    def add_done_callback(self, ended: Callable[[Any], object]) -> None:
        """See `Going`."""
        self._ended = ended

    def _go_on(self, there: "asyncio.Future[Any]") -> None:
        due, self._due = self._due, None
        try:
            awaited = self._work.send(None) if due is None else self._thrown(due, there)
        except BaseException as error:
            if self._ended is not None:
                self._ended(self)
            if isinstance(error, (StopIteration, asyncio.CancelledError)):
                return
            raise
        if isinstance(awaited, Direct):
            self._waits = awaited
            _mark(awaited, awaited=False)
            awaited.add_done_callback(self._go_on)
        else:
            task = asyncio.get_running_loop().create_task(_Begun(self._work, awaited))
            self._waits = task
            if self._ended is not None:
                task.add_done_callback(self._ended)
        if self._due is not None:  # cancelled while it ran
            self._waits.cancel(*self._due.args)

    def _thrown(self, due: asyncio.CancelledError, there: "asyncio.Future[Any]") -> object:
        if not there.cancelled():
            there.exception()  # looked at: else the loop would log it
        return cast(object, self._work.throw(due))


class _Begun(Coroutine[Any, Any, T]):
    """Work that has run up to its first wait, for a task to go on with.

    Not a coroutine around it: a task that is cancelled before its first step would end such a one
    without a word to `work`.

    This is the one place that touches an attribute of asyncio that is not public, and goes when
    Python 3.11 does. `await` leaves a mark in the future that it yields, by which a task tells a
    future that is awaited from one that is yielded by mistake; the task takes the mark back, and
    until then nobody else can await that future. Nothing public takes it back: so that several may
    wait for one future, it is taken back here, and set again when a task is there to see it.
    """

    __slots__ = ("_awaited", "_first", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], awaited: object) -> None:
        self._work = work
        self._awaited = awaited
        self._first = True
        _mark(awaited, awaited=False)

    def __await__(self) -> Generator[Any, Any, T]:
        return (yield from self._work.__await__())

    def send(self, value: object) -> object:
        """Go on with `value`; give what is awaited next, at first what `work` already awaits."""
        if self._first:
            self._first = False
            _mark(self._awaited, awaited=True)
            return self._awaited
        return self._work.send(value)

    def throw(self, *error: Any) -> object:  # noqa: ANN401  as the base class has it
        """Raise an error in `work`; give what is awaited next. A wait is cancelled at first."""
        waits = self._first and isinstance(self._awaited, asyncio.Future)
        # With the message that `Task.cancel` was given.
        said = error[0].args if isinstance(error[0], asyncio.CancelledError) else ()
        if waits and self._awaited.cancel(*said):  # type: ignore[attr-defined]
            return self.send(None)  # the task waits for its end, and `work` learns of it then
        self._first = False
        return self._work.throw(*error)

    def close(self) -> None:
        """End `work` where it waits."""
        self._work.close()


def _mark(future: object, *, awaited: bool) -> None:
    if isinstance(future, asyncio.Future):
        future._asyncio_future_blocking = awaited
