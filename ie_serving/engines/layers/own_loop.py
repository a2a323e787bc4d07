"""An event loop for a compiled model that is tried before it is used from anywhere else."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on an event loop of its own, and give what comes of it. Blocking."""
    loop = _OwnLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.finish()


class _OwnLoop(asyncio.SelectorEventLoop):
    """An event loop that is closed only when nothing in a thread is still to come back to it.

    An engine whose inference failed may put its request in order in a thread, and takes it back on
    the event loop: it would wait for it in vain.
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
        """Wait for what is in threads, and close."""
        if self._in_threads:
            self.run_until_complete(asyncio.wait(self._in_threads))
        self.close()
