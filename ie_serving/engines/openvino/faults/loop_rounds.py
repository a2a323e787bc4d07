"""Rounds of loops that the values of a request decide, bounded.

A loop of 2^31 rounds holds its thread for half a day, and no deadline ends it: OpenVINO heeds a
cancellation between two operations only, and a loop is one. In a guarded graph each loop counts its
rounds, with those of the loops inside of it, and ends at `MOST_ROUNDS`. A flag tells of it, so that
the request is refused.

A loop without any round leaves outputs that hold something of each round, or of the last, as the
request before left them (measured with OpenVINO 2026.4). So such a request is refused as well.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import reduce

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.sizes import is_among
from ie_serving.engines.openvino.graphs.bodies import (
    BRANCH,
    bodies,
    of_branches,
    of_rounds,
    zeros,
)
from ie_serving.engines.openvino.graphs.constants import int32, int64, value_of
from ie_serving.engines.openvino.graphs.flags import Flag, title

MOST_ROUNDS = 100_000
"""Rounds of one loop: about two seconds where its body does next to nothing."""


def guard_rounds(
    node: ov.Node, inner: Sequence[Sequence[ov.Node]], sources: Collection[str]
) -> Iterator[tuple[ov.Node, Flag | None]]:
    """Count the rounds of an operation's bodies; bound those of a `Loop`, with a flag.

    Args:
        node: the operation.
        inner: what is counted in each of its bodies.
        sources: see `sizes.from_values`.

    Yields:
        What was counted, a graph of one int32, shape (1,); and the flag.
    """
    if node.get_type_name() == "Loop":
        if any(inner) or not _surely_few(node, sources):
            count = op.convert(_bounded(node, inner[0]), "i32")
            too_many = op.greater_equal(count, int32([MOST_ROUNDS]))
            yield count, Flag.where(_cause(node), too_many)
    elif any(inner):
        yield _summed(node, inner), None


def guard_first_round(node: ov.Node) -> Iterator[Flag]:
    """Give a flag for a `Loop` that needs a round, where the request decides whether it has one."""
    if node.get_type_name() != "Loop" or not _gives_of_rounds(node):
        return
    trips, begins = (node.input_value(number) for number in range(2))
    known = [value_of(each.get_node()) for each in (trips, begins)]
    # A negative count is no limit.
    if all(value is not None and value.all() for value in known):
        return
    none = op.equal(op.convert(trips, "i64"), int64(0))
    yield Flag.where(
        f"{title(node)} is asked for no round and has nothing to give: ask for one at least",
        op.logical_or(none, op.logical_not(begins)),
    )


def _gives_of_rounds(node: ov.Node) -> bool:
    """Tell whether an output holds what rounds have made, and not what is carried through them."""
    carried = {
        each.body_value_index
        for each in node.get_input_descriptions()
        if type(each).__name__ == "MergedInputDescription"
    }
    return any(each.body_value_index not in carried for each in node.get_output_descriptions())


def _cause(node: ov.Node) -> str:
    return (
        f"{title(node)} is asked for {MOST_ROUNDS} rounds or more: send values that ask for fewer"
    )


def _surely_few(node: ov.Node, sources: Collection[str]) -> bool:
    """Tell whether the model itself, or the shapes of the inputs, say how many rounds there are."""
    trips = value_of(node.input_value(0).get_node())
    if trips is not None:
        count = int(trips.item())
        # A negative count is no limit.
        return 0 <= count < MOST_ROUNDS or (count > 0 and _has_no_condition(node))
    return not is_among(sources, node, 0) and _has_no_condition(node)


def _has_no_condition(node: ov.Node) -> bool:
    """Tell whether a loop goes on until its count is reached."""
    condition = value_of(_condition(node).input_value(0).get_node())
    return condition is not None and bool(condition.all())


def _condition(node: ov.Node) -> ov.Node:
    """Give the result of a loop's body that says whether there is another round."""
    (body,) = bodies(node)
    return body.get_results()[node.get_special_body_ports()[1]]


def _bounded(node: ov.Node, inside: Sequence[ov.Node]) -> ov.Output:
    """Count a loop's rounds, and let it end at `MOST_ROUNDS`."""

    def counted(so_far: ov.Node) -> ov.Node:
        count = reduce(op.add, [op.add(so_far, int32([1])), *inside])
        condition = _condition(node)
        goes_on = condition.input_value(0)
        few = op.less(count, int32([MOST_ROUNDS]))
        # Of the condition's own shape, () or (1,), which the plugin expects of it.
        shape = int64(goes_on.get_partial_shape().to_shape())
        both = op.logical_and(goes_on, op.reshape(few, shape, False))
        condition.input(0).replace_source_output(both.output(0))
        return count

    return of_rounds(node, counted, 1)


def _summed(node: ov.Node, inner: Sequence[Sequence[ov.Node]]) -> ov.Node:
    """Give what was counted in the branch that is taken, or in all rounds of a TensorIterator."""
    if node.get_type_name() == BRANCH:
        out = of_branches(node, [reduce(op.add, counts, zeros(1)) for counts in inner])
    else:
        out = of_rounds(node, lambda so_far: reduce(op.add, [so_far, *inner[0]]), 1)
    return op.convert(out, "i32")
