"""Runs work that takes too long for the event loop in a thread; a pool that grows if work hangs."""

import asyncio
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from ie_serving.core.values.errors import DeadlineExceeded, ServingError

P = ParamSpec("P")
T = TypeVar("T")

STALL_S: Final = 600.0
"""Seconds without an end of any work after which a `GrowingPool` gets one more thread: a large
model may take minutes, and every further thread may hold one more of these in memory."""

MOST_MORE: Final = 8
"""Threads that a `GrowingPool` gets at most beyond its own."""


def tell(
    loop: asyncio.AbstractEventLoop,
    call: Callable[..., object],
    *args: Any,  # noqa: ANN401
) -> None:
    """Call on the event loop, from another thread; do nothing once the loop has been closed."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        return


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread; a ServingError is raised here without the data that its frames hold.

    Otherwise the loop would free that data when it answers: 300,000 keys of a JSON body take 40 ms.
    """
    return await asyncio.to_thread(_done, partial(work, *args, **kwargs))


async def in_own_thread(seconds: float, work: Callable[[], T]) -> T:
    """Run work that may hang, such as on a network mount or in users' code, in its own thread.

    All other work shares the few threads of `asyncio.to_thread`, and work that hangs would keep
    one of them. A ServingError is raised as by `in_thread`.

    Raises:
        DeadlineExceeded: the work takes longer than `seconds`; its thread goes on.
    """
    future: Future[T] = Future()
    run = partial(copy_context().run, _fulfil, future, partial(_done, work))
    threading.Thread(target=run, name="own thread", daemon=True).start()
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), seconds)
    except asyncio.TimeoutError:
        if future.done():  # the time-out is the work's own, such as of its mount
            return future.result()
        raise DeadlineExceeded(
            f"not done within {seconds:g} s: does a mount or the model's code hang?"
        ) from None


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    """Work, unless the future is cancelled, and give it the result or the error."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
        # The error refers to this frame. Such a cycle would keep what the work holds, such as the
        # graph of a model, until the garbage collector runs.
        del future, work


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


class GrowingPool(Executor):
    """A pool that gets one more thread each time that work waits and none ends for `stall_s`.

    So work that hangs, such as a load from a network mount that is gone, delays the work behind it
    by `stall_s`. For each further thread, one whose work hung ends once that work has ended. Work
    is submitted on an event loop.
    """

    def __init__(self, threads: int, name: str, stall_s: float = STALL_S) -> None:
        self._name = name
        self._stall_s = stall_s
        self._most = threads
        self._most_ever = threads + MOST_MORE
        self._own = threads
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running: set[threading.Thread] = set()
        self._late: set[threading.Thread] = set()
        """Threads whose work ran when the pool grew."""
        self._news = threading.Condition()
        """Held for changes of all of these."""
        self._ended_at = 0.0
        self._is_watched = self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """As `Executor.submit`."""
        future: Future[T] = Future()
        with self._news:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._idle <= len(self._waiting) and len(self._threads) < self._most:
                self._start()
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            self._news.notify()
        if not self._is_watched:
            self._is_watched, self._ended_at = True, time.monotonic()
            asyncio.get_running_loop().call_later(self._stall_s, self._look)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `Executor.shutdown`."""
        with self._news:
            self._is_shut = True
            while cancel_futures and self._waiting:
                self._waiting.popleft()[0].cancel()
            self._news.notify_all()
            threads = (*self._threads,)
        for thread in threads if wait else ():
            thread.join()

    def _start(self) -> None:
        """Start a thread. Raises: RuntimeError: the system has none left, and the pool has none."""
        thread = threading.Thread(target=self._live, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.add(thread)

    def _live(self) -> None:
        while self._work_once():
            pass
        with self._news:
            self._threads.discard(threading.current_thread())

    def _work_once(self) -> bool:
        """Do the next work as soon as there is any; False: this thread has to end."""
        thread = threading.current_thread()
        with self._news:
            self._idle += 1
            self._news.wait_for(lambda: self._waiting or self._is_shut)
            self._idle -= 1
            if not self._waiting:
                return False
            future, work = self._waiting.popleft()
            self._running.add(thread)
        _fulfil(future, work)
        del future, work  # an error refers to this frame as well
        with self._news:
            self._ended_at = time.monotonic()
            self._running.discard(thread)
            is_surplus = thread in self._late and self._most > self._own
            self._late.discard(thread)
            self._most -= is_surplus
        return not is_surplus

    def _look(self) -> None:
        with self._news:
            self._is_watched = bool(self._waiting) and not self._is_shut
            if not self._is_watched:
                return
            left_s = self._ended_at + self._stall_s - time.monotonic()
            if left_s <= 0 and self._most < self._most_ever:
                self._most += 1
                self._late |= self._running
                self._start()
                self._ended_at = time.monotonic()
        asyncio.get_running_loop().call_later(max(left_s, 0) or self._stall_s, self._look)


class NamedPools:
    """A `GrowingPool` for each name, such as a store's, made on first use. Used on one thread.

    Args of the constructor:
        threads: the number of each pool's own threads, made as they are needed.
        kind: what the threads do; their names begin with it.
    """

    def __init__(self, threads: int, kind: str) -> None:
        self._threads = threads
        self._kind = kind
        self._pools: dict[str, GrowingPool] = {}

    def of(self, name: str) -> Executor:
        """Give the pool of a name."""
        if name not in self._pools:
            self._pools[name] = GrowingPool(self._threads, f"{self._kind} {name}")
        return self._pools[name]

    def shutdown(self) -> None:
        """Start no more work, and do not wait for running work."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


Work = Callable[[], object]
Begin = Callable[..., object]
"""Begins work in a thread, with its arguments. Raises: RuntimeError, where no thread takes it."""


class DaemonThreads(Executor):
    """As many threads as there is work at once, up to `most`. Any thread may begin work.

    `begin` makes no future and takes no lock: of a request of some milliseconds, whose caches are
    cold, `ThreadPoolExecutor.submit` and its part in the thread take 30 us more.

    Args of the constructor:
        most: largest number of threads, made as they are needed.
        name: name of the threads.
        settle: called in each thread first.
    """

    def __init__(self, most: int, name: str = "kernel", settle: Work = lambda: None) -> None:
        self._most = most
        self._name = name
        self._settle = settle
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._growth = threading.Lock()
        self._is_shut = False
        # An entry for each thread that waits for work; `append` and `pop` are atomic.
        self._idle: list[None] = []

    def begin(self, work: Callable[..., object], /, *args: object) -> None:
        """Run `work`, which raises nothing.

        Raises:
            RuntimeError: `work` never runs: no thread can be started, or the threads are to end.
        """
        if self._is_shut:
            raise RuntimeError("cannot begin work after shutdown")
        try:
            self._idle.pop()
        except IndexError:
            self._grow()
        self._work.put(partial(work, *args) if args else work)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """As `Executor.submit`."""
        future: Future[T] = Future()
        self.begin(_fulfil, future, partial(fn, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads as they become idle, once all work is done; `wait` for that."""
        with self._growth:
            self._is_shut = True
            threads = (*self._threads,)
        for _ in threads:
            self._work.put(None)
        for thread in threads if wait else ():
            thread.join()

    def _grow(self) -> None:
        with self._growth:
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._live, name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def _live(self) -> None:
        self._settle()
        while (work := self._work.get()) is not None:
            work()
            del work  # it may refer to large arrays, and the next work may come late
            self._idle.append(None)
