"""Strings come out of each operation as they went in, or the model is refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset16 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.faults.element_types import RIGHT
from tests.unit.engines.openvino.models import DataType, load, parameter, result, run, save

TIMES = 200
"""Inferences; what is freed twice ended the process in one of the first three."""
ONE, TWO = b"one text that has memory of its own", b"and another one that has, too"
Make = Callable[[Any], Any]


def whole(*numbers: int) -> Any:
    return op.constant(np.array(numbers, np.int64))


def at(number: int) -> Any:
    return op.constant(np.int64(number))


def column(x: Any) -> Any:
    return op.reshape(x, whole(-1, 1), special_zero=False)


RIGHT_ONES: Mapping[str, tuple[Make, Any]] = {
    "Identity": (op.identity, [ONE, TWO]),
    "Reshape": (column, [[ONE], [TWO]]),
    "Squeeze": (lambda x: op.squeeze(column(x), whole(1)), [ONE, TWO]),
    "Unsqueeze": (lambda x: op.unsqueeze(x, whole(0)), [[ONE, TWO]]),
    "Transpose": (
        lambda x: op.transpose(op.concat([column(x), column(x)], 1), whole(1, 0)),
        [[ONE, TWO], [ONE, TWO]],
    ),
    "Concat": (lambda x: op.concat([x, x], 0), [ONE, TWO, ONE, TWO]),
    "Gather": (lambda x: op.gather(x, whole(1, 0), at(0)), [TWO, ONE]),
}


@pytest.mark.parametrize("kind", RIGHT_ONES)
async def test_what_is_right_is_served(tmp_path: Path, kind: str) -> None:
    make, expected = RIGHT_ONES[kind]
    x = parameter("x", (-1,), DataType.STRING)
    model = load(save(tmp_path, [result("y", make(x))], [x]))
    for _ in range(TIMES):
        answer = await run(model, {"x": np.array([ONE, TWO], object)})
        assert answer["y"].tolist() == expected


def test_what_is_right_is_tried() -> None:
    asked_otherwise = {"Parameter", "Constant", "Result", "If", "ShapeOf"}
    packed = {"StringTensorPack", "StringTensorUnpack"}
    assert {*RIGHT_ONES, *asked_otherwise, *packed} - {"Identity"} == RIGHT


WRONG: Mapping[str, Make] = {
    "Slice": lambda x: op.slice(x, whole(0), whole(1), whole(1)),
    "StridedSlice": lambda x: op.strided_slice(x, whole(0), whole(1), whole(1), [0], [0]),
    "Split": lambda x: op.split(x, at(0), 1).output(0),
    "VariadicSplit": lambda x: op.variadic_split(x, at(0), whole(1, -1)).output(0),
    "ScatterUpdate": lambda x: op.scatter_update(x, whole(0), op.gather(x, whole(1), at(0)), at(0)),
    "DepthToSpace": lambda x: op.depth_to_space(
        op.reshape(x, whole(-1, 4, 1, 1), special_zero=False), "blocks_first", 2
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_would_end_the_process_is_refused(tmp_path: Path, kind: str) -> None:
    x = parameter("x", (-1,), DataType.STRING)
    path = save(tmp_path, [result("y", WRONG[kind](x))], [x])
    with pytest.raises(LoadFailed, match=f"is a {kind} of strings"):
        load(path)
