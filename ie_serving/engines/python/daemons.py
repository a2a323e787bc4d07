"""Daemon threads for work that may never return: the process ends without waiting for them."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
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
