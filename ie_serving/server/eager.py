"""Run a coroutine at once; make it a task only if it has to wait.

Most answers to small requests never wait: their inference runs on the event loop. A task would cost
them a turn of the loop and more time than the rest of the transport.

While it runs for the first time a coroutine has no task: `asyncio.current_task()` gives whatever
task runs around it, mostly none. What limits its time must therefore cancel the task that `begin`
gives.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run `work` until it first waits.

    Args:
        work: not started yet.

    Returns:
        The task that goes on with it, or None where it has ended already.

    Raises:
        Exception: whatever `work` raises before it first waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Begun(work, awaited))


class _Begun(Coroutine[Any, Any, None]):
    """A coroutine that has run up to its first wait, for a task to go on with.

    Not a coroutine around it: a task that is cancelled before its first step would end such a one
    without a word to `work`.
    """

    __slots__ = ("_awaited", "_first", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: object) -> None:
        self._work = work
        self._awaited = awaited
        self._first = True
        _mark(awaited, awaited=False)

    def __await__(self) -> Generator[Any, Any, None]:
        return (yield from self._work.__await__())

    def send(self, value: object) -> object:
        if self._first:
            self._first = False
            _mark(self._awaited, awaited=True)
            return self._awaited
        return self._work.send(value)

    def throw(self, *error: Any) -> object:  # noqa: ANN401  as the base class has it
        if self._first and isinstance(self._awaited, asyncio.Future):
            self._awaited.cancel()  # the task does not know yet what it waits for
        self._first = False
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()


def _mark(future: object, *, awaited: bool) -> None:
    """Set what `await` leaves in a future, and tasks take back: nobody else could await it."""
    if isinstance(future, asyncio.Future):
        future._asyncio_future_blocking = awaited
