"""Work in threads, and what is left of it when it is refused."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from ie_serving.core.runtime.threads import (
    MOST_MORE,
    DaemonThreads,
    GrowingPool,
    in_own_thread,
    in_thread,
)
from ie_serving.core.values.errors import InvalidRequest

PATIENCE_S = 10.0
GROWS = "grows"
"""What the names of the threads of a pool begin with."""


def alive() -> int:
    return sum(each.name.startswith(GROWS) for each in threading.enumerate())


class Held:
    """What a request held."""


@pytest.mark.parametrize("run", [in_thread, partial(in_own_thread, 10.0)], ids=["one", "its own"])
def test_the_thread_that_refuses_frees_what_it_held(
    run: Callable[[Callable[[], None]], Awaitable[None]],
) -> None:
    freed_in: list[int] = []

    def refuse() -> None:
        held = Held()
        weakref.finalize(held, lambda: freed_in.append(threading.get_ident()))
        try:
            raise LookupError
        except LookupError as error:
            raise InvalidRequest("no such thing") from error

    async def ask() -> None:
        with pytest.raises(InvalidRequest, match="no such thing"):
            await run(refuse)
        assert len(freed_in) == 1

    asyncio.run(ask())
    assert freed_in != [threading.get_ident()]


def test_a_time_out_of_the_work_itself_is_not_taken_for_its_limit() -> None:
    def fail() -> None:
        raise TimeoutError("the mount gave up")

    with pytest.raises(TimeoutError, match="the mount gave up"):
        asyncio.run(in_own_thread(10.0, fail))


def test_a_defect_keeps_its_traceback() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(in_thread(fail))
    assert caught.traceback[-1].name == "fail"


def test_arguments_and_result_pass() -> None:
    assert asyncio.run(in_thread(int, "ff", base=16)) == 255


def test_work_that_hangs_holds_the_work_behind_it_for_a_while_and_not_for_ever() -> None:
    go_on = threading.Event()

    async def run() -> int:
        pool = GrowingPool(2, "load", 0.05)
        loop = asyncio.get_running_loop()
        hanging = [loop.run_in_executor(pool, go_on.wait, 60.0) for _ in range(3)]
        try:
            return await asyncio.wait_for(loop.run_in_executor(pool, int, "7"), 10.0)
        finally:
            go_on.set()
            await asyncio.gather(*hanging)
            pool.shutdown()

    assert asyncio.run(run()) == 7


def test_threads_that_work_get_no_more_beside_them() -> None:
    async def run() -> int:
        pool = GrowingPool(1, GROWS, 0.2)
        loop, pause = asyncio.get_running_loop(), threading.Event()
        works = [loop.run_in_executor(pool, pause.wait, 0.02) for _ in range(30)]
        await asyncio.gather(*works)
        found = alive()
        pool.shutdown()
        return found

    assert asyncio.run(run()) == 1


def test_the_threads_of_a_pool_whose_work_hangs_are_bounded() -> None:
    go_on = threading.Event()

    async def run() -> int:
        pool = GrowingPool(1, GROWS, 0.001)
        loop = asyncio.get_running_loop()
        hanging = [loop.run_in_executor(pool, go_on.wait, 60.0) for _ in range(3 * MOST_MORE)]
        while alive() <= MOST_MORE:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        found = alive()
        go_on.set()
        await asyncio.gather(*hanging)
        pool.shutdown()
        return found

    assert asyncio.run(run()) == 1 + MOST_MORE


def test_a_pool_whose_work_has_hung_has_its_own_number_of_threads_again() -> None:
    go_on, pause = threading.Event(), threading.Event()
    begun: list[int] = []

    async def run() -> int:
        pool = GrowingPool(2, "load", 0.02)
        loop = asyncio.get_running_loop()
        hanging = [loop.run_in_executor(pool, go_on.wait, 60.0) for _ in range(4)]
        assert await asyncio.wait_for(loop.run_in_executor(pool, int, "7"), 10.0) == 7
        go_on.set()
        await asyncio.gather(*hanging)

        def work() -> None:
            begun.append(1)
            pause.wait(60.0)

        further = [loop.run_in_executor(pool, work) for _ in range(4)]
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)  # in which a surplus thread would begin a third
        found = len(begun)
        pause.set()
        await asyncio.gather(*further)
        pool.shutdown()
        return found

    assert asyncio.run(run()) == 2


def test_work_of_a_pool_that_fails_leaves_nothing_to_the_garbage_collector() -> None:
    """Such as the graph of a model that does not load: it may be large."""

    def failing() -> "tuple[Callable[[], None], weakref.ref[Held]]":
        held = Held()

        def fail() -> None:
            raise LookupError(held)

        return fail, weakref.ref(held)

    async def run() -> None:
        pool = GrowingPool(1, "load")
        fail, held = failing()
        with suppress(LookupError):
            await asyncio.get_running_loop().run_in_executor(pool, fail)
        del fail
        pool.shutdown()
        await asyncio.sleep(0)  # the loop has the future until then
        assert held() is None

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_an_idle_daemon_thread_takes_the_next_work() -> None:
    with DaemonThreads(50, GROWS) as threads:
        for _ in range(50):  # each thread is idle a moment after the result of its work is there
            threads.submit(int).result(PATIENCE_S)
        assert alive() < 50


def test_daemon_threads_do_more_work_than_they_are_in_turn() -> None:
    go, ran = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        assert go.wait(PATIENCE_S)
        ran.release()

    with DaemonThreads(2, GROWS) as threads:
        for _ in range(4):
            threads.begin(hold)
        assert alive() == 2
        go.set()
    assert [ran.acquire(timeout=PATIENCE_S) for _ in range(4)] == [True] * 4
    assert alive() == 0


def test_daemon_threads_run_no_work_that_they_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller does it instead, which would then be done twice."""
    done: list[int] = []
    threads = DaemonThreads(1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _none_left)
        with pytest.raises(RuntimeError):
            threads.begin(done.append, 1)
    threads.begin(done.append, 2)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.begin(done.append, 3)
    assert done == [2]


def _none_left(_: object) -> None:
    raise RuntimeError("can't start new thread")
