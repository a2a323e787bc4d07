"""What the CPU plugin would run wrongly is changed, so that it answers as the operation means."""

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest

from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.mend import mend
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


def _sliced(x: ov.Node) -> ov.Node:
    """Compute x[0, ..., 1:3], with masks as the front end for TensorFlow writes them."""
    begin, end, step = (op.constant(np.array(row)) for row in ([0, 0, 1], [1, 0, 3], [1, 1, 1]))
    return op.strided_slice(x, begin, end, step, [0, 0], [0, 0], [0, 0], [1, 0], [0, 1])


async def test_an_ellipsis_with_short_masks_writes_nowhere_else(tmp_path: Path) -> None:
    """Glibc ended the process in one of some twenty requests."""
    x = parameter("x", (-1, 4))
    model = load(save(tmp_path, [result("y", _sliced(x))], [x]))
    for rows in [1, 2, 3, 5, 4] * 20:
        answer = await run(model, {"x": np.arange(rows * 4, dtype=np.float32).reshape(-1, 4)})
        assert answer["y"].tolist() == [1, 2]


def test_masks_are_filled_up_in_branches_too() -> None:
    x, flag = parameter("x", (-1, 4)), parameter("f", (), DataType.BOOL)
    branches = []
    for inner in (parameter("a", (-1, 4)), parameter("b", (-1, 4))):
        branches.append((ov.Model([op.result(_sliced(inner))], [inner]), inner))
    chosen = op.if_op(flag)
    chosen.set_then_body(branches[0][0])
    chosen.set_else_body(branches[1][0])
    chosen.set_input(x.output(0), branches[0][1], branches[1][1])
    chosen.set_output(branches[0][0].results[0], branches[1][0].results[0])
    mend(ov.Model([op.result(chosen.output(0))], [x, flag]))
    for body in bodies(chosen):
        (found,) = [each for each in body.get_ops() if each.get_type_name() == "StridedSlice"]
        assert {len(mask) for mask in found.get_attributes().values()} == {3}


def _axis(number: int) -> ov.Node:
    return op.constant(np.array([number], np.int64))
