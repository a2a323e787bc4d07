"""Short requests run on the event loop, long ones beside it, by what was measured."""

import asyncio
import threading
from collections.abc import Mapping

import numpy as np
import pytest

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType, Signature, TensorSpec
from ie_serving.engines.run.latency_model import INLINE_MAX_S, LatencyModel
from ie_serving.engines.run.program import Program

SMALL, BIG = 10, 10_000
"""Elements of a request."""
SHORT, LONG = INLINE_MAX_S / 10, INLINE_MAX_S * 10
PATIENCE_S = 30.0
X = TensorSpec("x", DataType.FP32, (-1,), "x")


class Noting:
    """An infer request that computes nothing and notes the thread it is run in."""

    renews = False

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Nothing is computed."""

    def run(self) -> Mapping[str, Array]:
        self.thread = threading.current_thread()
        return {}

    def run_new(self) -> Mapping[str, Array]:
        return self.run()

    def cancel(self) -> None:
        """Nothing here takes long."""

    def renew(self) -> None:
        """It never fails."""


async def inline(model: LatencyModel, size: int) -> bool:
    """Tell whether a request of `size` elements runs on the loop, by running one."""
    request = Noting()
    signature = Signature(SERVING_DEFAULT, {"x": X}, {})
    program = Program(signature, [request], model, failures=(), blame=lambda _: ServingError(""))
    work = program.infer({"x": np.zeros(size, np.float32)}, lambda _: None)
    await asyncio.wait_for(work, PATIENCE_S)
    program.close()
    return request.thread is threading.main_thread()


@pytest.mark.parametrize(("execution", "expected"), [("inline", True), ("async", False)])
@pytest.mark.parametrize("seconds", [SHORT, LONG])
async def test_a_set_execution_is_kept(execution: str, expected: bool, seconds: float) -> None:
    model = LatencyModel(execution)
    model.learn_at_load(SMALL, seconds)
    assert await inline(model, SMALL) is expected


async def test_a_request_that_was_never_measured_runs_in_a_lane() -> None:
    assert not await inline(LatencyModel("auto"), SMALL)


@pytest.mark.parametrize(("size", "expected"), [(SMALL, True), (1, True), (BIG, False)])
async def test_a_size_that_is_short_at_load_is_short_for_smaller_requests_only(
    size: int, expected: bool
) -> None:
    model = LatencyModel("auto")
    model.learn_at_load(SMALL, SHORT)
    assert await inline(model, size) is expected


async def test_a_size_that_proves_short_runs_inline() -> None:
    model = LatencyModel("auto")
    model.learn(BIG.bit_length(), SHORT)
    assert await inline(model, BIG)


async def test_one_disturbed_measurement_decides_nothing() -> None:
    model = LatencyModel("auto")
    model.learn_at_load(SMALL, SHORT)
    model.learn(SMALL.bit_length(), 100 * LONG)
    assert await inline(model, SMALL)


async def test_a_model_that_turns_slow_leaves_the_loop() -> None:
    model = LatencyModel("auto")
    model.learn_at_load(SMALL, SHORT)
    for _ in range(30):
        model.learn(SMALL.bit_length(), LONG)
    assert not await inline(model, SMALL)
