"""A time limit that costs nothing where nothing waits, with a task around it or without."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ie_serving.core.runtime.eager_start import DirectFuture, begin, begin_unawaited
from ie_serving.core.values.errors import DeadlineExceeded
from ie_serving.inference.deadline import Alarm, LimitedWork, limited
from tests.unit.alarms import LONG_S, Alarms

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
    """A time-out in its place would leave the cancelled task running."""
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


class Waiting:
    """Work that `begin_unawaited` began, with a limit, which waits for `DirectFuture` futures."""

    def __init__(self, *, cleans_up: bool = False) -> None:
        self.ended = asyncio.Event()
        self.raised: BaseException | None = None
        self.cleaning = DirectFuture[None]() if cleans_up else None
        going = begin_unawaited(self._run())
        assert going is not None
        self.going = going
        going.add_done_callback(lambda _: self.ended.set())

    async def _run(self) -> None:
        try:
            await limited(LONG_S, self._wait())
        except BaseException as error:
            self.raised = error

    async def _wait(self) -> None:
        try:
            await DirectFuture[None]()
        finally:
            if self.cleaning is not None:
                await self.cleaning

    async def outcome(self) -> BaseException | None:
        await asyncio.wait_for(self.ended.wait(), PATIENCE_S)
        return self.raised


async def test_work_without_a_task_that_takes_too_long_says_so(alarms: Alarms) -> None:
    waiting = Waiting()
    alarms.ring()
    assert isinstance(await waiting.outcome(), DeadlineExceeded)


@pytest.mark.parametrize("first", ["limit", "cancellation"])
async def test_a_cancellation_of_work_without_a_task_is_passed_on(
    first: str, alarms: Alarms
) -> None:
    waiting = Waiting()
    if first == "limit":
        alarms.ring()
    waiting.going.cancel("left")
    if first != "limit":
        alarms.ring()
    raised = await waiting.outcome()
    assert (type(raised), raised and raised.args) == (asyncio.CancelledError, ("left",))


async def test_so_is_one_while_work_without_a_task_cleans_up(alarms: Alarms) -> None:
    waiting = Waiting(cleans_up=True)
    alarms.ring()
    await asyncio.sleep(0)
    waiting.going.cancel()
    assert isinstance(await waiting.outcome(), asyncio.CancelledError)


class Clock:
    """Stands for the loop's time and timers: one may be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.now = 0.0
        self.timer: tuple[float, Callable[[], None]] | None = None
        monkeypatch.setattr(loop, "time", lambda: self.now)
        monkeypatch.setattr(loop, "call_later", self._call_later)

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> object:
        assert self.timer is None
        self.timer = (self.now + delay_s, callback)
        return object()

    def ring(self) -> float:
        """Let the timer go off when it is set for; give when that is."""
        assert self.timer is not None
        (self.now, callback), self.timer = self.timer, None
        callback()
        return self.now


class Ended(LimitedWork[None]):
    """Work that notes when its time was up."""

    def __init__(self, alarm: Alarm, ended: list["Ended"]) -> None:
        super().__init__(alarm, never(), None)  # type: ignore[arg-type]
        self._list = ended
        self._work.close()

    def expire(self) -> None:
        self._list.append(self)


async def test_one_alarm_ends_each_work_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, alarm, ended = Clock(monkeypatch), Alarm(10.0), list[Ended]()
    works = [Ended(alarm, ended) for _ in range(4)]
    for at, work in zip((0.0, 3.0, 3.0, 5.0), works, strict=True):
        clock.now = at
        alarm.add(work)
    alarm.remove(works[0])  # it has ended; its timer stays
    assert (clock.ring(), ended) == (10.0, [])
    assert (clock.ring(), ended) == (13.0, works[1:3])
    assert (clock.ring(), ended) == (15.0, works[1:])
    assert clock.timer is None
    clock.now = 20.0
    alarm.add(works[0])
    assert clock.ring() == 30.0
    assert ended[-1] is works[0]
