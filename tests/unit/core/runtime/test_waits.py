"""Waiting for an event for a limited time, a back-off that grows and is bounded, shared work."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.waits import Backoff, SingleFlight, Tasks, set_within, side_by_side

PATIENCE_S = 10


async def test_an_event_that_is_set_is_not_waited_for() -> None:
    event = asyncio.Event()
    event.set()
    assert await set_within(event, 0)


async def test_an_event_that_is_set_meanwhile_ends_the_wait() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await set_within(event, PATIENCE_S)


async def test_the_time_is_over_first() -> None:
    assert not await set_within(asyncio.Event(), 0)


async def test_a_cancellation_counts_though_the_event_is_set_with_it() -> None:
    """The end of a connection does both."""
    event = asyncio.Event()
    waiting = asyncio.create_task(set_within(event, PATIENCE_S))
    asyncio.get_running_loop().call_soon(event.set)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting


chances = st.floats(0, 1, allow_nan=False)


@given(failures=st.integers(0, 10_000), chance=chances)
def test_a_delay_is_half_to_all_of_a_doubling_limited_wait(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.2, longest_s=10)
    longest = min(10, 0.2 * 2 ** max(0, min(failures - 1, 100)))
    assert longest / 2 <= backoff.delay_s(failures, chance) <= longest


async def test_a_task_that_fails_is_told_of_at_once_and_is_held_until_then() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    tasks, error = Tasks(), LookupError("x")

    async def fail() -> None:
        raise error

    task = tasks.begin(fail())
    assert tasks == {task}
    await asyncio.wait([task])
    assert not tasks
    assert [context["exception"] for context in told] == [error]


async def test_tasks_are_cancelled_together() -> None:
    tasks = Tasks()
    begun = [tasks.begin(asyncio.sleep(PATIENCE_S)) for _ in range(2)]
    tasks.cancel()
    await asyncio.wait(begun)
    assert all(task.cancelled() for task in begun)
    assert not tasks


@pytest.mark.parametrize("ends", ["by an error", "by a cancellation"])
async def test_work_done_together_ends_together(ends: str) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            await asyncio.sleep(0)  # an end may take time of its own
            ended.append("hang")

    async def fail() -> None:
        await begun.wait()
        if ends == "by an error":
            raise LookupError
        await asyncio.sleep(PATIENCE_S)

    work = asyncio.create_task(side_by_side([hang(), fail()]))
    await begun.wait()
    if ends == "by a cancellation":
        work.cancel()
    with pytest.raises((LookupError, asyncio.CancelledError)):
        await work
    assert ended == ["hang"]


async def test_callers_with_the_same_key_share_work_until_it_ends() -> None:
    """One that is cancelled ends it for no other."""
    flight: SingleFlight[str, int] = SingleFlight()
    gate, begun = asyncio.Event(), []

    async def work() -> int:
        begun.append(1)
        await gate.wait()
        return len(begun)

    first, second = (asyncio.create_task(flight.share("a", work)) for _ in range(2))
    other = asyncio.create_task(flight.share("b", work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(begun), set(flight.under_way)) == (2, {"a", "b"})
    first.cancel()
    gate.set()
    assert await asyncio.wait_for(asyncio.gather(second, other), PATIENCE_S) == [2, 2]
    assert first.cancelled()
    assert not flight.under_way
    assert await asyncio.wait_for(flight.share("a", work), PATIENCE_S) == 3


async def test_all_callers_get_the_error_and_close_cancels() -> None:
    flight: SingleFlight[str, None] = SingleFlight()

    async def fail() -> None:
        raise ValueError

    asked = [flight.share("a", fail), flight.share("a", fail)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found] == [ValueError] * 2
    endless = flight.begin("a", asyncio.Event().wait)  # type: ignore[arg-type]
    flight.close()
    await asyncio.wait((endless,), timeout=PATIENCE_S)
    assert endless.cancelled()
    assert not flight.under_way
