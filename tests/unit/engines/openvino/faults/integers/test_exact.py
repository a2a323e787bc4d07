"""What the setting `integers` does with a graph, and which operations it leaves alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.faults.integers.exact import EXACT, FAST, REFUSE, exact_integers
from tests.unit.engines.openvino.faults.integers.graphs import answer, constant, graph, held, types
from tests.unit.engines.openvino.models import load, run, unary

X = np.array([2**24 + 1, 5], np.int32)
IDS = np.array([[2, 1, 0], [4, 2**31 - 1, -(2**31)]], np.int32)


def test_fast_changes_nothing() -> None:
    output, causes = answer(lambda x: op.floor_mod(x, constant(7)), X, mode=FAST)
    assert (output.tolist(), causes) == ([1, 5], [])


@pytest.mark.parametrize("build", [op.relu, lambda x: op.mod(x, x)])
def test_refuse_names_operation_dtype_node_and_setting(build: Callable[[Any], Any]) -> None:
    model = graph(build, [X])
    (node,) = (n for n in model.get_ordered_ops() if n.get_type_name() in ("Relu", "Mod"))
    node.set_friendly_name("encoder/bucket")
    with pytest.raises(LoadFailed) as refused:
        exact_integers(model, REFUSE)
    assert f'{node.get_type_name()} "encoder/bucket" of i32' in str(refused.value)
    assert "openvino.integers" in str(refused.value)


def sequence_mask(lengths: Any) -> Any:
    size = op.gather(op.shape_of(lengths, "i32"), constant(0), constant(0))
    places = op.range(constant(0), size, constant(1), "i32")
    return op.less(places, op.unsqueeze(lengths, constant(1)))


def flattened(x: Any) -> Any:
    """Reshape by sizes that are computed from the shape, as front ends do."""
    shape = op.shape_of(x, "i64")
    size = op.reduce_prod(shape, constant([0]), True)
    columns = op.gather(shape, constant([1]), constant(0))
    rows = op.divide(size, op.maximum(columns, constant([1], np.int64)))
    return op.reshape(x, op.concat([rows, columns], 0), False)


def one_hot_sum(x: Any) -> Any:
    hot = op.one_hot(x, constant(4), constant(1), constant(0), -1)
    return op.reduce_max(op.reshape(hot, constant([1, -1]), False), constant([1]))


ALONE: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: op.equal(x, constant(0)),
    "sequence mask": lambda x: sequence_mask(op.reshape(x, constant([-1]), False)),
    "shapes": flattened,
    "places": lambda x: op.equal(*op.topk(x, constant(1), 1, "max", "none").outputs()[1:] * 2),
    "clip": lambda x: op.minimum(op.maximum(x, constant(0)), constant(2**24 - 1)),
    "remainders": lambda x: op.equal(
        op.bitwise_and(x, constant(7)), op.bitwise_and(x, constant(3))
    ),
    "hot": one_hot_sum,
    "floats": lambda x: op.less(op.convert(x, "f32"), constant(1, np.float32)),
}


@pytest.mark.parametrize("name", ALONE)
def test_an_operation_on_numbers_known_to_be_small_stays_as_it_is(name: str) -> None:
    """Masks, shapes, places and what is read from them keep their speed."""
    build = ALONE[name]
    before = [node.get_type_name() for node in graph(build, [IDS]).get_ordered_ops()]
    kept = [kind for kind in before if kind not in ("Constant", "Parameter", "Result")]
    assert types(build, IDS) == kept


def loop(step: Callable[[Any, Any], Any], dtype: type) -> ov.Model:
    """Make a loop of 5 rounds that carries a value `v` and a counter `i`."""
    x = op.parameter([], dtype, name="x")
    v, i = op.parameter([], dtype), op.parameter([], dtype)
    always = op.result(op.constant(np.array(True)))
    counted = op.result(op.add(i, constant(1, dtype)))
    moved = op.result(step(v, i))
    body = ov.Model([always, moved, counted], [v, i], "body")
    node = op.loop(op.constant(np.int64(5)), op.constant(np.array(True)))
    node.set_function(body)
    node.set_special_body_ports([-1, 0])
    node.set_merged_input(v, x.output(0), moved.output(0))
    node.set_merged_input(i, constant(0, dtype).output(0), counted.output(0))
    out = node.get_iter_value(moved.output(0), -1)
    node.get_iter_value(counted.output(0), -1)
    return ov.Model([op.result(out)], [x], "loop")


def test_operations_of_a_body_are_exact_too() -> None:
    model = loop(lambda v, i: op.add(op.floor_mod(v, constant(2**24 + 3)), i), np.int32)
    assert exact_integers(model, EXACT) == []
    compiled = ov.Core().compile_model(model, "CPU")
    expected = 2**31 - 1
    for i in range(5):
        expected = expected % (2**24 + 3) + i
    assert compiled([np.int32(2**31 - 1)])[0] == expected


def test_a_fault_inside_of_a_body_is_flagged_outside() -> None:
    for seed, least in ((5, 0), (4, 1)):
        model = loop(lambda v, _: op.subtract(op.mod(constant(9), v), constant(1)), np.int32)
        (flag,) = exact_integers(model, EXACT)
        assert "Integer division by zero" in flag.cause
        model.add_results([op.result(flag.raised)])
        results = ov.Core().compile_model(model, "CPU")([np.int32(seed)])
        assert results[1].tolist() == [least]


async def test_a_model_is_exact_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    bucket = unary(tmp_path, [2], DataType.INT32, lambda x: op.floor_mod(x, constant(7)))
    for options, first in (({}, 2), ({"integers": "fast"}, 1)):
        assert (await run(load(bucket, **options), {"x": X}))["y"].tolist() == [first, 5]


def test_numbers_around_the_limits_are_there() -> None:
    """The tables of this folder are empty without them."""
    assert {2**24, 2**24 + 1, 2**31 - 1, -(2**31)} <= set(held(np.int64).tolist())
