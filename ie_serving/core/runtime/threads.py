"""Runs work in a thread that takes too long for the event loop."""

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ie_serving.core.values.errors import ServingError

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread; a ServingError is raised here without the data that its frames hold.

    Otherwise the loop would free that data when it answers: 300,000 keys of a JSON body take 40 ms.
    """
    return await asyncio.to_thread(_done, partial(work, *args, **kwargs))


def _done(work: Callable[[], T]) -> T:
    try:
        return work()
    except ServingError as error:
        let_go(error)
        raise


def let_go(error: BaseException | None) -> None:
    """Clear the frames of an error, and of its causes, so that they do not keep the request's data.

    The frames often refer to the error or to the future that has it. Such a cycle would stay in
    memory until the garbage collector runs, perhaps hours later.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__context__


Work = Callable[[], object]


class DaemonThreads(Executor):
    """As many threads as there is work at once, up to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)

    def submit(  # type: ignore[override]
        self,
        work: Callable[..., T],
        /,
        *args: Any,  # noqa: ANN401
    ) -> "Future[T]":
        """Run `work`, which raises nothing; its result is ignored. Raises: RuntimeError."""
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(target=self._live, name="kernel", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._work.put(lambda: work(*args))
        return Future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads as they become idle; hanging threads are left."""
        for _ in self._threads:
            self._work.put(None)

    def _live(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # it may refer to large arrays, and the next work may come late
            self._idle.release()
