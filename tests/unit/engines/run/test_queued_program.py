"""An engine that is given the next inference while it computes one."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ie_serving.core.runtime.threads import DaemonThreads
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.tensors import Array
from ie_serving.engines.base import GATHERED
from ie_serving.engines.run import program, queued_program
from ie_serving.engines.run.infer_request import Shapes
from ie_serving.engines.run.latency_model import CEILING_S, LatencyModel
from ie_serving.engines.run.program import Program
from ie_serving.engines.run.queued_program import LoneRowProgram, QueuedProgram
from ie_serving.telemetry.metrics.inferences import Inferences, recording
from tests.unit.engines.run.test_program import SIGNATURE, WAIT_S, EngineFailure, values


class Engine:
    """Infers y = 2 x for its requests, one at a time, in the order in which they were started.

    Attributes:
        go: inferences wait for it.
        begun: `run`, or `start`, of each inference, in order.
    """

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.turn = threading.Lock()


class Request:
    """One of its infer requests; fails for negative values."""

    renews = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._x: Array = np.empty(0)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        if np.isnan(inputs["x"]).any():
            raise InvalidTensor("NaN")
        self._x = inputs["x"].copy()

    def run(self) -> Mapping[str, Array]:
        self._engine.begun.append("run")
        if threading.current_thread() is threading.main_thread():
            self._engine.begun.append("on the loop")
            return {"y": self._x * 2}
        return self.finish()

    def run_new(self) -> Mapping[str, Array]:
        self._engine.begun.append("run_new")
        return self.finish()

    def start(self) -> None:
        assert threading.current_thread() is threading.main_thread()
        self._engine.begun.append("start")

    def finish(self) -> Mapping[str, Array]:
        assert threading.current_thread() is not threading.main_thread()
        with self._engine.turn:
            assert self._engine.go.wait(WAIT_S)
            if (self._x < 0).any():
                raise EngineFailure("negative")
            return {"y": self._x * 2}

    def cancel(self) -> None:
        """Nothing ends early."""

    def renew(self) -> None:
        """Nothing is spoilt."""


class AnyShape:
    """Knows every combination of shapes."""

    names = ("x",)

    class _All(tuple[Shapes, ...]):
        def __contains__(self, shapes: object) -> bool:
            return True

    known = _All()

    async def check(self, shapes: Shapes) -> None:
        raise AssertionError(shapes)


class Asked:
    """A program whose first inference runs until `engine.go` is set.

    Attributes:
        ran: the seconds of each of its inferences.
        record: where it notes these, and how long each has waited.
    """

    def __init__(self, execution: str = "async", lone: LoneRowProgram | None = None) -> None:
        self.engine = Engine()
        self.latency = LatencyModel(execution)
        self.record = Inferences()
        self.record.ran = self.ran = list[float]()
        requests = [Request(self.engine) for _ in range(2)]
        with recording(self.record):
            self.program = QueuedProgram(
                SIGNATURE,
                requests,
                self.latency,
                failures=(EngineFailure,),
                blame=lambda error: ServingError(f"engine: {error}"),
                admission=AnyShape(),
                lone=lone,
            )

    def ask(self, *given: float) -> "asyncio.Task[Any]":
        inputs = {"x": np.array(given, np.float32)}
        return asyncio.ensure_future(self.program.infer(inputs, values))

    async def until(self, met: Callable[[], bool]) -> None:
        async def seen() -> None:
            while not met():
                await asyncio.sleep(0)

        await asyncio.wait_for(seen(), WAIT_S)


async def busy() -> Asked:
    asked = Asked()
    asked.ask(1)
    await asked.until(lambda: asked.engine.begun == ["run"])
    return asked


async def result(task: "asyncio.Task[Any]") -> object:
    return await asyncio.wait_for(task, WAIT_S)


async def test_the_engine_has_the_next_before_the_first_is_over_and_a_third_waits() -> None:
    asked = await busy()
    tasks = [asked.ask(2), asked.ask(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert asked.program.at_once == 1
    assert asked.engine.begun == ["run", "start"]
    asked.engine.go.set()
    assert [await result(task) for task in tasks] == [[4], [6]]


async def test_a_failure_behind_another_inference_is_that_requests_error() -> None:
    asked = await busy()
    bad = asked.ask(-1)
    await asked.until(lambda: len(asked.engine.begun) == 2)
    asked.engine.go.set()
    with pytest.raises(ServingError, match="engine: negative"):
        await result(bad)
    assert await result(asked.ask(3)) == [6]


async def test_inputs_that_are_refused_start_nothing() -> None:
    asked = await busy()
    with pytest.raises(InvalidTensor):
        await result(asked.ask(float("nan")))
    assert asked.engine.begun == ["run"]
    second = asked.ask(2)
    await asked.until(lambda: asked.engine.begun == ["run", "start"])
    asked.engine.go.set()
    assert await result(second) == [4]


async def test_a_request_that_is_cancelled_behind_another_gives_its_place_back() -> None:
    asked = await busy()
    gone = asked.ask(2)
    await asked.until(lambda: len(asked.engine.begun) == 2)
    gone.cancel()
    next_one = asked.ask(3)
    await asyncio.sleep(0)
    asked.engine.go.set()
    assert await result(next_one) == [6]
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_large_inputs_are_copied_beside_the_event_loop_in_time_that_is_not_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they wait behind another inference is none of it."""
    monkeypatch.setattr(queued_program, "FILLED_AT_ONCE", 0)
    asked = await busy()
    began = time.perf_counter()
    second = asked.ask(2)
    await asked.until(lambda: asked.engine.begun == ["run", "run_new"])
    await asked.until(lambda: time.perf_counter() - began > 0.1)
    asked.engine.go.set()
    assert await result(second) == [4]
    assert asked.ran[-1] < 0.05


async def test_the_wait_of_large_inputs_for_their_thread_counts_as_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queued_program, "FILLED_AT_ONCE", 0)
    with DaemonThreads(1) as threads:
        monkeypatch.setattr(program, "INFER_THREADS", threads)
        asked = await busy()  # it has the thread
        second = asked.ask(2)
        await asyncio.sleep(0.1)
        asked.engine.go.set()
        assert await result(second) == [4]
    assert asked.record.waits.sum > 0.05


@pytest.mark.parametrize(
    ("execution", "gathered", "seconds", "begun"),
    [
        pytest.param("auto", True, 0.0005, ["start"], id="gathered: the loop goes on gathering"),
        pytest.param("auto", True, 0.0001, ["run", "on the loop"], id="briefer than handing over"),
        pytest.param(
            "auto", False, 0.0005, ["run", "on the loop"], id="alone: nothing to wait for"
        ),
        pytest.param("inline", True, 0.0005, ["run", "on the loop"], id="as configured"),
    ],
)
async def test_an_inference_on_an_idle_engine_runs_where_its_duration_says(
    execution: str, gathered: bool, seconds: float, begun: list[str]
) -> None:
    asked = Asked(execution)
    asked.latency.learn_at_load(2, seconds)
    asked.engine.go.set()
    GATHERED.set(gathered)
    assert await result(asked.ask(1, 2)) == [2, 4]
    assert asked.engine.begun == begun


async def test_an_inference_handed_to_an_idle_engine_teaches_its_duration() -> None:
    asked = Asked("auto")
    asked.engine.go.set()
    GATHERED.set(True)
    assert await result(asked.ask(1, 2)) == [2, 4]
    assert asked.engine.begun == ["start"]  # how long it takes is not known yet
    (seconds,) = asked.latency.mean_s.values()
    assert 0 < seconds == min(asked.ran[-1], CEILING_S)


class Alone(Asked):
    """A program beside which another takes inputs of one element; both at work until `go`."""

    def __init__(self) -> None:
        self.lone_engine = Engine()
        self.lone_latency = LatencyModel("async")
        self.lone = Program(
            SIGNATURE,
            [Request(self.lone_engine)],
            self.lone_latency,
            failures=(EngineFailure,),
            blame=lambda error: ServingError(f"engine: {error}"),
        )
        super().__init__("async", LoneRowProgram(((1,),), self.lone))


async def test_the_lone_program_infers_a_request_that_finds_the_engine_idle() -> None:
    asked = Alone()
    task = asked.ask(1)
    await asked.until(lambda: asked.lone_engine.begun == ["run"])
    asked.lone_engine.go.set()
    assert await result(task) == [2]
    assert asked.engine.begun == []


async def test_a_request_that_finds_the_lone_program_at_work_goes_to_the_others() -> None:
    asked = Alone()
    first = asked.ask(1)
    await asked.until(lambda: asked.lone_engine.begun == ["run"])
    second = asked.ask(2)
    await asked.until(lambda: asked.engine.begun == ["start"])
    third = asked.ask(3)
    await asked.until(lambda: asked.engine.begun == ["start", "start"])
    for engine in (asked.engine, asked.lone_engine):
        engine.go.set()
    assert [await result(task) for task in (first, second, third)] == [[2], [4], [6]]
    assert asked.lone_engine.begun == ["run"]


@pytest.mark.parametrize(
    ("given", "gathered"),
    [
        pytest.param([1.0, 2.0], False, id="of other shapes"),
        pytest.param([1.0], True, id="gathered"),
    ],
)
async def test_a_request_of_another_shape_or_a_batch_is_not_the_lone_programs(
    given: list[float], gathered: bool
) -> None:
    asked = Alone()
    asked.engine.go.set()
    GATHERED.set(gathered)
    assert await result(asked.ask(*given)) == [2 * each for each in given]
    assert asked.lone_engine.begun == []


async def test_a_cancelled_request_leaves_the_lone_program_free_again() -> None:
    asked = Alone()
    gone = asked.ask(1)
    await asked.until(lambda: asked.lone_engine.begun == ["run"])
    gone.cancel()
    asked.lone_engine.go.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await asked.until(lambda: not asked.lone.busy)
    assert await result(asked.ask(2)) == [4]
    assert asked.lone_engine.begun == ["run", "run"]


async def test_durations_of_two_programs_beside_each_other_teach_neither() -> None:
    asked = Alone()
    first = asked.ask(1)
    await asked.until(lambda: asked.lone_engine.begun == ["run"])
    second = asked.ask(2)
    await asked.until(lambda: asked.engine.begun == ["start"])
    for engine in (asked.engine, asked.lone_engine):
        engine.go.set()
    for task in (first, second):
        await result(task)
    assert asked.lone_latency.mean_s == asked.latency.mean_s == {}
    assert await result(asked.ask(1)) == [2]
    assert len(asked.lone_latency.mean_s) == 1
