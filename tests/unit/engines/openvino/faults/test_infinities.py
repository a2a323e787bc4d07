"""Infinities of graphs and requests reach the answers where OpenVINO would make them finite."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino as ov
import openvino.opset16 as op
import pytest
from openvino.passes import ConstantFolding, Manager

from ie_serving.engines.openvino.faults.hazards import READ
from ie_serving.engines.openvino.graphs.rules import visit
from tests.unit.engines.openvino.models import load, parameter, result, run, save

INF = np.float32(np.inf)
ROWS = np.array([[-INF, -INF], [INF, INF], [-INF, 1], [0.5, -2]], np.float32)


def _axis(number: int) -> ov.Node:
    return op.constant(np.array([number]))


@pytest.mark.parametrize("shape", [(3, 2), (-1, -1)], ids=["fixed", "open"])
async def test_the_ends_of_infinities_are_infinite(tmp_path: Path, shape: Sequence[int]) -> None:
    x, axis = parameter("x", shape), op.constant(np.array([1]))
    results = [result("max", op.reduce_max(x, axis)), result("min", op.reduce_min(x, axis))]
    model = load(save(tmp_path, results, [x]))
    least = np.finfo(np.float32).min
    rows = np.array([[-np.inf, -np.inf], [np.inf, np.inf], [least, -least]], np.float32)
    answer = await run(model, {"x": rows})
    assert answer["max"].tolist() == [-np.inf, np.inf, -least]
    assert answer["min"].tolist() == [-np.inf, np.inf, least]


async def test_the_greatest_of_nothing_is_the_least(tmp_path: Path) -> None:
    x = parameter("x", (2, 0))
    greatest = op.reduce_max(x, op.constant(np.array([1])))
    model = load(save(tmp_path, [result("y", greatest)], [x]))
    answer = await run(model, {"x": np.zeros((2, 0), np.float32)})
    assert answer["y"].tolist() == [-np.inf, -np.inf]


def test_a_softmax_in_parts_stays_one_to_be_fused(tmp_path: Path) -> None:
    x, axis = parameter("x", (2, 3)), op.constant(np.array([1]))
    powers = op.exp(op.subtract(x, op.reduce_max(x, axis, True)))
    y = op.divide(powers, op.reduce_sum(powers, axis, True))
    model = ov.Model([result("y", y)], [x], "m")
    visit(model, READ)
    assert "Multiply" not in {node.get_type_name() for node in model.get_ops()}


async def test_a_row_of_bf16_that_is_masked_as_a_whole_is_known(tmp_path: Path) -> None:
    """As in ONNX's Attention, written out: its greatest number is compared with -infinity."""
    x = parameter("x", (-1, 3))
    greatest = op.reduce_max(op.convert(x, "bf16"), _axis(1), keep_dims=False)
    mask = op.convert(op.constant(np.float32(-np.inf)), "bf16")
    masked = op.convert(op.equal(greatest, mask), "i32")
    model = load(save(tmp_path, [result("y", masked)], [x]), inference_precision="f32")
    rows = np.array([[-np.inf] * 3, [-np.inf, 1, -np.inf]], np.float32)
    assert (await run(model, {"x": rows}))["y"].tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(3, 2), (-1, 2)], ids=["fixed", "open"])
async def test_windows_of_infinities_are_infinite(tmp_path: Path, shape: Sequence[int]) -> None:
    x = parameter("x", shape)
    windows = op.max_pool(op.unsqueeze(x, _axis(1)), [1], [1], [0], [0], [2])
    model = load(save(tmp_path, [result("y", windows.output(0))], [x]))
    rows = np.array([[-INF, -INF], [-INF, 3], [0.5, 1]], np.float32)
    assert (await run(model, {"x": rows}))["y"].ravel().tolist() == [-INF, 3, 1]


@pytest.mark.parametrize("rows", [4, -1], ids=["fixed", "open"])
async def test_computed_infinities_are_seen(tmp_path: Path, rows: int) -> None:
    x = parameter("x", (rows, 2))
    asked = {
        f"{negative}{positive}": {"detect_negative": negative, "detect_positive": positive}
        for negative in (True, False)
        for positive in (True, False)
    }
    doubled = op.add(x, x)
    results = [result(name, op.is_inf(doubled, each)) for name, each in asked.items()]
    answer = await run(load(save(tmp_path, results, [x])), {"x": ROWS})
    for name, each in asked.items():
        seen = np.isneginf(ROWS) & each["detect_negative"]
        assert (
            answer[name].tolist() == (seen | np.isposinf(ROWS) & each["detect_positive"]).tolist()
        )


MADE: dict[str, tuple[Callable[[ov.Node, Callable[[float], ov.Node]], ov.Node], object]] = {
    "equal": (lambda x, number: op.equal(x, number(-INF)), ROWS == -INF),
    "not equal": (lambda x, number: op.not_equal(x, number(INF)), ROWS != INF),
    "less": (lambda x, number: op.less(x, number(INF)), ROWS < INF),
    "is infinite": (lambda x, number: op.is_inf(op.maximum(x, number(-INF))), np.isinf(ROWS)),
    "maximum": (lambda x, number: op.maximum(x, number(-INF)), ROWS),
    "minimum": (lambda x, number: op.minimum(x, number(INF)), ROWS),
    "select": (
        lambda x, number: op.select(op.equal(x, number(1)), number(-INF), x),
        np.where(ROWS == 1, -INF, ROWS),
    ),
    "concat": (
        lambda x, number: op.concat([x, op.broadcast(number(-INF), op.constant([1, 2]))], 0),
        np.concatenate([ROWS, [[-INF, -INF]]]),
    ),
    "greatest": (lambda x, number: op.reduce_max(x, _axis(1), True), ROWS.max(1, keepdims=True)),
    "least": (lambda x, number: op.reduce_min(x, _axis(1), True), ROWS.min(1, keepdims=True)),
    "a softmax of what is masked": (
        lambda x, number: op.softmax(
            op.select(op.less(x, number(INF)), number(0), number(-INF)), 1
        ),
        [[0.5, 0.5], [np.nan, np.nan], [0.5, 0.5], [0.5, 0.5]],
    ),
}


@pytest.mark.parametrize("rows", [4, -1], ids=["fixed", "open"])
@pytest.mark.parametrize("is_folded", [True, False])
@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "f64"])
async def test_infinite_constants_stay_infinite(
    tmp_path: Path, kind: str, is_folded: bool, rows: int
) -> None:
    def number(value: float) -> ov.Node:
        converted = op.convert(op.constant(np.float32(value)), kind)
        return _folded(converted) if is_folded else converted

    x = parameter("x", (rows, 2))
    outputs = {
        name: op.convert(make(op.convert(x, kind), number), "f32")
        for name, (make, _) in MADE.items()
    }
    model = load(
        save(tmp_path, [result(*each) for each in outputs.items()], [x]),
        inference_precision="f32",
    )
    answer = await run(model, {"x": ROWS})
    for name, (_, expected) in MADE.items():
        np.testing.assert_array_equal(answer[name], np.asarray(expected, np.float32), name)


def _folded(converted: ov.Node) -> ov.Node:
    model, passes = ov.Model([converted], []), Manager()
    passes.register_pass(ConstantFolding())
    passes.run_passes(model)
    return model.get_results()[0].input_value(0).get_node()


ATTENTION = """
<ir_version: 10, opset_import: ["": 20]>
masked (double[N, 3] x) => (
    double[N, 1] greatest, bool[N, 1] all, bool[N, 3] infinite, double[N, 3] y
)
<int64[1] axis = {1}, double one = {1}> {
    least = Constant <value = double {-inf}> ()
    greatest = ReduceMax <keepdims = 1> (x, axis)
    all = Equal (greatest, least)
    single = Cast <to = 1> (x)
    doubled = Add (single, single)
    infinite = IsInf (doubled)
    powers = Softmax (x)
    zero = Sub (one, one)
    y = Where (all, zero, powers)
}
"""
"""A softmax of rows that may be masked in full, as it is written out."""


async def test_rows_that_are_masked_in_full_are_answered_as_onnxruntime_does(
    tmp_path: Path,
) -> None:
    onnx.save(onnx.parser.parse_model(ATTENTION), str(tmp_path / "model.onnx"))
    rows = np.array([[-np.inf] * 3, [-np.inf, 1, -np.inf], [0.5, 2, -1]])
    names = ["greatest", "all", "infinite", "y"]
    expected = onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).run(names, {"x": rows})
    answer = await run(load(tmp_path), {"x": rows})
    for name, each in zip(names, expected, strict=True):
        np.testing.assert_allclose(answer[name], each, atol=1e-6)
