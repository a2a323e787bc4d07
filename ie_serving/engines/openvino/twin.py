"""A copy of a graph without its weights, which shows the shapes that follow from given ones.

The graph that serves keeps its open sizes, which is what requests make use of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.giving_way import give_way
from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.graphs.shapes import elements
from ie_serving.engines.openvino.graphs.walk import operations

WEIGHT_ELEMENTS = 1024
"""Constants of more elements are weights, which the copy does without; smaller ones may decide
about shapes (axes, sizes, patterns), and are kept."""
DECIDING = frozenset({"boolean", "i32", "i64"})
"""Element types of constants that may decide about shapes however large they are, as masks do."""


class Pair(NamedTuple):
    """An operation.

    Attributes:
        node: of the graph.
        twin: the same one of its copy.
        inside: whether it is inside a body.
    """

    node: ov.Node
    twin: ov.Node
    inside: bool


class Twin(NamedTuple):
    """The copy of a graph.

    Attributes:
        model: the copy. It has inputs in place of its weights, behind those of the graph.
        pairs: the operations of both, each behind those that it reads. They keep the weights.
    """

    model: ov.Model
    pairs: list[Pair]


def twin_of(model: ov.Model) -> Twin:
    """Copy a graph."""
    copy = model.clone()
    give_way()
    pairs = list(_pairs(model, copy))
    copy.add_parameters(list(_leave_weights_out(pairs)))  # else it has inputs it does not know
    return Twin(copy, pairs)


def has_all(twin: Twin, model: ov.Model) -> bool:
    """Tell whether nothing was added to a graph since it was copied."""
    return _count(model) == len(twin.pairs)


def _count(model: ov.Model) -> int:
    return sum(1 + sum(map(_count, bodies(node))) for node in operations(model))


def fix(twin: ov.Model, shapes: Mapping[int, ov.PartialShape]) -> None:
    """Give inputs of a copy these shapes, by their numbers.

    Not by `Model.reshape`, which rewrites the graph first: it takes five times as long, and may let
    shapes fit that the graph that serves does not take.

    Raises:
        RuntimeError: an operation does not take what follows from them.
    """
    give_way()
    parameters = twin.get_parameters()
    for index, shape in shapes.items():
        parameters[index].set_partial_shape(shape)
    try:
        twin.validate_nodes_and_infer_types()
    finally:
        give_way()


def _leave_weights_out(pairs: Iterable[Pair]) -> Iterator[ov.Node]:
    """Replace weights by inputs, and give those."""
    for _, node, inside in pairs:
        if not inside and node.get_type_name() == "Constant" and _is_weight(node):
            stands_in = op.parameter(node.get_output_shape(0), node.get_output_element_type(0))
            node.output(0).replace(stands_in.output(0))
            yield stands_in


def _pairs(model: ov.Model, copy: ov.Model, inside: bool = False) -> Iterator[Pair]:
    for node, twin in zip(operations(model), copy.get_ordered_ops(), strict=True):
        yield Pair(node, twin, inside)
        for body, body_twin in zip(bodies(node), bodies(twin), strict=True):
            yield from _pairs(body, body_twin, inside=True)


def _is_weight(constant: ov.Node) -> bool:
    if constant.get_output_element_type(0).get_type_name() in DECIDING:
        return False
    return (elements(constant.get_output_partial_shape(0)) or 0) > WEIGHT_ELEMENTS
