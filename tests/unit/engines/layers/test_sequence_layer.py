"""Each sequence has its own state, its requests come in order, and one that fails moves nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from ie_serving.core.runtime.budget import Budget
from ie_serving.core.values.errors import (
    InvalidRequest,
    LoadFailed,
    NotFound,
    QueueFull,
    ServingError,
)
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.layers import sequence_layer as sequences
from ie_serving.engines.layers.layer import Layer, LayeredEngine
from ie_serving.engines.layers.sequence import Control
from ie_serving.engines.layers.sequence_family import Family
from ie_serving.engines.layers.sequence_layer import CONTROL, ID, SequenceLayer, keeping_sequences
from ie_serving.engines.layers.sequence_table import SequenceTable
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.telemetry.metrics.layers import SequenceMetrics
from tests.stand_in_engine import FILE, StandInEngine
from tests.unit.engines.contract import copied
from tests.unit.engines.openvino.stateful_models import accumulator

T = TypeVar("T")
NONE, START, END = Control.NONE, Control.START, Control.END
ON = EngineOptions().having(Sequences(stateful=True))
X = TensorSpec("x", DataType.FP32, (1,), "x")


async def at_once() -> None:
    """Hold nothing."""


class Adder(CompiledModel):
    """Gives the sum of all `x` of a sequence; a test may hold or fail an inference.

    Attributes:
        before: awaited by each inference, once its inputs are taken.
        inferred: the sums, in the order in which they were computed.
    """

    def __init__(self) -> None:
        self.before: Callable[[], Awaitable[None]] = at_once
        self.inferred: list[float] = []
        self.closed = False

    @property
    def signatures(self) -> Mapping[str, Signature]:
        y = TensorSpec("y", DataType.FP32, (1,), "y")
        return {"s": Signature("s", {"x": X}, {"y": y}, states=("state:total",))}

    async def infer(
        self,
        signature: Signature,
        inputs: Mapping[str, Array],
        read: Callable[[Mapping[str, Array]], T],
    ) -> T:
        assert inputs.keys() <= {"x", "state:total"}
        total = inputs["x"] + inputs.get("state:total", 0)
        await self.before()
        self.inferred.append(float(total[0]))
        # The same memory for both, used again at once: a layer that keeps it has to copy.
        outputs = {"y": total, "state:total": total}
        answer = read(outputs)
        total[...] = -1
        return answer

    def at_once(self, signature: Signature) -> int:
        return 1

    def close(self) -> None:
        self.closed = True


class Client:
    """Asks a layer over an `Adder`."""

    def __init__(self, most: int = 500) -> None:
        self.adder = Adder()
        self.table = SequenceTable(most, Family("m", SequenceMetrics()))
        self.layer = SequenceLayer(self.adder, self.table)
        self.layer.serve(1)

    async def ask(self, number: int, control: int, x: float = 1) -> dict[str, list[float]]:
        inputs = {
            "x": np.array([x], np.float32),
            ID: np.array([number], np.uint64),
            CONTROL: np.array([control], np.uint32),
        }
        return await self.layer.infer(self.layer.signatures["s"], inputs, copied)

    def send(self, number: int, control: int, x: float = 1) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.ask(number, control, x))


class Held:
    """Holds inferences until the test lets one of them go on."""

    def __init__(self, client: Client) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        client.adder.before = self

    async def __call__(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future

    async def one(self) -> "asyncio.Future[None]":
        """Give the next that is held."""
        for _ in range(20):
            if self.waiting:
                return self.waiting.pop(0)
            await asyncio.sleep(0)
        raise AssertionError("nothing is inferred")


async def test_sequences_that_are_interleaved_never_mix() -> None:
    client = Client()
    for number in range(1, 301):
        answer = await client.ask(number, START, number)
        assert answer == {"y": [number], ID: [number]}
    for step in range(2, 5):
        for number in range(1, 301):
            answer = await client.ask(number, END if step == 4 else NONE, number)
            assert answer["y"] == [number * step]
    assert len(client.table) == 0


async def test_requests_of_one_sequence_are_answered_in_their_order() -> None:
    client = Client()
    held = Held(client)
    sent = [client.send(5, START), *(client.send(5, NONE) for _ in range(5)), client.send(5, END)]
    for _ in sent:
        (await held.one()).set_result(None)
    answers = await asyncio.wait_for(asyncio.gather(*sent), 10)
    assert [answer["y"] for answer in answers] == [[float(i)] for i in range(1, 8)]
    assert 5 not in client.table


async def test_other_sequences_do_not_wait() -> None:
    client = Client()
    await client.ask(1, START)
    held = Held(client)
    slow = client.send(1, NONE)
    let_go = await held.one()
    client.adder.before = at_once
    assert (await client.ask(2, START))["y"] == [1.0]
    let_go.set_result(None)
    assert (await slow)["y"] == [2.0]


@pytest.mark.parametrize("cause", ["fails", "is cancelled", "is cancelled in its turn"])
async def test_a_request_that_is_not_answered_has_moved_nothing(cause: str) -> None:
    client = Client()
    await client.ask(5, START)
    held = Held(client)
    first, second, third = client.send(5, NONE), client.send(5, NONE, 10), client.send(5, NONE, 100)
    one = await held.one()
    if cause == "fails":
        one.set_exception(InvalidRequest("a bad value"))
    elif cause == "is cancelled in its turn":
        first.cancel()
    else:
        second.cancel()
        one.set_result(None)
    lost = second if cause == "is cancelled" else first
    (await held.one()).set_result(None)
    if lost is first:
        (await held.one()).set_result(None)
    with pytest.raises((InvalidRequest, asyncio.CancelledError)):
        await lost
    assert (await third)["y"] == [102.0 if cause == "is cancelled" else 111.0]
    client.adder.before = at_once
    assert (await client.ask(5, END))["y"] == [103.0 if cause == "is cancelled" else 112.0]


async def test_requests_behind_a_start_that_fails_are_refused() -> None:
    client = Client()
    held = Held(client)
    start, behind, end = client.send(5, START), client.send(5, NONE), client.send(5, END)
    (await held.one()).set_exception(InvalidRequest("a bad value"))
    with pytest.raises(InvalidRequest, match="a bad value"):
        await start
    for late in (behind, end):
        with pytest.raises(NotFound, match="Sequence with provided ID does not exist: 5"):
            await late
    client.adder.before = at_once
    assert (await client.ask(5, START))["y"] == [1.0]


async def test_an_end_that_fails_can_be_sent_again() -> None:
    client = Client()
    await client.ask(5, START)
    held = Held(client)
    end = client.send(5, END)
    (await held.one()).set_exception(InvalidRequest("a bad value"))
    with pytest.raises(InvalidRequest):
        await end
    client.adder.before = at_once
    assert (await client.ask(5, END))["y"] == [2.0]


async def test_a_reply_that_cannot_be_written_has_moved_nothing() -> None:
    client = Client()
    await client.ask(5, START)

    def fail(outputs: Mapping[str, Array]) -> None:
        raise ServingError("cannot be written")

    inputs = {"x": np.ones(1, np.float32), ID: np.array([5], np.uint64)}
    with pytest.raises(ServingError):
        await client.layer.infer(client.layer.signatures["s"], inputs, fail)
    assert (await client.ask(5, NONE))["y"] == [2.0]


@pytest.mark.parametrize("control", [4, 7, 2**32 - 1])
async def test_an_unknown_control_is_refused(control: int) -> None:
    client = Client()
    with pytest.raises(InvalidRequest, match="Unexpected value of sequence control input: "):
        await client.ask(5, control)
    assert len(client.table) == 0


def test_clients_see_the_controls_and_may_leave_them_out() -> None:
    signature = Client().layer.signatures["s"]
    assert list(signature.inputs) == ["x", ID, CONTROL]
    assert list(signature.outputs) == ["y", ID]
    assert (signature.inputs[ID].dtype, signature.inputs[ID].shape) == (DataType.UINT64, (1,))
    assert signature.inputs[CONTROL].dtype is DataType.UINT32
    assert {name: each.tolist() for name, each in signature.defaults.items()} == {
        ID: [0],
        CONTROL: [0],
    }
    assert signature.states == ()
    assert signature.runs_on.endswith("in sequences that keep its variable")


def test_state_is_counted_and_given_back() -> None:
    client = Client()
    asyncio.run(client.ask(5, START))
    assert client.table.state_bytes == 4
    client.layer.close()
    assert client.adder.closed
    assert (len(client.table), client.table.state_bytes) == (0, 0)


# -- as a layer ----------------------------------------------------------------------------------


def wrapped(engine: Any) -> LayeredEngine:
    return LayeredEngine(engine, partial(keeping_sequences, family=Family("m", SequenceMetrics())))


def test_without_stateful_there_is_no_layer(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{}")
    engine = StandInEngine()
    assert wrapped(engine).compile(tmp_path, EngineOptions()) is engine.models[0]


def test_a_model_without_state_fails_to_load_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{}")
    engine = StandInEngine()
    with pytest.raises(LoadFailed, match=r"stateful is set, and the model has no state"):
        wrapped(engine).compile(tmp_path, ON)
    assert engine.models[0].closed


def test_a_model_with_tensors_of_these_names_fails_to_load() -> None:
    class Odd(Adder):
        @property
        def signatures(self) -> Mapping[str, Signature]:
            made = Signature("s", {ID: X}, {"y": X}, states=("state:total",))
            return {"s": made}

    with pytest.raises(LoadFailed, match="tensors of its own called sequence_id"):
        SequenceLayer(Odd(), SequenceTable(1, Family("m", SequenceMetrics())))


async def test_signatures_without_state_pass_through() -> None:
    class Both(Adder):
        @property
        def signatures(self) -> Mapping[str, Signature]:
            return {**super().signatures, "plain": Signature("plain", {"x": X}, {"y": X})}

    layer = SequenceLayer(Both(), SequenceTable(1, Family("m", SequenceMetrics())))
    plain = layer.signatures["plain"]
    assert list(plain.inputs) == ["x"]
    inputs = {"x": np.ones(1, np.float32)}
    assert (await layer.infer(plain, inputs, copied))["y"] == [1.0]


@pytest.mark.parametrize("execution", ["inline", "async"])
async def test_hundreds_of_sequences_keep_their_states_over_openvino(
    tmp_path: Path, execution: str
) -> None:
    own = EngineOptions(nireq=2, execution=execution).having(Sequences(stateful=True))
    model: CompiledModel = wrapped(OpenVinoEngine()).compile(accumulator(tmp_path), own)
    assert isinstance(model, Layer)
    signature = model.signatures[SERVING_DEFAULT]

    async def one(number: int) -> list[list[float]]:
        answers = []
        for control in (START, NONE, NONE, END):
            inputs = {
                "x": np.full((1, 2), number, np.float32),
                ID: np.array([number], np.uint64),
                CONTROL: np.array([control], np.uint32),
            }
            answers.append((await model.infer(signature, inputs, copied))["y"][0])
        return answers  # type: ignore[return-value]

    found = await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(1, 201))), 60)
    assert found == [[[n * step] * 2 for step in (1, 2, 3, 4)] for n in range(1, 201)]
    model.close()


async def test_a_state_for_which_there_is_no_memory_refuses_the_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    await client.ask(5, START)
    monkeypatch.setattr(sequences, "BUDGET", Full())
    for control in (NONE, START):
        with pytest.raises(QueueFull, match="no room"):
            await client.ask(5 if control is NONE else 6, control)
    assert (await client.ask(5, END))["y"] == [2.0]  # which keeps no state
    assert len(client.table) == 0


class Full(Budget):
    """A budget of which nothing is left."""

    def empty(self, *_: object, **__: object) -> Array:
        raise QueueFull("no room")
