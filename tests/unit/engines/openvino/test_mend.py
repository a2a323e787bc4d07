"""What the CPU plugin would run wrongly is changed, so that it answers as the operation means."""

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest

from tests.unit.engines.openvino.models import DataType, load, parameter, result, run, save


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.FP32])
async def test_unique_values_are_given_without_their_places(
    tmp_path: Path, dtype: DataType
) -> None:
    x = parameter("x", (-1,), dtype)
    unique = op.unique(x, sorted=False, index_element_type="i32")
    model = load(save(tmp_path, [result("y", unique.output(0))], [x]))
    answer = await run(model, {"x": np.array([4, 4, 1, 3], dtype.numpy)})
    assert answer["y"].tolist() == [4, 1, 3]
    assert answer.keys() == {"y"}


async def test_flags_of_empty_rows_can_be_selected_by(tmp_path: Path) -> None:
    values, places = parameter("v", (-1,)), parameter("i", (-1, 2), DataType.INT64)
    size = parameter("s", (2,), DataType.INT64)
    filled = op.sparse_fill_empty_rows(values, size, places, op.constant(np.float32(0)))
    flags = op.reshape(filled.output(2), op.constant(np.array([-1, 1])), special_zero=False)
    chosen = op.select(flags, op.constant(np.float32(7)), op.unsqueeze(filled.output(1), _axis(1)))
    model = load(save(tmp_path, [result("y", chosen)], [values, places, size]))
    answer = await run(
        model,
        {
            "v": np.array([5, 6], np.float32),
            "i": np.array([[0, 0], [2, 0]], np.int64),
            "s": np.array([3, 1], np.int64),
        },
    )
    assert answer["y"].ravel().tolist() == [5, 7, 6]


def _axis(number: int) -> ov.Node:
    return op.constant(np.array([number], np.int64))
