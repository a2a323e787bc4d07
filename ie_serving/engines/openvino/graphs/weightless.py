"""Copies a graph without its weights, to infer all shapes from given input shapes.

The serving graph keeps its open sizes, which requests make use of. Constants of bodies always stay
in the copy.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.runtime.spare_cpu import give_way
from ie_serving.engines.openvino.graphs.walk import all_operations, bodies, elements, operations

WEIGHT_ELEMENTS = 1024
"""Elements up to which the copy keeps any constant: it may decide about shapes, as axes, sizes and
patterns do."""
MASK_ELEMENTS = 1 << 18
"""Elements (2 MB of int64) up to which the copy keeps constants of `MASKS`. They stay in memory as
long as the version, so larger tables are replaced, too. Shapes that depend on their values then
count as open: such a model is served in the safe way, which is slower."""
MASKS = frozenset({"boolean", "u8", "i32", "i64"})
"""Element types of masks and indices: how many elements a mask has set may be a size."""


class OperationPair(NamedTuple):
    """An operation of a graph, and the same one of its copy.

    Attributes:
        node: node of the graph.
        copied: the node of the copy; for weights a constant that the copy has no longer.
        inside: whether it is inside a body.
    """

    node: ov.Node
    copied: ov.Node
    inside: bool


class WeightlessCopy(NamedTuple):
    """The copy of a graph.

    Attributes:
        model: the copy. It has inputs in place of its weights and of what loops begin by, behind
            those of the graph.
        pairs: the operations of both, each behind those that it reads. They keep the weights in
            memory, so they are not to be kept beyond the load.
    """

    model: ov.Model
    pairs: list[OperationPair]


def weightless_copy(model: ov.Model) -> WeightlessCopy:
    """Copy a graph."""
    copy = model.clone()
    give_way()
    pairs = list(_pairs(model, copy))
    copy.add_parameters(list(_leave_weights_out(pairs)))  # else it has inputs it does not know
    return WeightlessCopy(copy, pairs)


def has_all(twin: WeightlessCopy, model: ov.Model) -> bool:
    """Tell whether a graph has as many operations as when it was copied.

    Whatever has changed it since must have added some.
    """
    return sum(1 for _ in all_operations(model)) == len(twin.pairs)


def fix(copy: ov.Model, shapes: Mapping[int, ov.PartialShape]) -> None:
    """Set the shapes of a copy's inputs, by their numbers.

    Not by `Model.reshape`, which rewrites the graph first: it takes several times as long, and may
    accept shapes that the serving graph refuses.

    Raises:
        RuntimeError: an operation refuses the inferred shapes.
    """
    parameters = copy.get_parameters()
    for index, shape in shapes.items():
        parameters[index].set_partial_shape(shape)
    try:
        copy.validate_nodes_and_infer_types()
    finally:
        give_way()


def _leave_weights_out(pairs: Iterable[OperationPair]) -> Iterator[ov.Node]:
    """Replace weights by inputs, and give those; also what decides whether a loop has a round.

    OpenVINO infers no shapes of a loop whose shapes tell that it has none: it raises "Accessing
    out-of-range dimension".
    """
    for _, node, inside in pairs:
        if inside:
            continue
        if node.get_type_name() == "Constant" and _is_weight(node):
            stands_in = op.parameter(node.get_output_shape(0), node.get_output_element_type(0))
            node.output(0).replace(stands_in.output(0))
            yield stands_in
        elif node.get_type_name() == "Loop" and _may_have_no_round(node):
            stands_in = op.parameter(node.get_input_partial_shape(1), ov.Type.boolean)
            node.input(1).replace_source_output(stands_in.output(0))
            yield stands_in


def _may_have_no_round(loop: ov.Node) -> bool:
    """Tell whether a loop's condition is computed, and its results are right without a round.

    A list whose elements have sizes that are not known begins as one of elements of size 1, which
    OpenVINO would give.
    """
    begun = {
        each.body_value_index: loop.get_input_partial_shape(each.input_index)
        for each in loop.get_input_descriptions()
        if type(each).__name__ == "MergedInputDescription"
    }
    return loop.input_value(1).get_node().get_type_name() != "Constant" and all(
        each.body_value_index in begun
        and loop.get_output_partial_shape(each.output_index).refines(begun[each.body_value_index])
        for each in loop.get_output_descriptions()
    )


def _pairs(model: ov.Model, copy: ov.Model, inside: bool = False) -> Iterator[OperationPair]:
    for node, copied in zip(operations(model), copy.get_ordered_ops(), strict=True):
        yield OperationPair(node, copied, inside)
        for body, copied_body in zip(bodies(node), bodies(copied), strict=True):
            yield from _pairs(body, copied_body, inside=True)


def _is_weight(constant: ov.Node) -> bool:
    is_mask = constant.get_output_element_type(0).get_type_name() in MASKS
    most = MASK_ELEMENTS if is_mask else WEIGHT_ELEMENTS
    return (elements(constant.get_output_partial_shape(0)) or 0) > most
