"""Work that is not awaited goes on behind a `DirectFuture` without a task, and then as one."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ie_serving.core.runtime.eager_start import DirectFuture, UnfinishedWork, begin_unawaited

PATIENCE_S = 5


class Work:
    """Waits for what it is given, one after the other, and writes down how that goes."""

    def __init__(self, *waits: "asyncio.Future[Any]", between: Callable[[], object] = int) -> None:
        self._waits = waits
        self._between = between
        self.seen: list[object] = []
        self.tasks: list[object] = []
        self.ended = asyncio.Event()

    async def run(self) -> None:
        for future in self._waits:
            try:
                self.seen.append(await future)
            except (asyncio.CancelledError, ValueError) as error:
                self.seen.append((type(error), error.args))
                raise
            finally:
                self.tasks.append(asyncio.current_task())
            self._between()


def begun(work: Work) -> UnfinishedWork:
    going = begin_unawaited(work.run())
    assert going is not None
    going.add_done_callback(lambda _: work.ended.set())
    return going


async def ended(work: Work) -> list[object]:
    await asyncio.wait_for(work.ended.wait(), PATIENCE_S)
    return work.seen


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_work_that_never_waits_ends_at_once() -> None:
    work = Work()
    assert begin_unawaited(work.run()) is None


async def test_behind_a_direct_future_there_is_no_task() -> None:
    first, second = DirectFuture[int](), DirectFuture[int]()
    work = Work(first, second)
    begun(work)
    first.set_result(1)
    await asyncio.sleep(0)
    second.set_result(2)
    assert await ended(work) == [1, 2]
    assert work.tasks == [None, None]


async def test_behind_any_other_there_is() -> None:
    first, second, third = DirectFuture[int](), future(), DirectFuture[int]()
    work = Work(first, second, third)
    begun(work)
    first.set_result(1)
    await asyncio.sleep(0)
    for each in (second, third):
        each.set_result(2)
    assert await ended(work) == [1, 2, 2]
    assert work.tasks[0] is None
    assert all(isinstance(task, asyncio.Task) for task in work.tasks[1:])


@pytest.mark.parametrize("kind", [DirectFuture, asyncio.Future])
async def test_it_is_cancelled_where_it_waits(kind: "type[asyncio.Future[Any]]") -> None:
    first, second = DirectFuture[int](), kind()
    work = Work(first, second)
    going = begun(work)
    first.set_result(1)
    await asyncio.sleep(0)
    assert work.seen == [1]
    going.cancel("too late")
    assert await ended(work) == [1, (asyncio.CancelledError, ("too late",))]
    assert second.cancelled()


@pytest.mark.parametrize("fails", [False, True])
async def test_it_is_cancelled_also_when_what_it_waits_for_is_there(fails: bool) -> None:
    """Before the turn of the loop that would tell it; an error that came counts as looked at."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said))
    first = DirectFuture[int]()
    work = Work(first)
    going = begun(work)
    if fails:
        first.set_exception(ValueError())
    else:
        first.set_result(1)
    going.cancel("left")
    assert await ended(work) == [(asyncio.CancelledError, ("left",))]
    del first, work, going
    gc.collect()
    assert not told


@pytest.mark.parametrize("kind", [DirectFuture, asyncio.Future])
async def test_one_that_is_cancelled_while_it_runs_ends_at_its_next_wait(
    kind: "type[asyncio.Future[Any]]",
) -> None:
    first, second = DirectFuture[int](), kind()
    work = Work(first, second, between=lambda: going.cancel("now"))
    going = begun(work)
    first.set_result(1)
    assert await ended(work) == [1, (asyncio.CancelledError, ("now",))]


async def test_an_error_that_is_awaited_is_raised_in_it_and_told_the_loop() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said))
    first = DirectFuture[int]()
    work = Work(first)
    begun(work)
    first.set_exception(ValueError("no"))
    assert await ended(work) == [(ValueError, ("no",))]
    await asyncio.sleep(0)
    assert [type(said["exception"]) for said in told] == [ValueError]


async def test_an_exception_at_once_is_raised() -> None:
    async def fail() -> None:
        raise ValueError

    work: Coroutine[Any, Any, None] = fail()
    with pytest.raises(ValueError):
        begin_unawaited(work)


async def test_tasks_and_several_works_may_wait_for_the_same() -> None:
    shared = DirectFuture[int]()
    works = [Work(shared), Work(shared)]
    for work in works:
        begun(work)
    task = asyncio.create_task(Work(shared).run())
    await asyncio.sleep(0)
    shared.set_result(3)
    assert [await ended(work) for work in works] == [[3], [3]]
    await asyncio.wait_for(task, PATIENCE_S)


@pytest.mark.parametrize("fails", [False, True])
async def test_ended_work_holds_nothing_that_it_held_before(fails: bool) -> None:
    """As a call does whose reply waits for its client, and which is told of the end."""

    class Call:
        def __init__(self, awaited: "asyncio.Future[Any]") -> None:
            self.ended = asyncio.Event()
            going = begin_unawaited(self.answer(awaited))
            assert going is not None
            self.going = going
            going.add_done_callback(self.end)

        async def answer(self, awaited: "asyncio.Future[Any]") -> None:
            await awaited

        def end(self, _: object) -> None:
            self.ended.set()

    class Content:
        pass

    class Waiting(DirectFuture[Content]):
        inputs: Content

    awaited, result = Waiting(), Content()
    awaited.inputs = Content()
    held = [weakref.ref(awaited.inputs), weakref.ref(result)]
    call = Call(awaited)
    if fails:
        call.going.cancel()
    else:
        awaited.set_result(result)
    gc.disable()
    try:
        del awaited, result
        await asyncio.wait_for(call.ended.wait(), PATIENCE_S)
        await asyncio.sleep(0)
        assert [each() for each in held] == [None, None]
        gone = weakref.ref(call)
        del call
        assert gone() is None
    finally:
        gc.enable()


async def test_work_that_has_ended_is_not_cancelled() -> None:
    first = DirectFuture[int]()
    work = Work(first)
    going = begun(work)
    first.set_result(1)
    await ended(work)
    assert not going.cancel()
