"""Sizes that the values of a request ask for; every operation is in `tests/functional`."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from ie_serving.engines.openvino.guards import guard_values


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
