"""Runners that come while calls wait, and go when there are none."""

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.runtime.threads import DaemonThreads
from ie_serving.core.values.errors import NotAvailable, ServingError
from ie_serving.engines.kernels import Instances
from ie_serving.engines.python import fleet
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.fleet import CHANGES, FleetEvent, FleetStage, Growth, RunnerFleet
from ie_serving.engines.python.kernel_model import KernelModel, Line
from ie_serving.engines.python.runners import KernelCall, RunnerReadiness
from tests.process import ended
from tests.unit.engines.asking import answer
from tests.unit.engines.python.calling import call
from tests.unit.engines.python.kernels import options, written
from tests.unit.moves import check_moves

WORKS = """
import os, time

class Works:
    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"ms": number}, "outputs": {"pid": number}}

    def execute(self, inputs):
        if inputs["ms"] < 0:
            os._exit(1)
        time.sleep(int(inputs["ms"]) / 1000)
        return os.getpid()
"""


MOVES = """
          START     STARTED  CLOSE
STEADY    STARTING  .        CLOSED
STARTING  .         STEADY   CLOSED
CLOSED    CLOSED    CLOSED   CLOSED
"""


def test_every_event_in_every_stage_leads_as_written_here() -> None:
    check_moves(CHANGES, FleetStage, FleetEvent, MOVES)


async def pid(model: KernelModel, ms: int) -> int:
    return int((await answer(model, ms=ms))["pid"])


async def several(model: KernelModel) -> set[int]:
    """Ask, eight calls at a time, until two processes have answered."""
    seen: set[int] = set()
    while len(seen) < 2:
        seen.update(await asyncio.gather(*(pid(model, 20) for _ in range(8))))
    return seen


async def test_processes_come_and_go_with_the_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving")
    instances = Instances(min=1, max=2, idle_seconds=0.3)
    given = options("", None, isolation="process", instances=instances)
    model = load(written(tmp_path, WORKS), given)
    assert model.at_once(model.signatures["serving_default"]) == 2
    seen = await asyncio.wait_for(several(model), 60)
    ends = [asyncio.ensure_future(asyncio.to_thread(ended, each)) for each in seen]
    done, _ = await asyncio.wait(ends, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result() for each in done] == [True]
    left = await asyncio.gather(*(pid(model, 0) for _ in range(4)))
    assert len({*left}) == 1
    assert {*left} < seen
    model.close()
    assert all(await asyncio.gather(*ends))
    assert re.findall(r"changed .*instances=(\d)", caplog.text) == ["2", "1"]


async def test_a_process_that_dies_again_and_again_costs_the_others_nothing(
    tmp_path: Path,
) -> None:
    model = load(
        written(tmp_path, WORKS), options("", None, isolation="process", max_concurrency=2)
    )
    for _ in range(3):
        with pytest.raises(ServingError):
            await pid(model, -1)
    # The start of one is put off by now; the other one's was not.
    found = await asyncio.gather(*(pid(model, 1) for _ in range(20)), return_exceptions=True)
    assert [each for each in found if isinstance(each, Exception)] == []
    model.close()


class Runs:
    """A runner that answers with its name, when it is let."""

    def __init__(self, name: str, readiness: RunnerReadiness = RunnerReadiness.NOW) -> None:
        self.name = name
        self.readiness = readiness
        self.closed = threading.Event()

    def run(self, calls: Sequence[KernelCall]) -> None:
        for each in calls:
            if self.readiness is RunnerReadiness.LATER:
                each.failed(NotAvailable(f"{self.name} is not ready"))
            else:
                each.reply({"y": self.name})

    def ask_to_end(self) -> None:
        assert not self.closed.is_set()

    def close(self) -> None:
        self.closed.set()


def line(fleet: RunnerFleet) -> Line:
    return Line("k", fleet, DaemonThreads(4).begin, 1, None)


async def asked(line: Line) -> str:
    return await line.answer(call("y"), lambda outputs: outputs["y"].item().decode())


async def test_a_runner_that_is_not_ready_gets_no_calls_while_others_work() -> None:
    hurt, well = Runs("hurt", RunnerReadiness.LATER), Runs("well")
    calls = line(RunnerFleet([well, hurt]))
    assert [await asked(calls) for _ in range(3)] == ["well"] * 3
    assert await asyncio.gather(*(asked(calls) for _ in range(5))) == ["well"] * 5


async def test_where_none_is_ready_the_call_waits_for_one_that_starts_or_is_told() -> None:
    hurt, starts = Runs("hurt", RunnerReadiness.LATER), Runs("starts", RunnerReadiness.SOON)
    assert await asked(line(RunnerFleet([starts, hurt]))) == "starts"
    with pytest.raises(NotAvailable, match="hurt is not ready"):
        await asked(line(RunnerFleet([hurt])))


def growing(start: Callable[[], Any], most: int = 2) -> Growth:
    return Growth(name="k", least=1, most=most, idle_s=60.0, start=start)


class Logged(logging.Handler):
    """Tells when anything is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.came.set()


async def test_a_start_that_fails_is_put_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fleet, "PRESSED_S", 0.0)
    logged = Logged()
    monkeypatch.setattr(fleet.log, "handlers", [logged])
    tried: list[int] = []

    def fails() -> Any:
        tried.append(os.getpid())
        raise OSError("no process left")

    few = RunnerFleet([Runs("one")], growing(fails))
    few.take()
    few.pressed(1.0)
    assert await asyncio.to_thread(logged.came.wait, 30)
    assert "kernel instance not started" in caplog.text
    few.pressed(1.0)
    assert len(tried) == 1
    few.close()


class Told(RunnerFleet):
    """Notes for how long calls have waited, and gives no runner."""

    def __init__(self) -> None:
        super().__init__([])
        self.waited_s: list[float] = []

    def take(self) -> None:
        return None

    def pressed(self, waited_s: float) -> None:
        self.waited_s.append(waited_s)


async def test_the_wait_of_a_call_that_has_left_is_not_the_next_one_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, loop = Told(), asyncio.get_running_loop()
    calls = line(told)
    for now in (100.0, 200.0):
        monkeypatch.setattr(loop, "time", partial(float, now))
        left = asyncio.create_task(asked(calls))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait((left,))
    assert told.waited_s == [0.0, 0.0]


async def test_a_runner_that_starts_late_is_ended_with_the_rest() -> None:
    begun, late = asyncio.Event(), Runs("late")
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    starts: list[Runs] = []

    def start() -> Runs:
        starts.append(late)
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(closed.wait(), loop).result(30)
        return late

    few = RunnerFleet([Runs("one")], growing(start))
    few.take()
    few.pressed(1.0)
    few.pressed(1.0)  # while one starts there is no other
    await asyncio.wait_for(begun.wait(), 30)
    few.close()
    few.pressed(1.0)  # nor when all are ended
    closed.set()
    assert await asyncio.to_thread(late.closed.wait, 30)
    assert starts == [late]
