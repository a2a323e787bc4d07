"""Operations give the same with known sizes as with open ones, for values of all kinds."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
from openvino import opset16

from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.openvino.compiling.lone_row import COMPUTES, COUNTS, MOVES, unlike
from ie_serving.engines.openvino.faults.hazards import READ
from ie_serving.engines.openvino.graphs.rules import visit
from tests.unit.engines.openvino.models import load, parameter, result, run, save

RANDOM = np.random.default_rng(11)
TAIL = (3, 6, 6)
"""Of each input: three channels of 6 by 6."""
ROW = int(np.prod(TAIL))


def const(*values: int, dtype: Any = np.int64) -> Any:
    return op.constant(np.array(values, dtype))


def number(value: int) -> Any:
    return op.constant(np.int64(value))


def weights(*shape: int) -> Any:
    return op.constant(RANDOM.standard_normal(shape).astype(np.float32))


def size(x: Any, axis: int) -> Any:
    return op.gather(op.shape_of(x), number(axis), number(0))


def chosen(condition: Any) -> Any:
    return op.select(condition, weights(), weights())


def places(x: Any) -> Any:
    """Give zeros, one for each row of x."""
    rows = op.gather(op.shape_of(x), const(0), number(0))
    return op.broadcast(number(0), op.concat([rows, const(1)], 0))


PADS = ([1, 1], [0, 0], [0, 0])
CASES: dict[str, Callable[[Any], Any]] = {
    "Add": lambda x: op.add(x, weights(3, 1, 1)),
    "AvgPool": lambda x: op.avg_pool(x, *PADS, [2, 2], True),
    "BatchNormInference": lambda x: op.batch_norm_inference(
        x, weights(3), weights(3), weights(3), op.constant(np.ones(3, np.float32)), 1e-3
    ),
    "Broadcast": lambda x: op.broadcast(op.reduce_mean(x, const(1), True), op.shape_of(x)),
    "Clamp": lambda x: op.clamp(x, -1.5, 1.5),
    "Concat": lambda x: op.concat([x, op.negative(x)], 1),
    "Convert": lambda x: op.convert(op.convert(x, "f32"), "f32"),
    "Convolution": lambda x: op.convolution(x, weights(4, 3, 3, 3), *PADS, [1, 1]),
    "ConvolutionBackpropData": lambda x: op.convolution_backprop_data(
        x, weights(3, 4, 2, 2), [2, 2]
    ),
    "Cos": lambda x: op.cos(op.clamp(x, -9, 9)),
    "Divide": lambda x: op.divide(x, weights(6)),
    "Elu": lambda x: op.elu(x, 0.7),
    "Equal": lambda x: chosen(op.equal(x, op.constant(np.float32(1)))),
    "Erf": op.erf,
    "Exp": op.exp,
    "Gather": lambda x: op.gather(x, const(1, 0), number(2)),
    "Gelu": lambda x: op.gelu(x, "erf"),
    "GroupConvolution": lambda x: op.group_convolution(x, weights(3, 1, 1, 3, 3), *PADS, [1, 1]),
    "HSigmoid": op.hsigmoid,
    "HSwish": op.hswish,
    "HardSigmoid": lambda x: op.hard_sigmoid(x, np.float32(0.2), np.float32(0.5)),
    "Identity": opset16.identity,
    "Interpolate": lambda x: op.concat(
        [
            op.interpolate(x, const(12, 9), mode, "sizes", axes=const(2, 3))
            for mode in ("linear_onnx", "nearest")
        ],
        1,
    ),
    "Less": lambda x: chosen(op.less(x, op.constant(np.float32(0.5)))),
    "Log": lambda x: op.log(op.multiply(x, x)),
    "MVN": lambda x: op.mvn(x, const(-1), True, 1e-6, "INSIDE_SQRT"),
    "MatMul": lambda x: op.matmul(
        op.reshape(x, const(-1, ROW), False), weights(ROW, 5), False, False
    ),
    "MaxPool": lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0),
    "Maximum": lambda x: op.maximum(x, weights(6)),
    "Minimum": lambda x: op.minimum(x, weights(6)),
    "Mish": op.mish,
    "Multiply": lambda x: op.multiply(x, weights(6)),
    "Negative": op.negative,
    "PRelu": lambda x: op.prelu(x, weights(3)),
    "Pad": lambda x: op.pad(x, const(0, 0, 1, 2), const(0, 0, 0, 1), "constant", weights()),
    "Power": lambda x: op.power(x, op.constant(np.float32(2))),
    "Range": lambda x: op.add(
        x, op.convert(op.range(number(0), size(x, 3), number(1), "i64"), "f32")
    ),
    "ReduceL2": lambda x: op.reduce_l2(x, const(1), True),
    "ReduceMax": lambda x: op.reduce_max(x, const(2, 3)),
    "ReduceMean": lambda x: op.reduce_mean(x, const(2, 3)),
    "ReduceMin": lambda x: op.reduce_min(x, const(2, 3)),
    "ReduceSum": lambda x: op.reduce_sum(x, const(1)),
    "Relu": op.relu,
    "Reshape": lambda x: op.reshape(x, const(0, 2, -1), True),
    "ScatterElementsUpdate": lambda x: op.concat(
        [
            op.scatter_elements_update(
                x, op.broadcast(const(2), op.shape_of(x)), op.negative(x), number(2), how
            )
            for how in ("none", "sum")
        ],
        1,
    ),
    "Select": lambda x: chosen(op.less(x, op.negative(x))),
    "ShapeOf": lambda x: op.reshape(
        x, op.concat([op.gather(op.shape_of(x), const(0), number(0)), const(-1)], 0), False
    ),
    "Sigmoid": op.sigmoid,
    "Slice": lambda x: op.slice(x, const(1), const(5), const(2), const(2)),
    "SoftPlus": op.softplus,
    "Softmax": lambda x: op.softmax(x, 3),
    "Split": lambda x: op.split(x, number(1), 3).output(1),
    "Sqrt": op.sqrt,
    "SquaredDifference": lambda x: op.squared_difference(x, weights(6)),
    "Squeeze": lambda x: op.squeeze(op.reduce_sum(x, const(2), True), const(2)),
    "StridedSlice": lambda x: op.strided_slice(
        x, const(0, 1, 0, 0), const(0, 3, 6, 6), const(1, 1, 2, 1), [1, 0, 0, 0], [1, 0, 0, 0]
    ),
    "Subtract": lambda x: op.subtract(x, weights(3, 1, 1)),
    "Swish": op.swish,
    "Tanh": op.tanh,
    "TopK": lambda x: op.topk(
        op.reshape(x, const(-1, ROW), False), number(1), 1, "max", "none"
    ).output(1),
    "Transpose": lambda x: op.transpose(x, const(0, 2, 3, 1)),
    "Unsqueeze": lambda x: op.unsqueeze(x, const(1)),
    "VariadicSplit": lambda x: op.variadic_split(x, number(1), const(1, 2)).output(1),
}


USUAL = RANDOM.standard_normal((1, *TAIL)).astype(np.float32)
ODD = np.resize([np.inf, -np.inf, np.nan, 0, -0.0, 1e-42, 3e38, -3e38, 1, 2], (1, *TAIL))
ROWS: Mapping[str, Array] = {
    "usual": USUAL,
    "large": USUAL * np.float32(1e4),
    "odd": ODD.astype(np.float32),
    "equal": np.round(np.abs(USUAL)),
    "zeros": np.zeros_like(USUAL),
}


LOSE_NAN = ("Interpolate", "MaxPool", "ScatterElementsUpdate", "TopK")
"""Operations that refuse the odd values, alone as in a batch (`test_nonfinite.py`)."""


def test_each_operation_is_compared() -> None:
    assert CASES.keys() | {"Constant", "Parameter", "Result"} == MOVES | COMPUTES


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        pytest.param(CASES.keys() - {*LOSE_NAN}, ROWS, id="all kinds"),
        pytest.param(LOSE_NAN, ROWS.keys() - {"odd"}, id="those that refuse odd values"),
    ],
)
async def test_known_sizes_give_the_outputs_of_open_ones(
    tmp_path: Path, names: Collection[str], kinds: Collection[str]
) -> None:
    x = parameter("x", (-1, *TAIL), DataType.FP32)
    outputs = [result(name, CASES[name](x)) for name in names]
    directory = save(tmp_path, outputs, [x])
    model = ov.Model(outputs, [x])
    visit(model, READ)
    assert not unlike(model)
    opened = load(directory, inference_precision="f32")
    known = load(directory, inference_precision="f32", shape=(1, *TAIL))
    for kind in kinds:
        alone = await run(known, {"x": ROWS[kind]})
        for others in (0, 4):
            wanted = await run(opened, {"x": np.concatenate([ROWS[kind], *[USUAL] * others])})
            for name, each in alone.items():
                np.testing.assert_allclose(
                    each, wanted[name][: len(each)], 1e-4, 1e-5, err_msg=f"{name}, {kind}"
                )


COUNTING: dict[str, Callable[[Any, Any], Any]] = {
    "Add": op.add,
    "Divide": op.divide,
    "Equal": lambda x, y: chosen(op.equal(x, y)),
    "Less": lambda x, y: chosen(op.less(x, y)),
    "Multiply": op.multiply,
    "Subtract": op.subtract,
}
INTEGERS = np.array([0, 1, -1, 7, -7, 300, 1 << 15, -(1 << 15)])


def test_each_operation_is_compared_on_integers() -> None:
    assert COUNTING.keys() == COUNTS


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.INT64])
async def test_known_sizes_give_the_integers_of_open_ones(tmp_path: Path, dtype: DataType) -> None:
    x = parameter("x", (-1, len(INTEGERS)), dtype)
    y = op.convert(const(*(INTEGERS[::-1] | 1)), dtype.numpy)
    outputs = [result(name, body(x, y)) for name, body in COUNTING.items()]
    assert not unlike(ov.Model(outputs, [x]))
    directory = save(tmp_path, outputs, [x])
    opened, known = load(directory), load(directory, shape=(3, len(INTEGERS)))
    given = {"x": np.stack([np.roll(INTEGERS, turn) for turn in range(3)]).astype(dtype.numpy)}
    wanted = await run(opened, given)
    for name, each in (await run(known, given)).items():
        np.testing.assert_array_equal(each, wanted[name], name)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda x: op.convert(x, "i8"), id="numbers that may not fit"),
        pytest.param(lambda x: op.convert(x, "i32"), id="numbers that are cut"),
        pytest.param(
            lambda x: op.topk(x, number(2), 3, "max", "value").output(0), id="several of a TopK"
        ),
        pytest.param(lambda x: op.gather(x, places(x), number(1), 1), id="gathered of a batch"),
        pytest.param(
            lambda x: op.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(1),
            id="places of a MaxPool",
        ),
        pytest.param(
            lambda x: op.fake_quantize(
                x, *(const(each, dtype=np.float32) for each in (0, 1, 0, 1)), 8
            ),
            id="quantized",
        ),
    ],
)
def test_other_graphs_are_not(body: Callable[[Any], Any]) -> None:
    x = parameter("x", (-1, *TAIL), DataType.FP32)
    node = body(x)
    assert unlike(ov.Model([op.result(node)], [x]))
