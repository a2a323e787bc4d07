"""A coroutine runs at once, and goes on as a task from where it first waits."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ie_serving.core.runtime import eager_start

Begin = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None] | None"]


@pytest.fixture(params=["this Python's", "by hand"])
def begin(request: pytest.FixtureRequest) -> Begin:
    if request.param == "by hand":
        return eager_start.begin_by_hand
    if sys.version_info < (3, 12):
        pytest.skip("tasks start eagerly from Python 3.12 on")
    return eager_start.begin_eagerly


async def test_work_that_never_waits_ends_at_once(begin: Begin) -> None:
    """No task, no turn of the loop."""
    done = []

    async def work() -> None:
        done.append(1)

    assert begin(work()) is None
    assert done == [1]


async def test_an_exception_at_once_is_raised(begin: Begin) -> None:
    """The caller sees it as if it had called a function."""

    async def work() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        begin(work())


async def test_work_that_waits_goes_on_as_a_task(begin: Begin) -> None:
    """Several waits, of the loop and of a future, and the results of each."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(asyncio.current_task() is task)
        seen.append(await future)

    task = begin(work())
    assert task is not None
    future.set_result(7)
    await asyncio.wait_for(task, 5)
    assert seen == [True, 7]


async def test_several_may_wait_for_the_same(begin: Begin) -> None:
    """Begun in one turn of the loop, before any of their tasks has run."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[int] = []

    async def work() -> None:
        seen.append(await future)

    tasks = [begin(work()), asyncio.create_task(work()), begin(work())]
    await asyncio.sleep(0)
    future.set_result(7)
    for task in tasks:
        assert task is not None
        await asyncio.wait_for(task, 5)
    assert seen == [7, 7, 7]


async def test_an_exception_later_is_the_tasks(begin: Begin) -> None:
    """As with any task."""

    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError

    task = begin(work())
    assert task is not None
    with pytest.raises(ValueError):
        await asyncio.wait_for(task, 5)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_cancellation_reaches_the_work_and_what_it_waits_for(
    begin: Begin, turns: int
) -> None:
    """Also before the task's first step, when it does not know yet what it waits for."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cleaned = []

    async def work() -> None:
        try:
            await future
        finally:
            cleaned.append(1)

    task = begin(work())
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert cleaned == [1]
    assert future.cancelled()


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_the_work_learns_what_it_is_cancelled_for(begin: Begin, turns: int) -> None:
    heard: list[object] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            heard.extend(error.args)
            raise

    task = begin(work())
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel("too late")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert heard == ["too late"]


async def test_a_cancellation_waits_for_the_task_that_the_work_waits_for(begin: Begin) -> None:
    """Such a task may have to clean up first, as a thread's does."""
    cleaned = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("inner")

    async def work() -> None:
        try:
            await inner_task
        finally:
            cleaned.append("work")

    inner_task = asyncio.create_task(inner())
    await asyncio.sleep(0)
    task = begin(work())
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert cleaned == ["inner", "work"]


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_work_may_refuse_to_be_cancelled(begin: Begin, turns: int) -> None:
    """And goes on to wait for something else."""
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    seen: list[object] = []

    async def work() -> None:
        try:
            await first
        except asyncio.CancelledError:
            seen.append(await second)

    task = begin(work())
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    second.set_result(7)
    await asyncio.wait_for(task, 5)
    assert seen == [7]


async def test_a_shielded_wait_is_cancelled_without_what_it_shields(begin: Begin) -> None:
    """As an inference in a thread is."""
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = begin(_await(asyncio.shield(inner)))
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert not inner.done()


async def test_an_error_that_is_awaited_is_raised_in_the_work(begin: Begin) -> None:
    """Whether it comes before the task's first step or after."""
    for turns in (0, 2):
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = begin(_await(future))
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        future.set_exception(ValueError())
        with pytest.raises(ValueError):
            await asyncio.wait_for(task, 5)


async def _await(future: "asyncio.Future[None]") -> None:
    await future
