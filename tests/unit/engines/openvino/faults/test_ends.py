"""Ends of floats and of nothing: infinity as float64, the greatest and the mean of no numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import DataType
from tests.unit.engines.openvino.models import load, run, unary

WAYS = pytest.mark.parametrize("execution", ["inline", "async"])
OTHERWISE = (DataType.FP32, DataType.FP64, DataType.INT64, DataType.UINT32, DataType.INT16)


def first_axis() -> Any:
    return op.constant(np.array([0]))


@WAYS
@pytest.mark.parametrize("size", [-1, 3])
async def test_infinity_stays_infinity_as_double(tmp_path: Path, execution: str, size: int) -> None:
    """The plugin itself gives the largest float32 for it."""

    def quotient(x: Any) -> Any:
        real = op.convert(x, "f64")
        return op.divide(real, op.subtract(real, real))

    model = load(unary(tmp_path, [size], DataType.INT32, quotient), execution=execution)
    for _ in range(2):
        answer = (await run(model, {"x": np.array([1, -1, 0], np.int32)}))["y"]
        assert answer.dtype == np.float64
        assert np.array_equal(answer, [np.inf, -np.inf, np.nan], equal_nan=True)


@WAYS
@pytest.mark.parametrize("size", [-1, 3])
async def test_infinity_is_taken_as_double(tmp_path: Path, execution: str, size: int) -> None:
    """Given as a double the plugin makes the largest float32 of it."""
    path = unary(tmp_path, [size], DataType.FP64, lambda x: op.multiply(x, op.constant(2.0)))
    model = load(path, execution=execution)
    answer = (await run(model, {"x": np.array([np.inf, -np.inf, 0.5])}))["y"]
    assert answer.tolist() == [np.inf, -np.inf, 1]
    with pytest.raises(InvalidTensor, match="computes double in 32 bits"):
        await run(model, {"x": np.array([np.inf, 1e300, 0.5])})


async def test_a_double_that_is_passed_through_keeps_its_bits(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [2], DataType.FP64, lambda x: x))
    (answer,) = (await run(model, {"x": np.array([0.1, 1e300])})).values()
    assert answer.tolist() == [0.1, 1e300]


@pytest.mark.parametrize("dtype", OTHERWISE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("reduce", [op.reduce_max, op.reduce_min, op.reduce_mean])
async def test_of_nothing_no_end_is_made_up(
    tmp_path: Path, dtype: DataType, reduce: Callable[..., Any]
) -> None:
    """TensorFlow gives infinity, an end of 64 or 16 bits, or NaN; the plugin neither."""
    path = unary(tmp_path, [-1], dtype, lambda x: reduce(x, first_axis(), False))
    model = load(path, integers="exact")
    assert (await run(model, {"x": np.array([7], dtype.numpy)}))["y"] == 7
    with pytest.raises(InvalidTensor, match=r"nothing is left for|has no numbers"):
        await run(model, {"x": np.array([], dtype.numpy)})


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.INT8, DataType.UINT8])
async def test_ends_of_nothing_that_are_right_are_given(tmp_path: Path, dtype: DataType) -> None:
    path = unary(tmp_path, [-1], dtype, lambda x: op.reduce_max(x, first_axis(), False))
    model = load(path, integers="exact")
    answer = await run(model, {"x": np.array([], dtype.numpy)})
    assert answer["y"] == np.iinfo(dtype.numpy).min
