"""A coroutine runs at once, and goes on as a task from where it first waits."""

import asyncio

import pytest

from ie_serving.server.eager import begin


async def test_work_that_never_waits_ends_at_once() -> None:
    """No task, no turn of the loop."""
    done = []

    async def work() -> None:
        done.append(1)

    assert begin(work()) is None
    assert done == [1]


async def test_what_it_raises_at_once_is_raised() -> None:
    """The caller sees it as if it had called a function."""

    async def work() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        begin(work())


async def test_work_that_waits_goes_on_as_a_task() -> None:
    """Several waits, of the loop and of a future, and the results of each."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task() is task_around)
        await asyncio.sleep(0)
        seen.append(await future)

    task_around = asyncio.current_task()
    task = begin(work())
    assert task is not None
    future.set_result(7)
    await asyncio.wait_for(task, 5)
    assert seen == [True, 7]


async def test_several_may_wait_for_the_same() -> None:
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


async def test_what_it_raises_later_is_the_task_s() -> None:
    """As with any task."""

    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError

    task = begin(work())
    assert task is not None
    with pytest.raises(ValueError):
        await asyncio.wait_for(task, 5)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_cancellation_reaches_the_work_and_what_it_waits_for(turns: int) -> None:
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
