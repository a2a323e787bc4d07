"""A time limit that costs nothing where nothing waits, with a task around it or without."""

import asyncio
from typing import Any

import pytest

from ie_serving.core.errors import DeadlineExceeded
from ie_serving.inference.deadline import limited
from ie_serving.server.transport.eager import begin

PATIENCE_S = 10


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


@pytest.mark.parametrize("eager", [False, True])
async def test_work_that_takes_too_long_is_cancelled_and_says_so(eager: bool) -> None:
    """Also where there was no task when it began."""
    said: list[str] = []

    async def asked() -> None:
        with pytest.raises(DeadlineExceeded, match=r"longer than the limit of 0.01 s"):
            await limited(0.01, never(said))
        said.append("went on")

    task = begin(asked()) if eager else asyncio.create_task(asked())
    assert task is not None
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


async def test_cleaning_up_is_not_cancelled_a_second_time() -> None:
    said: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            said.append("cleaned up")

    with pytest.raises(DeadlineExceeded):
        await limited(0.01, slow_to_end())
    assert said == ["cleaned up"]
