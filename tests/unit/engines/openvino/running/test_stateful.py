"""States are put in before an inference and taken out behind it: what OpenVINO itself computes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset6 as op6
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.layer_options import Sequences
from ie_serving.engines.openvino.compiling import properties
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import copies, load, parameter, result, run
from tests.unit.engines.openvino.stateful_models import (
    INPUTS,
    Direct,
    accumulator,
    lstm,
    recurrent,
    rows,
    write,
)

EXACT = OpenVinoOptions(inference_precision="f32")
PRECISIONS = ["f32", *properties.lower_precisions(OpenVinoOptions())]
"""Those of this machine: most processors compute in bf16 or in f16, few in both."""


def load_stateful(directory: Path, own: OpenVinoOptions = EXACT, **given: Any) -> CompiledPrograms:
    low_latency = given.pop("low_latency_transformation", False)
    chosen = Sequences(stateful=True, low_latency_transformation=low_latency)
    options = EngineOptions(nireq=2, **given).having(own).having(chosen)
    return OpenVinoEngine().compile(directory, options)


class Chain:
    """A sequence of inferences, the state of each being that of the one before."""

    def __init__(self, model: CompiledPrograms) -> None:
        self._model = model
        self._signature = model.signatures[SERVING_DEFAULT]
        self.state: dict[str, Array] = {}

    async def __call__(self, inputs: Mapping[str, Array]) -> Array:
        found = await self._model.infer(self._signature, {**inputs, **self.state}, copies)
        self.state = {name: found[name] for name in self._signature.states}
        return found["y"]


def numbers(*shape: int) -> Mapping[str, Array]:
    return {"x": np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize(
    ("write", "shape"), [(accumulator, (1, 2)), (lstm, (1, INPUTS)), (rows, (2, 2))]
)
async def test_interleaved_chains_give_what_openvino_gives(
    tmp_path: Path, write: Any, shape: tuple[int, ...], execution: str
) -> None:
    model = load_stateful(write(tmp_path), execution=execution)
    direct = Direct(tmp_path)
    pairs = [(Chain(model), direct.sequence()) for _ in range(5)]
    random = np.random.default_rng(1)
    for _ in range(6):
        for chain, sequence in pairs:
            inputs = {"x": random.standard_normal(shape).astype(np.float32)}
            np.testing.assert_allclose(await chain(inputs), sequence(inputs), rtol=1e-5, atol=1e-6)
    model.close()


async def test_without_states_an_inference_begins_with_the_initial_ones(tmp_path: Path) -> None:
    model = load_stateful(accumulator(tmp_path, start=7))
    ones = {"x": np.ones((1, 2), np.float32)}
    for _ in range(4):
        assert (await Chain(model)(ones)).tolist() == [[8.0, 8.0]]


async def test_a_state_is_not_changed_by_what_follows_it(tmp_path: Path) -> None:
    """It can be gone on from twice: a request that fails may be sent again."""
    model = load_stateful(accumulator(tmp_path))
    ones = {"x": np.ones((1, 2), np.float32)}
    chain = Chain(model)
    await chain(ones)
    kept = dict(chain.state)
    for _ in range(3):
        chain.state = dict(kept)
        assert (await chain(ones)).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("precision", PRECISIONS)
async def test_the_state_keeps_every_bit_in_any_precision(tmp_path: Path, precision: str) -> None:
    own = OpenVinoOptions(inference_precision=precision)
    model = load_stateful(lstm(tmp_path), own)
    first, second = Chain(model), Chain(model)
    for _ in range(3):
        inputs = numbers(1, INPUTS)
        assert (await first(inputs)).tobytes() == (await second(inputs)).tobytes()
        for name in first.state:
            assert first.state[name].tobytes() == second.state[name].tobytes()
            assert first.state[name].any()


async def test_loops_become_states_by_the_low_latency_transformation(tmp_path: Path) -> None:
    plain = load(recurrent(tmp_path), inference_precision="f32")
    model = load_stateful(tmp_path, low_latency_transformation=True)
    assert plain.signatures[SERVING_DEFAULT].states == ()
    assert len(model.signatures[SERVING_DEFAULT].states) == 2
    chain = Chain(model)
    inputs = numbers(1, 1, INPUTS)
    first, second = await chain(inputs), await chain(inputs)
    np.testing.assert_allclose(first, (await run(plain, inputs))["y"], rtol=1e-5, atol=1e-6)
    assert not np.allclose(first, second)


async def test_a_refused_request_leaves_the_next_one_right(tmp_path: Path) -> None:
    model = load_stateful(rows(tmp_path))
    chain = Chain(model)
    ones = {"x": np.ones((1, 2), np.float32)}
    await chain(ones)
    with pytest.raises(InvalidRequest):
        await replace_state(chain, ones)
    assert (await chain(ones)).tolist() == [[1.0, 1.0]] * 2


async def replace_state(chain: Chain, inputs: Mapping[str, Array]) -> None:
    kept = chain.state
    chain.state = {name: np.zeros((1, 3), np.float32) for name in kept}
    try:
        await chain(inputs)
    finally:
        chain.state = kept


async def test_without_stateful_there_are_no_states(tmp_path: Path) -> None:
    model = load(accumulator(tmp_path))
    ones = {"x": np.ones((1, 2), np.float32)}
    assert model.signatures[SERVING_DEFAULT].states == ()
    for _ in range(3):
        assert (await run(model, ones))["y"].tolist() == [[1.0, 1.0]]


async def test_nan_stays_in_the_state_of_its_sequence(tmp_path: Path) -> None:
    """The sum so far is NaN from then on, also where the next requests are finite."""
    x = parameter("x", [1])
    total = op.add(op6.read_value(op.constant(np.float32([0])), "total"), x)
    write(tmp_path, [result("y", op.relu(total))], [op6.assign(total, "total")], [x])
    ask = Chain(load_stateful(tmp_path))
    assert (await ask({"x": np.float32([2])})).tolist() == [2]
    for value in (np.nan, 3, 4):
        assert np.isnan(await ask({"x": np.float32([value])})).all()
