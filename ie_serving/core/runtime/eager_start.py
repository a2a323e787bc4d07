"""Eager start: runs a coroutine at once, and makes it a task only if it has to wait.

Most answers to small requests never wait: their inference runs on the event loop. A task, which
first waits for its turn, would cost them more time than the rest of the transport, and would make
parallel steps of a graph several times as slow.

Python 3.12 has this: `asyncio.Task(..., eager_start=True)`. In older versions this module runs the
first step without a task: `asyncio.current_task()` is then the surrounding task, or mostly None. So
code that limits the time of such work must cancel the task that `begin` returns.

Requests in a batch all wait once, for their batch. `begin_unawaited` lets work that no code awaits
continue after a `DirectFuture` without a task, too, in every version of Python. Making and running
a task costs 4 us, this costs 2.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Protocol, TypeVar, cast

T = TypeVar("T")


class UnfinishedWork(Protocol):
    """Unfinished work; a task is one."""

    def cancel(self, msg: Any = ..., /) -> bool:  # noqa: ANN401  as `asyncio.Task` has it
        """Raise CancelledError, with `msg`, in the work where it waits."""

    def add_done_callback(self, ended: Callable[[Any], object], /) -> None:
        """Call `ended`, with one argument of any kind, when the work has ended.

        To be called once at most, right after the start of the work.
        """


class DirectFuture(asyncio.Future[T]):
    """A future after which work of `begin_unawaited` continues without a task.

    Between this wait and its next one such work has no `asyncio.current_task()`. So after it, the
    work must not use anything that needs one, such as `asyncio.timeout` and `asyncio.TaskGroup`.
    """

    __slots__ = ()


def begin_eagerly(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | None":
    """Run `work` until it first waits. From Python 3.12 on.

    Args:
        work: not started yet.

    Returns:
        The task that continues it, or None if it has ended already.

    Raises:
        BaseException: any error that `work` raises before it first waits.
    """
    options: dict[str, Any] = {"loop": asyncio.get_running_loop(), "eager_start": True}
    task = asyncio.Task(work, **options)
    if not task.done():
        return task
    task.result()
    return None


def begin_by_hand(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | None":
    """Do what `begin_eagerly` does, in any version of Python."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_StartedCoroutine(work, awaited))


begin: Final = begin_eagerly if sys.version_info >= (3, 12) else begin_by_hand


def begin_unawaited(work: Coroutine[Any, Any, None]) -> UnfinishedWork | None:
    """Run `work`, which no code awaits, until it first waits.

    Args:
        work: not started yet. Its later errors go to the loop's exception handler.

    Returns:
        The unfinished work, or None if it has ended already.

    Raises:
        BaseException: any error that `work` raises before it first waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return proceed_unawaited(work, awaited)


def proceed_unawaited(work: Coroutine[Any, Any, None], awaited: object) -> UnfinishedWork:
    """Continue `work`, which no code awaits, when the future has ended that it first waits for.

    Args:
        work: its first step has been taken, by `send`.
        awaited: result of that step.

    Returns:
        The unfinished work.
    """
    if isinstance(awaited, DirectFuture):
        return _UnawaitedWork(work, awaited)
    return asyncio.get_running_loop().create_task(_StartedCoroutine(work, awaited))


class _UnawaitedWork:
    """Work that the done callback of a `DirectFuture` resumes, while it waits for one.

    From its first wait for any other future on, a task runs it.
    """

    __slots__ = ("_ended", "_pending_cancel", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: DirectFuture[Any]) -> None:
        self._work = work
        self._pending_cancel: tuple[object, ...] | None = None
        self._ended: Callable[[Any], object] | None = None
        self._waits_for: asyncio.Future[Any] | None
        self._wait(awaited)

    def cancel(self, *said: object) -> bool:
        """See `UnfinishedWork`.

        If the result has come but the work is not resumed yet, CancelledError is raised in it in
        place of the result.
        """
        if self._waits_for is None:
            return False
        if not self._waits_for.cancel(*said):
            self._pending_cancel = said
        return True

    def add_done_callback(self, ended: Callable[[Any], object]) -> None:
        """See `UnfinishedWork`."""
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
            there.exception()  # retrieved: otherwise the loop would log it
        return cast(object, self._work.throw(asyncio.CancelledError(*said)))

    def _wait(self, awaited: object) -> None:
        if isinstance(awaited, DirectFuture):
            self._waits_for = awaited
            _mark(awaited, awaited=False)
            awaited.add_done_callback(self._resume)
        else:
            task = asyncio.get_running_loop().create_task(_StartedCoroutine(self._work, awaited))
            self._waits_for = task
            ended, self._ended = self._ended, None
            if ended is not None:
                task.add_done_callback(ended)
        said, self._pending_cancel = self._pending_cancel, None
        if said is not None:  # cancelled while it ran
            self._waits_for.cancel(*said)

    def _end(self) -> None:
        # References to this object must not keep the request's data alive; the callback is one.
        self._waits_for = None
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self)


class _StartedCoroutine(Coroutine[Any, Any, T]):
    """Work that has run up to its first wait, for a task to continue.

    This is no coroutine around `work`: a task that is cancelled before its first step would close
    such a coroutine without raising CancelledError in `work`.

    It marks futures (`_mark`), the only access to an attribute of asyncio that is not public.
    `await` marks the future that it yields, by which a task distinguishes an awaited future from
    one that was yielded by mistake. The task removes the mark, and before that no other code can
    await the future. No public function removes it: so that several can await one future, this
    class removes the mark, and sets it again when a task is there to see it.
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
        """Resume with `value`; return the next awaited future, at first the one already awaited."""
        if self._first:
            self._first = False
            # Reference dropped: the future leads to the request's data and to its reply.
            awaited, self._awaited = self._awaited, None
            _mark(awaited, awaited=True)
            return awaited
        return self._work.send(value)

    def throw(self, *error: Any) -> object:  # noqa: ANN401  as the base class has it
        """Raise an error in `work`; return the next awaited future. First cancels the wait."""
        waits = self._first and isinstance(self._awaited, asyncio.Future)
        # The error keeps the message that was passed to `Task.cancel`.
        said = error[0].args if isinstance(error[0], asyncio.CancelledError) else ()
        if waits and self._awaited.cancel(*said):  # type: ignore[attr-defined]
            return self.send(None)  # the task awaits the cancelled future, then `work` sees it
        self._first = False
        return self._work.throw(*error)

    def close(self) -> None:
        """Close `work` where it waits."""
        self._work.close()


def _mark(future: object, *, awaited: bool) -> None:
    if isinstance(future, asyncio.Future):
        future._asyncio_future_blocking = awaited
