"""An event loop for trial inferences of a compiled model, before the server's loop uses it."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any, TypeVar

from ie_serving.engines.base import REHEARSED

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a new event loop, and give its result. Blocking."""
    loop = _OwnLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.finish()


def rehearse(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, whose answers no client gets (`REHEARSED`). Blocking."""
    context = copy_context()
    context.run(REHEARSED.set, True)
    return context.run(run, work)


class _OwnLoop(asyncio.SelectorEventLoop):
    """An event loop that closes only after all work in threads has returned to it.

    After a failed inference an engine may renew its infer request in a thread, and take it back on
    the event loop: with a closed loop it would wait in vain.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_threads: set[asyncio.Future[Any]] = set()

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Executor | None,
        func: Any,  # noqa: ANN401  as the base class has it
        *args: Any,  # noqa: ANN401
    ) -> "asyncio.Future[Any]":
        """See `asyncio.AbstractEventLoop`."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads.add(future)
        return future

    def finish(self) -> None:
        """Wait for the work in threads, and close."""
        if self._in_threads:
            self.run_until_complete(asyncio.wait(self._in_threads))
        self.close()
