"""A copy of a graph shows the shapes that follow from given ones, and keeps no weights."""

from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.graphs.weightless import (
    MASK_ELEMENTS,
    WEIGHT_ELEMENTS,
    fix,
    has_all,
    weightless_copy,
)
from tests.unit.engines.openvino.models import parameter

ROWS = WEIGHT_ELEMENTS + 1


def product() -> ov.Model:
    """Give y = x W + 1, of open rows."""
    x = parameter("x", [-1, ROWS])
    weights = op.constant(np.ones((ROWS, 2), np.float32))
    return ov.Model([op.add(op.matmul(x, weights, False, False), op.constant(np.float32(1)))], [x])


def constants(model: ov.Model) -> list[int]:
    """Give how many elements each constant has."""
    nodes = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return [int(np.prod(node.get_output_shape(0))) for node in nodes]


def test_it_has_no_weights_and_the_graph_keeps_them() -> None:
    model = product()
    twin = weightless_copy(model)
    assert constants(twin.model) == [1]
    assert sorted(constants(model)) == [1, 2 * ROWS]


def test_each_operation_is_paired_with_its_own() -> None:
    model = product()
    twin = weightless_copy(model)
    names = [
        (pair.node.get_friendly_name(), pair.copied.get_friendly_name()) for pair in twin.pairs
    ]
    assert [one for one, _ in names] == [
        node.get_friendly_name() for node in model.get_ordered_ops()
    ]
    assert all(one == other for one, other in names)


def test_shapes_follow_from_those_that_it_is_given_and_the_graph_keeps_its_own() -> None:
    model = product()
    twin = weightless_copy(model)
    for rows in (3, 5):
        fix(twin.model, {0: ov.PartialShape([rows, ROWS])})
        assert str(twin.model.outputs[0].get_partial_shape()) == f"[{rows},2]"
    with pytest.raises(RuntimeError, match="MatMul"):
        fix(twin.model, {0: ov.PartialShape([3, ROWS + 1])})
    fix(twin.model, {0: ov.PartialShape([4, ROWS])})
    assert str(twin.model.outputs[0].get_partial_shape()) == "[4,2]"
    assert str(model.outputs[0].get_partial_shape()) == "[?,2]"


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64])
def test_a_large_mask_still_decides_about_shapes(kind: type) -> None:
    """As of windows of attention: how many of its places are set is a size."""
    x = parameter("x", [-1])
    mask = (np.arange(ROWS) % 2 == 0).astype(kind)
    places = op.squeeze(op.transpose(op.non_zero(op.constant(mask)), op.constant([1, 0])))
    taken = op.gather(x, op.convert(places, "i64"), op.constant(np.int64(0)))
    twin = weightless_copy(ov.Model([taken], [x]))
    fix(twin.model, {0: ov.PartialShape([ROWS])})
    assert str(twin.model.outputs[0].get_partial_shape()) == f"[{mask.sum()}]"


def test_a_table_of_integers_is_not_kept() -> None:
    x = parameter("x", [-1], DataType.INT64)
    table = op.constant(np.zeros(MASK_ELEMENTS + 1, np.int64))
    twin = weightless_copy(ov.Model([op.gather(table, x, op.constant(np.int64(0)))], [x]))
    assert constants(twin.model) == [1]


def within(body: ov.Model) -> Any:
    """Give a loop of two rounds around a graph of one input."""
    x = parameter("x", [2])
    loop = op.loop(op.constant(np.int64(2)), op.constant(True))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(body.get_parameters()[0], x.output(0), body.get_results()[1].output(0))
    return ov.Model([loop.get_iter_value(body.get_results()[1].output(0), -1)], [x])


def test_a_graph_that_gets_more_operations_has_more_than_its_copy() -> None:
    inner = parameter("inner", [2])
    grown = op.relu(inner)
    body = ov.Model([op.result(op.constant(True)), op.result(grown)], [inner])
    for model, node in ((product(), None), (within(body), grown)):
        twin = weightless_copy(model)
        assert has_all(twin, model)
        if node is None:
            model.add_results([op.result(op.relu(model.outputs[0]))])
        else:
            node.input(0).replace_source_output(op.abs(node.input_value(0)).output(0))
        assert not has_all(twin, model)
