"""Sizes that the values of a request ask for; every operation is in `tests/functional`."""

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from ie_serving.core.errors import InvalidTensor
from ie_serving.core.tensors import DataType
from ie_serving.engines.openvino.guards import guard_values
from tests.unit.engines.openvino.models import load, parameter, result, run, save


@pytest.mark.parametrize("start", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("stop", [np.int32, np.int64, np.float32])
def test_the_ends_of_a_range_may_differ_in_dtype(start: type, stop: type) -> None:
    begin = op.parameter([], start, name="start")
    end = op.parameter([], stop, name="stop")
    numbers = op.range(begin, end, op.constant(np.int64(2)), "f32")
    model = ov.Model([op.result(numbers)], [begin, end], "counts")
    assert len(guard_values(model, from_end=True)) == 1
    compiled = ov.Core().compile_model(model, "CPU")
    assert compiled([start(3), stop(8)])[0].tolist() == [3, 5, 7]


@pytest.mark.parametrize("step", [0, -(2**31)])
async def test_a_step_that_cannot_be_divided_by_is_refused(tmp_path: Path, step: int) -> None:
    """The plugin turned the step around and divided by what 32 bits left of it: SIGFPE."""
    x, ends = parameter("x", [5]), parameter("ends", [3], DataType.INT32)
    zero = op.constant(np.array(0, np.int64))
    at = [op.gather(ends, op.constant(np.array([place], np.int64)), zero) for place in range(3)]
    model = load(save(tmp_path, [result("y", op.slice(x, *at))], [x, ends]))
    inputs = {"x": np.arange(5, dtype=np.float32), "ends": np.array([4, 0, -2], np.int32)}
    assert (await run(model, inputs))["y"].tolist() == [4, 2]
    with pytest.raises(InvalidTensor, match="steps of 0"):
        await run(model, {**inputs, "ends": np.array([2**31 - 1, 3, step], np.int32)})
