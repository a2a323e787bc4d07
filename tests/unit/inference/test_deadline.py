"""A time limit that costs nothing where nothing waits, with a task around it or without."""

import asyncio
import sys
from typing import Any

import pytest

from ie_serving.core.eager import begin
from ie_serving.core.errors import DeadlineExceeded
from ie_serving.inference.deadline import limited
from tests.unit.alarms import LONG_S, Alarms

PATIENCE_S = 10


@pytest.fixture
async def alarms(monkeypatch: pytest.MonkeyPatch) -> Alarms:
    loop = asyncio.get_running_loop()
    alarms = Alarms(loop)
    monkeypatch.setattr(loop, "call_later", alarms.call_later)
    return alarms


async def answer() -> str:
    return "done"


async def answer_later() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "done"


async def never(said: list[str] | None = None) -> str:
    try:
        await asyncio.Event().wait()
    finally:
        if said is not None:
            said.append("cleaned up")
    return "never"


@pytest.mark.parametrize("work", [answer, answer_later])
async def test_work_in_time_gives_its_result(work: Any) -> None:
    assert await limited(PATIENCE_S, work()) == "done"


async def test_work_that_never_waits_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda *_: pytest.fail("a timer"))
    assert await limited(PATIENCE_S, answer()) == "done"


def start(asked: Any, *, eager: bool) -> "asyncio.Task[None]":
    task = begin(asked) if eager else asyncio.create_task(asked)
    assert task is not None
    return task


WITH_AND_WITHOUT_A_TASK = pytest.mark.parametrize("eager", [False, True], ids=["task", "eager"])
"""Work that begins in a task of its own, or inside the callback that brought its request."""


@WITH_AND_WITHOUT_A_TASK
async def test_work_that_takes_too_long_is_cancelled_and_says_so(
    eager: bool, alarms: Alarms
) -> None:
    said: list[str] = []

    async def asked() -> None:
        with pytest.raises(DeadlineExceeded, match=r"longer than the limit of 600 s"):
            await limited(LONG_S, never(said))
        said.append("went on")

    task = start(asked(), eager=eager)
    await asyncio.sleep(0)
    alarms.ring()
    await asyncio.wait_for(task, PATIENCE_S)
    assert said == ["cleaned up", "went on"]


async def test_a_cancellation_from_elsewhere_is_passed_on() -> None:
    said: list[str] = []

    async def asked() -> None:
        await limited(PATIENCE_S, never(said))

    task = asyncio.create_task(asked())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["cleaned up"]


async def test_an_error_is_passed_on() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await limited(PATIENCE_S, fail())


async def test_cleaning_up_is_not_cancelled_a_second_time(alarms: Alarms) -> None:
    said: list[str] = []

    async def asked() -> None:
        with pytest.raises(DeadlineExceeded):
            await limited(LONG_S, slow_to_end(said, asyncio.sleep(0)))

    task = start(asked(), eager=False)
    await asyncio.sleep(0)
    alarms.ring()
    await asyncio.wait_for(task, PATIENCE_S)
    assert said == ["cleaned up"]


async def slow_to_end(said: list[str], end: Any) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await end
        said.append("cleaned up")


COUNTED = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 counts none")


@COUNTED
@WITH_AND_WITHOUT_A_TASK
async def test_a_cancellation_in_the_turn_in_which_time_is_up_is_passed_on(
    eager: bool, alarms: Alarms
) -> None:
    """A time-out in its place would leave the task running that somebody wanted to end."""
    task = start(limited(LONG_S, never()), eager=eager)
    await asyncio.sleep(0)
    alarms.ring()
    task.cancel()
    await asyncio.wait((task,), timeout=PATIENCE_S)
    assert task.cancelled()


@COUNTED
@WITH_AND_WITHOUT_A_TASK
async def test_a_cancellation_while_the_work_cleans_up_is_passed_on(
    eager: bool, alarms: Alarms
) -> None:
    cleaning = asyncio.Event()

    async def ends_never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.Event().wait()

    task = start(limited(LONG_S, ends_never()), eager=eager)
    await asyncio.sleep(0)
    alarms.ring()
    await asyncio.wait_for(cleaning.wait(), PATIENCE_S)
    task.cancel()
    await asyncio.wait((task,), timeout=PATIENCE_S)
    assert task.cancelled()


@COUNTED
async def test_a_cancellation_before_the_work_began_is_not_taken_for_one_of_it(
    alarms: Alarms,
) -> None:
    """What a cancelled task still does in its `finally` may have a limit of its own."""
    said: list[str] = []

    async def asked() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(DeadlineExceeded):
                await limited(LONG_S, never(said))

    task = start(asked(), eager=False)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    alarms.ring()
    await asyncio.wait((task,), timeout=PATIENCE_S)
    assert (task.cancelled(), said) == (True, ["cleaned up"])
