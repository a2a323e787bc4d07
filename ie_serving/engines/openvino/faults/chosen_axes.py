"""Supports axes that a request chooses, where OpenVINO's CPU plugin takes only constant axes.

Measured with OpenVINO 2026.4: the plugin compiles no `Unsqueeze` or reduction whose axes are not
constant, since the rank is unknown, and does not check the axes of a `Slice`. The model declares
how many axes a request sends, so the operation is replaced by one for any axes. An axis that is out
of range, or named twice, becomes an index out of range, which `indices.py` refuses.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import LAST, Operand, int64
from ie_serving.engines.openvino.graphs.rules import Visit, is_among, note_source, replace_node
from ie_serving.engines.openvino.graphs.walk import bodies, operations

_AXES_OF_SLICE = 4


def hold_axes(model: ov.Model) -> None:
    """Replace operations whose axes a request chooses, in bodies too; then infer ranks again."""
    nodes = operations(model)
    here = Visit(model, from_end=True)
    for node in nodes:
        note_source(node, here)
    made = [_hold_axis(node, here.sources) for node in nodes]
    if any(made):
        model.validate_nodes_and_infer_types()


def _hold_axis(node: ov.Node, sources: Collection[str]) -> bool:
    for body in bodies(node):
        hold_axes(body)
    rule = _RULES.get(node.get_type_name())
    if rule is None or not is_among(sources, node, _AXES_OF_SLICE if rule is _sliced else 1):
        return False
    made = rule(node)
    if made is None:
        return False
    replace_node(node, made)
    return True


def _unsqueezed(node: ov.Node) -> ov.Node | None:
    """Reshape the data to its sizes with a 1 inserted at each axis."""
    data, axes = node.input_values()
    count, rank = _chosen(axes), data.get_partial_shape().rank
    if not count or rank.is_dynamic:
        return None
    marks = _marks(axes, count, rank.get_length() + count)
    indices = op.subtract(_others(marks), int64(1))
    # Inserted axes before the first axis of the data would get -1.
    sizes = op.gather(op.shape_of(data), op.maximum(indices, int64(0)), int64(0))
    shape = op.select(op.equal(marks, int64(1)), int64(1), sizes)
    return op.reshape(data, shape, False)


def _reduced(node: ov.Node) -> ov.Node | None:
    """Reduce with the axes kept as size 1, then reshape to the sizes of the other axes."""
    data, axes = node.input_values()
    count, rank = _chosen(axes), data.get_partial_shape().rank
    if not count or rank.is_dynamic or node.get_output_partial_shape(0).rank.is_static:
        return None
    others = _others(_marks(axes, count, rank.get_length()))
    each = int64(np.arange(rank.get_length() - count).reshape(-1, 1))
    # The index of kept axis k is the number of axes up to which at most k axes are kept.
    before = op.convert(op.less_equal(op.unsqueeze(others, int64(0)), each), "i64")
    indices = op.reduce_sum(before, int64([1]), False)
    sizes = op.gather(op.shape_of(data), indices, int64(0))
    return op.reshape(_REDUCTIONS[node.get_type_name()](data, axes, True), sizes, False)


def _sliced(node: ov.Node) -> ov.Node | None:
    """Give begin, end and step for every axis of the data."""
    data, *limits, axes = node.input_values()
    count, rank = _chosen(axes), data.get_partial_shape().rank
    if not count or rank.is_dynamic:
        return None
    size = rank.get_length()
    distinct = _distinct(axes, count, size)
    whole = ([number] * size for number in (0, LAST, 1))
    of_all = (
        op.scatter_elements_update(int64(each), distinct, op.convert(given, "i64"), int64(0))
        for each, given in zip(whole, limits, strict=True)
    )
    return op.slice(data, *of_all, int64(list(range(size))))


def _chosen(axes: ov.Output) -> int:
    """Count the axes that a request chooses; 0 if it chooses their number too."""
    shape = axes.get_partial_shape()
    if shape.is_dynamic:
        return 0
    return int(shape.to_shape()[0]) if len(shape) else 1


def _marks(axes: ov.Output, count: int, rank: int) -> ov.Node:
    """Give a row with 1 for each axis in `axes`, and 0 for the others."""
    return _marked(_distinct(axes, count, rank), count, rank)


def _distinct(axes: ov.Output, count: int, rank: int) -> ov.Node:
    """Give the axes as one row; if one is named twice, give axes out of range instead."""
    row = op.reshape(op.convert(axes, "i64"), int64([count]), False)
    named = op.reduce_sum(_marked(row, count, rank), int64([0]), True)
    return op.select(op.equal(named, int64([count])), row, int64([rank]))


def _marked(axes: Operand, count: int, rank: int) -> ov.Node:
    return op.scatter_elements_update(int64([0] * rank), axes, int64([1] * count), int64(0))


def _others(marks: ov.Node) -> ov.Node:
    """Give for each axis how many axes up to it are not marked."""
    return op.cum_sum(op.subtract(int64(1), marks), int64(0))


_REDUCTIONS: Final[Mapping[str, Callable[[Operand, Operand, bool], ov.Node]]] = {
    "ReduceL1": op.reduce_l1,
    "ReduceL2": op.reduce_l2,
    "ReduceMax": op.reduce_max,
    "ReduceMean": op.reduce_mean,
    "ReduceMin": op.reduce_min,
    "ReduceProd": op.reduce_prod,
    "ReduceSum": op.reduce_sum,
}
"""Makers of reductions by type of operation; the last argument keeps the reduced axes as size 1."""

_RULES: Final[Mapping[str, Callable[[ov.Node], ov.Node | None]]] = {
    "Slice": _sliced,
    "Unsqueeze": _unsqueezed,
    **dict.fromkeys(_REDUCTIONS, _reduced),
}
"""Functions by type of operation that return its replacement; None if its axes are constants of the
model."""
