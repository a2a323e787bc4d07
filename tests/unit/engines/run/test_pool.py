"""The pool lends first come, first served, and loses nothing."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import QueueFull
from ie_serving.engines.run import infer_request as pool_module
from ie_serving.engines.run.infer_request import Pool

STEPS = st.sampled_from(["take", "cancel", "give", "turn"])


async def turn() -> None:
    """Let every task run up to its next await."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_waiters_are_served_in_order() -> None:
    pool = Pool(["only"])
    item = await pool.take()
    order: list[int] = []

    async def use(number: int) -> None:
        taken = await pool.take()
        order.append(number)
        pool.give(taken)

    tasks = [asyncio.ensure_future(use(i)) for i in range(5)]
    await turn()
    pool.give(item)
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert pool.free == ["only"]


async def test_a_waiter_cancelled_in_the_tick_of_its_turn_passes_it_on() -> None:
    pool = Pool(["only"])
    item = await pool.take()
    first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
    await turn()
    pool.give(item)
    first.cancel()
    assert await asyncio.wait_for(second, 5) == "only"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_waiter_cancelled_before_its_turn_is_passed_over() -> None:
    pool = Pool(["only"])
    item = await pool.take()
    first, second = (asyncio.ensure_future(pool.take()) for _ in range(2))
    await turn()
    first.cancel()
    await turn()
    pool.give(item)
    assert await asyncio.wait_for(second, 5) == "only"


@given(
    size=st.integers(1, 3),
    steps=st.lists(
        st.tuples(st.sampled_from(["take", "cancel", "give", "turn"]), st.integers(0, 9))
    ),
)
def test_after_any_history_every_item_is_lent_or_free(
    size: int, steps: list[tuple[str, int]]
) -> None:
    async def play() -> None:
        pool = Pool(range(size))
        tasks: list[asyncio.Task[int]] = []
        given_back: set[int] = set()
        for step, which in steps:
            if step == "take":
                tasks.append(asyncio.ensure_future(pool.take()))
            elif step == "turn":
                await asyncio.sleep(0)
            elif tasks and step == "cancel":
                tasks[which % len(tasks)].cancel()
            elif tasks and which % len(tasks) not in given_back:
                give(pool, tasks, which % len(tasks), given_back)
        for _ in range(len(tasks) + 3):
            await asyncio.sleep(0)
            for i in range(len(tasks)):
                give(pool, tasks, i, given_back)
        assert sorted(pool.free) == list(range(size))
        assert all(task.done() for task in tasks)

    asyncio.run(play())


def give(pool: Pool[int], tasks: list["asyncio.Task[int]"], i: int, given: set[int]) -> None:
    """Give back what task `i` took, once."""
    if i not in given and tasks[i].done() and not tasks[i].cancelled():
        given.add(i)
        pool.give(tasks[i].result())


async def test_others_are_idle_while_at_most_one_item_is_lent() -> None:
    pool = Pool(["a", "b"])
    first = await pool.take()
    assert pool.others_idle
    second = await pool.take()
    assert not pool.others_idle
    pool.give(second)
    assert pool.others_idle
    pool.give(first)


async def test_the_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_INFER_WAITERS", 2)
    pool = Pool(["only"])
    taken = await pool.take()
    waiting = [asyncio.create_task(pool.take()) for _ in range(2)]
    await turn()
    with pytest.raises(QueueFull, match="2 requests wait for this model already"):
        await pool.take()
    pool.give(taken)
    assert await waiting[0] == "only"
    pool.give("only")
    assert await waiting[1] == "only"
