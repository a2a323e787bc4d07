"""Calls that wait form the next batch of a kernel that takes batches."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import NO_CALLER
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.layers.batching import BatchingEngine
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.driver import load
from ie_serving.engines.python.fleet import RunnerFleet
from ie_serving.engines.python.kernel_model import EarlyTurn, KernelModel, Line
from ie_serving.engines.python.runners import KernelCall, RunnerReadiness
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from tests.process import PATIENCE_S
from tests.unit.engines.asking import answer
from tests.unit.engines.python.calling import call
from tests.unit.engines.python.kernels import options, written

BATCHES = """
import threading

class Batches:
    def load(self, ctx):
        ctx.params["of"][0], self.sizes, self.free = self, [], threading.Event()

    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"x": number}, "outputs": {"y": number}}

    def execute_batch(self, calls):
        self.sizes.append(len(calls))
        self.free.wait(30)
        found = [int(call.inputs["x"]) for call in calls]
        if 13 in found:
            raise RuntimeError("13")
        if found == [12]:
            return None
        if 11 in found:
            return [ValueError("eleven") if each == 11 else each for each in found]
        for call in calls:
            if int(call.inputs["x"]) == 10:
                call.fail("NOT_FOUND", "ten")
            elif int(call.inputs["x"]) == 9:
                call.reply({"y": 900})
        return [each * 10 for each in found]
"""


class Compiles:
    """An engine with one driver."""

    name = "python"

    def missing(self, files: Any) -> None:
        return None

    def compile(self, directory: Path, given: EngineOptions) -> KernelModel:
        return load(directory, given)


class Batch:
    """A kernel that holds its first call, while others come."""

    def __init__(self, directory: Path, rows: int) -> None:
        of: list[Any] = [None]
        given = options("", {"of": of}, Batching(max_batch_size=rows))
        # As served, with the layer of batches around it: it leaves such kernels alone.
        engine = BatchingEngine(Compiles(), record=_NoRecord(), read=_nothing)
        self.model = engine.compile(written(directory, BATCHES), given)
        self.kernel = of[0]

    async def answers(self, *numbers: int) -> list[Any]:
        """Ask for 0, and while that runs for the others, all at once."""
        self.kernel.free.clear()
        self.kernel.sizes.clear()
        asked = [asyncio.ensure_future(answer(self.model, x=n)) for n in (0, *numbers)]
        await asyncio.sleep(0)  # each of them has had its first turn
        self.kernel.free.set()
        found = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 30)
        return [str(e) if isinstance(e, Exception) else int(e["y"]) for e in found[1:]]


class _NoRecord(BatchMetrics):
    pass


def _nothing(text: str, name: str) -> Batching:
    raise AssertionError(name)


@pytest.fixture
def batch(tmp_path: Path) -> Any:
    found = Batch(tmp_path, 8)
    yield found
    found.model.close()


async def test_calls_that_wait_are_the_next_batch(batch: Batch) -> None:
    assert await batch.answers(*range(1, 9), 1) == [*range(10, 90, 10), 10]
    assert batch.kernel.sizes == [1, 8, 1]


async def test_without_a_batch_size_each_call_is_a_batch(tmp_path: Path) -> None:
    alone = Batch(tmp_path, 0)
    assert await alone.answers(1, 2) == [10, 20]
    assert alone.kernel.sizes == [1, 1, 1]
    alone.model.close()


async def test_answers_of_their_own(batch: Batch) -> None:
    assert await batch.answers(1, 10, 9) == [10, "ten", 900]
    assert await batch.answers(11, 2) == ["kernel Batches failed: ValueError: eleven", 2]


EARLY = """
class Early:
    def load(self, ctx):
        self.free, self.ended = ctx.params["free"], ctx.params["ended"]

    def metadata(self):
        number = {"dtype": "int64", "shape": []}
        return {"inputs": {"x": number}, "outputs": {"y": number}}

    def execute_batch(self, calls):
        for call in calls:
            if int(call.inputs["x"]) == 1:
                call.reply({"y": 10})
                call.reply({"y": 20})
                call.fail("INTERNAL", "third")
            else:
                call.fail("NOT_FOUND", "nobody")
        self.free.wait(30)
        self.ended.set()
        raise RuntimeError("late")
"""


@pytest.mark.parametrize(("x", "found"), [(1, "10"), (2, "nobody")])
async def test_a_reply_comes_before_the_batch_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, x: int, found: str
) -> None:
    free, ended = threading.Event(), threading.Event()
    model = load(written(tmp_path, EARLY), options("", {"free": free, "ended": ended}))
    try:
        try:
            reply = str((await asyncio.wait_for(answer(model, x=x), 30))["y"])
        except NotFound as error:
            reply = str(error)
        assert reply == found
        assert not ended.is_set()
    finally:
        free.set()
        model.close()
    assert await asyncio.to_thread(ended.wait, 30)
    assert caplog.text.count("kernel answered twice") == (2 if x == 1 else 0)


async def test_the_end_of_a_batch_waits_for_a_reply_that_is_read() -> None:
    """A kernel that replies from a thread of its own: the client was given nothing."""
    reading, go = threading.Event(), threading.Event()
    found = []

    def read(outputs: object) -> bytes:
        reading.set()
        assert go.wait(PATIENCE_S)
        return b"reply"

    own = KernelCall("k", nullcontext, {}, {}, Context(NO_CALLER))
    turn = EarlyTurn(own, read, asyncio.get_running_loop(), ())
    replies = threading.Thread(target=own.reply, args=({},))
    ends = threading.Thread(target=lambda: found.append((turn.finish(), turn.value)))
    replies.start()
    assert reading.wait(PATIENCE_S)
    ends.start()
    ends.join(0.05)  # long enough for one that does not wait
    go.set()
    for each in (replies, ends):
        each.join(PATIENCE_S)
    assert found == [(None, b"reply")]


async def test_one_that_raises_does_not_fail_those_beside_it(batch: Batch) -> None:
    assert await batch.answers(1, 13, 3) == [10, "kernel Batches failed: RuntimeError: 13", 30]
    assert batch.kernel.sizes == [1, 3, 1, 1, 1]


async def test_a_call_without_an_answer_fails(batch: Batch) -> None:
    (found,) = await batch.answers(12)
    assert found.startswith("execute_batch left this call without an answer: it returned NoneType")


async def test_the_mean_batch_of_32_clients_is_large(batch: Batch) -> None:
    """The kernel is held until all have asked; then it takes as many as it may."""
    assert await batch.answers(*[1] * 32) == [10] * 32
    sizes = batch.kernel.sizes[1:]
    assert sum(sizes) / len(sizes) >= 8


async def test_a_batch_that_everybody_has_left_does_not_run() -> None:
    begun: list[Callable[[], object]] = []
    ran: list[Sequence[KernelCall]] = []

    def begin(work: Callable[..., object], *args: object) -> None:
        begun.append(partial(work, *args))

    class Runs:
        readiness = RunnerReadiness.NOW

        def run(self, calls: Sequence[KernelCall]) -> None:
            ran.append(calls)

        def close(self) -> None:
            """Nothing to end."""

    line = Line("k", RunnerFleet([Runs()]), begin, 1, None)
    asked = asyncio.ensure_future(line.answer(call(), dict))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    begun.pop()()
    assert ran == []
