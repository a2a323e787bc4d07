"""A request's way through any engine: on the loop or in a lane, its own error or its own answer."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.run.infer_request import Shapes
from ie_serving.engines.run.latency_model import LatencyModel
from ie_serving.engines.run.program import (
    SHARED_THREADS,
    CompiledPrograms,
    Program,
    RunnableSignature,
)
from ie_serving.engines.run.queued_program import QueuedProgram
from ie_serving.engines.run.rank_programs import OpenRankProgram
from ie_serving.engines.savedmodel.host.host_program import THREADS, HostPlan, HostProgram
from ie_serving.engines.savedmodel.program import PartBeside, ProgramBeside

WAIT_S = 30.0
SPEC = TensorSpec("x", DataType.FP32, (-1,), "x")
SIGNATURE = Signature(SERVING_DEFAULT, {"x": SPEC}, {"y": SPEC})
BOTH_WAYS = pytest.mark.parametrize("execution", ["inline", "async"])


class EngineFailure(Exception):
    """What the engine of these tests fails with."""


class Doubling:
    """An infer request: y = 2 x; fails for negative values, and is not usable until renewed.

    Attributes:
        threads: names of the threads that inferred.
        ways: `run` or `run_new` for each inference.
        ran: set by the first inference.
        renewal: waited for by `renew`.
    """

    def __init__(self, renews: bool = False) -> None:
        self.renews = renews
        self.threads: list[str] = []
        self.ways: list[str] = []
        self.spoilt = False
        self.ran = threading.Event()
        self.renewal = threading.Event()
        self.renewal.set()
        self._x: Array = np.empty(0)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        if np.isnan(inputs["x"]).any():
            raise InvalidTensor("NaN")
        self._x = inputs["x"].copy()

    def run(self) -> Mapping[str, Array]:
        return self._infer("run")

    def run_new(self) -> Mapping[str, Array]:
        return self._infer("run_new")

    def cancel(self) -> None:
        """Nothing here takes long."""

    def renew(self) -> None:
        assert self.renewal.wait(WAIT_S)
        self.spoilt = False

    def _infer(self, way: str) -> Mapping[str, Array]:
        assert not self.spoilt
        self.ways.append(way)
        self.threads.append(threading.current_thread().name.partition("_")[0])
        self.ran.set()
        if (self._x < 0).any():
            self.spoilt = self.renews
            raise EngineFailure("negative")
        return {"y": self._x * 2}


class EvenOnly:
    """Admits inputs of an even number of elements; knows what it admitted."""

    names = ("x",)

    def __init__(self) -> None:
        self.known: set[Shapes] = set()

    async def check(self, shapes: Shapes) -> None:
        await asyncio.sleep(0)
        if shapes[0][0] % 2:
            raise InvalidTensor("odd")
        self.known.add(shapes)


def program(requests: Sequence[Doubling], execution: str, **options: Any) -> Program:
    return Program(
        SIGNATURE,
        requests,
        LatencyModel(execution),
        failures=(EngineFailure,),
        blame=lambda error: ServingError(f"engine: {error}"),
        **options,
    )


def values(outputs: Mapping[str, Array]) -> list[float]:
    return list(outputs["y"].tolist())


async def ask(
    asked: Program, *given: float, read: Callable[[Mapping[str, Array]], Any] = values
) -> Any:
    inputs = {"x": np.array(given, np.float32)}
    return await asyncio.wait_for(asked.infer(inputs, read), WAIT_S)


@pytest.mark.parametrize(("execution", "thread"), [("inline", "MainThread"), ("async", "infer")])
async def test_execution_decides_about_the_thread(execution: str, thread: str) -> None:
    request = Doubling()
    assert await ask(program([request], execution), 1, 2) == [2, 4]
    assert (request.threads, request.ways) == ([thread], ["run"])


async def test_the_duration_at_load_decides_by_size() -> None:
    request, latency = Doubling(), LatencyModel("auto")
    latency.learn_at_load(4, 0.0)
    measured = Program(
        SIGNATURE, [request], latency, failures=(EngineFailure,), blame=lambda error: ServingError()
    )
    await ask(measured, 1, 2)
    await ask(measured, *range(100))
    assert request.threads == ["MainThread", "infer"]


@BOTH_WAYS
async def test_a_failure_is_that_requests_error(execution: str) -> None:
    asked = program([Doubling()], execution)
    for _ in range(3):
        with pytest.raises(ServingError, match="engine: negative") as failure:
            await ask(asked, -1)
        assert isinstance(failure.value.__cause__, EngineFailure)
        assert await ask(asked, 1) == [2]


@BOTH_WAYS
async def test_a_request_that_must_be_renewed_is_lent_only_afterwards(execution: str) -> None:
    request = Doubling(renews=True)
    request.renewal.clear()
    asked = program([request], execution)
    failing = asyncio.ensure_future(ask(asked, -1))
    following = asyncio.ensure_future(ask(asked, 1))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not following.done()
    request.renewal.set()
    with pytest.raises(ServingError):
        await failing
    assert await following == [2]


async def test_a_renewal_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Doubling):
        def renew(self) -> None:
            raise EngineFailure("no memory")

    asked = program([request := Broken(renews=True)], "inline")
    with pytest.raises(ServingError):
        await ask(asked, -1)
    request.spoilt = False
    assert await ask(asked, 1) == [2]  # lent again, whatever it is worth
    name = SIGNATURE.name
    assert f'infer request not renewed signature={name} cause="no memory"' in caplog.text


async def test_a_program_apart_that_hangs_holds_up_no_other_program() -> None:
    hanging = [Doubling(renews=True) for _ in range(SHARED_THREADS)]
    for request in hanging:
        request.renewal.clear()
    apart = program(hanging, "async", apart=True)
    stuck = [asyncio.ensure_future(ask(apart, -1)) for _ in hanging]
    assert await ask(program([Doubling()], "async"), 1) == [2]
    for request in hanging:
        request.renewal.set()
    for error in await asyncio.gather(*stuck, return_exceptions=True):
        assert isinstance(error, ServingError)
    apart.close()


@BOTH_WAYS
async def test_an_exception_of_filling_or_reading_is_passed_on_and_loses_no_request(
    execution: str,
) -> None:
    asked = program([Doubling()], execution)

    def refuse(outputs: Mapping[str, Array]) -> None:
        raise EngineFailure("of read")

    with pytest.raises(InvalidTensor, match="NaN"):
        await ask(asked, float("nan"))
    with pytest.raises(EngineFailure, match="of read"):
        await ask(asked, 1, read=refuse)
    assert await ask(asked, 1) == [2]


async def test_checks_come_first_and_name_their_input() -> None:
    request = Doubling()

    def refuse(array: Array) -> None:
        raise InvalidTensor("checked")

    with pytest.raises(InvalidTensor, match="checked"):
        await ask(program([request], "inline", checks=[("x", refuse)]), 1)
    assert request.ways == []


async def test_new_shapes_are_admitted_once_and_run_in_a_lane() -> None:
    request, admission = Doubling(), EvenOnly()
    asked = program([request], "inline", admission=admission)
    with pytest.raises(InvalidTensor, match="odd"):
        await ask(asked, 1)
    assert await ask(asked, 1, 2) == [2, 4]
    assert await ask(asked, 3, 4) == [6, 8]
    assert request.ways == ["run_new", "run"]
    assert request.threads == ["infer", "MainThread"]


async def test_the_duration_of_a_new_shape_does_not_teach_that_of_known_ones() -> None:
    """Else a few new shapes would send every request of their size to the lanes for a while."""
    latency = LatencyModel("auto")
    asked = Program(
        SIGNATURE,
        [Doubling()],
        latency,
        failures=(EngineFailure,),
        blame=lambda error: ServingError(),
        admission=EvenOnly(),
    )
    await ask(asked, 1, 2)
    assert latency.mean_s == {}
    await ask(asked, 3, 4)
    assert latency.mean_s.keys() == {2}


async def test_a_model_closes_each_program_and_then_tells() -> None:
    order: list[str] = []
    model = CompiledPrograms([program([Doubling()], "async")], lambda: order.append("freed"))
    assert model.signatures == {SERVING_DEFAULT: SIGNATURE}
    assert await model.infer(SIGNATURE, {"x": np.ones(1, np.float32)}, values) == [2]
    model.close()
    assert order == ["freed"]


@pytest.mark.parametrize("inner", ["plain", "queued"])
@pytest.mark.parametrize("wrapper", ["itself", "host", "beside", "rank"])
async def test_a_wrapper_runs_as_many_at_once_as_its_program(wrapper: str, inner: str) -> None:
    """Batching, graphs and shadows use as many lanes: with a 1 they would be served serially."""
    requests: list[Any] = [Doubling() for _ in range(3)]
    options: Any = {"failures": (EngineFailure,), "blame": lambda error: ServingError()}
    kind = QueuedProgram if inner == "queued" else Program
    own = kind(SIGNATURE, requests, LatencyModel("async"), **options)
    runs: RunnableSignature = own
    if wrapper == "host":
        runs = HostProgram(HostPlan(), SIGNATURE, own)
    if wrapper == "beside":
        runs = ProgramBeside(PartBeside(SIGNATURE), own)
    if wrapper == "rank":
        runs = OpenRankProgram(SIGNATURE, ["x"], lambda ranks: own)
        assert await runs.infer({"x": np.ones(1, np.float32)}, values) == [2]
    model = CompiledPrograms([runs])
    expected = (2, True) if inner == "queued" else (3, False)
    assert (model.at_once(SIGNATURE), model.ahead(SIGNATURE)) == expected
    model.close()


@pytest.mark.parametrize(
    ("runs", "at_once"),
    [
        (HostProgram(HostPlan(), SIGNATURE, None), THREADS),
        (ProgramBeside(PartBeside(SIGNATURE), None), 1),
        (OpenRankProgram(SIGNATURE, ["x"], lambda ranks: pytest.fail("nothing asked")), 1),
    ],
    ids=["host", "beside", "rank"],
)
def test_a_program_without_another_tells_its_own_number(
    runs: RunnableSignature, at_once: int
) -> None:
    model = CompiledPrograms([runs])
    assert (model.at_once(SIGNATURE), model.ahead(SIGNATURE)) == (at_once, False)


async def test_models_share_their_lanes_threads() -> None:
    """A thousand models that were asked once must not leave a thousand threads."""
    models = [program([Doubling()], "async") for _ in range(2 * SHARED_THREADS)]
    for number, model in enumerate(models):
        assert await ask(model, number) == [2 * number]
        model.close()
    lanes = [each for each in threading.enumerate() if each.name.startswith("infer")]
    assert len(lanes) <= SHARED_THREADS
    assert await ask(program([Doubling()], "async"), 1) == [2]


async def test_a_model_of_many_requests_runs_as_many_at_a_time_as_it_asks_for() -> None:
    requests = [Doubling(renews=True) for _ in range(SHARED_THREADS + 1)]
    model = program(requests, "async")
    for request in requests:
        request.renewal.clear()
    failing = [asyncio.ensure_future(ask(model, -1)) for _ in requests]
    for request in requests:
        assert await asyncio.to_thread(request.ran.wait, WAIT_S)
    for request in requests:
        request.renewal.set()
    assert all(
        isinstance(e, ServingError) for e in await asyncio.gather(*failing, return_exceptions=True)
    )
    model.close()
