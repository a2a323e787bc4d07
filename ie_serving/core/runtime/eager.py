"""Run a coroutine at once; make it a task only if it has to wait.

Most answers to small requests never wait: their inference runs on the event loop. A task that first
waits for its turn would cost them more time than the rest of the transport, and steps of a graph
that stand side by side several times what they cost otherwise.

Python 3.12 has this: `asyncio.Task(..., eager_start=True)`. Before, the first step is made by hand,
without a task around it: `asyncio.current_task()` then gives whatever task runs around it, mostly
none. So what limits the time of such work must cancel the task that `begin` gives.

Requests that are gathered all wait, once, for their batch. `begin_unawaited` lets work that nobody
awaits go on behind a `Direct` future without a task, too. A task costs 4 us to make and run; this
costs 2.
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
        """Have `ended` called, with one argument of any kind, when the work has ended.

        To be called once at most, right after the work began.
        """


class Direct(asyncio.Future[T]):
    """A future behind which work that `begin_unawaited` began goes on without a task.

    Between this wait and its next one such work has no `asyncio.current_task()`. So it may not be
    awaited by what needs one afterwards, as `asyncio.timeout` and `asyncio.TaskGroup` do.
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


def begin_unawaited_by_hand(work: Coroutine[Any, Any, None]) -> Going | None:
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
        return _Unawaited(work, awaited)
    return asyncio.get_running_loop().create_task(_Begun(work, awaited))


begin_unawaited: Final = begin_eagerly if sys.version_info >= (3, 12) else begin_unawaited_by_hand


class _Unawaited:
    """Work that is resumed by the done callback of the `Direct` it waits for.

    From its first wait for anything else on, a task runs it.
    """

    __slots__ = ("_ended", "_pending_cancel", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Direct[Any]) -> None:
        self._work = work
        self._pending_cancel: tuple[object, ...] | None = None
        self._ended: Callable[[Any], object] | None = None
        self._waits_for: asyncio.Future[Any] | None
        self._wait(awaited)

    def cancel(self, *said: object) -> bool:
        """See `Going`.

        If the result is there, but the work not yet resumed, CancelledError is raised in it in
        place of the result.
        """
        if self._waits_for is None:
            return False
        if not self._waits_for.cancel(*said):
            self._pending_cancel = said
        return True

    def add_done_callback(self, ended: Callable[[Any], object]) -> None:
        """See `Going`."""
        self._ended = ended

    def _resume(self, there: "asyncio.Future[Any]") -> None:
        said, self._pending_cancel = self._pending_cancel, None
        try:
            awaited = self._work.send(None) if said is None else self._thrown(said, there)
        except BaseException as error:
            self._end()
            if isinstance(error, (StopIteration, asyncio.CancelledError)):
                return
            raise
        self._wait(awaited)

    def _thrown(self, said: tuple[object, ...], there: "asyncio.Future[Any]") -> object:
        if not there.cancelled():
            there.exception()  # looked at: else the loop would log it
        return cast(object, self._work.throw(asyncio.CancelledError(*said)))

    def _wait(self, awaited: object) -> None:
        if isinstance(awaited, Direct):
            self._waits_for = awaited
            _mark(awaited, awaited=False)
            awaited.add_done_callback(self._resume)
        else:
            task = asyncio.get_running_loop().create_task(_Begun(self._work, awaited))
            self._waits_for = task
            ended, self._ended = self._ended, None
            if ended is not None:
                task.add_done_callback(ended)
        said, self._pending_cancel = self._pending_cancel, None
        if said is not None:  # cancelled while it ran
            self._waits_for.cancel(*said)

    def _end(self) -> None:
        # Whoever keeps this must not keep what the request held, and is mostly who is told.
        self._waits_for = None
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)


class _Begun(Coroutine[Any, Any, T]):
    """Work that has run up to its first wait, for a task to go on with.

    Not a coroutine around it: a task that is cancelled before its first step would end such a one
    without a word to `work`.

    It marks futures (`_mark`), which is the one place that touches an attribute of asyncio that is
    not public, and goes when Python 3.11 does. `await` leaves a mark in the future that it yields,
    by which a task tells a future that is awaited from one that is yielded by mistake; the task
    takes the mark back, and until then nobody else can await that future. Nothing public takes it
    back: so that several may wait for one future, it is taken back here, and set again when a task
    is there to see it.
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
            # Not kept: it has what the request has sent, and what it is answered.
            awaited, self._awaited = self._awaited, None
            _mark(awaited, awaited=True)
            return awaited
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
