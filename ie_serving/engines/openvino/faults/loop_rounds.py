"""Rounds of loops that the values of a request decide, bounded.

A loop of 2^31 rounds holds its thread for half a day, and no deadline ends it: OpenVINO heeds a
cancellation between two operations only, and a loop is one. In a guarded graph each loop counts its
rounds, with those of the loops inside of it, and ends at `MOST_ROUNDS`. A flag tells of it, so that
the request is refused.

A loop without any round leaves outputs that hold something of each round, or of the last, as the
request before left them (measured with OpenVINO 2026.4). So such a request is refused as well.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.bodies import (
    BRANCH,
    LOOPS,
    bodies,
    carried,
    of_branches,
    of_rounds,
    zeros,
)
from ie_serving.engines.openvino.graphs.constants import int32, int64, known_input
from ie_serving.engines.openvino.graphs.flags import Flag, title
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.sources import is_among

MOST_ROUNDS = 100_000
"""Rounds of one loop: about two seconds where its body does next to nothing."""


def _take_out(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Take what was found in the bodies of an operation out of them, and bound its rounds."""
    yield from carried(node, [body.flags for body in here.inner])
    if node.get_type_name() == "Loop":
        yield from _guard_first_round(node)
        yield from _guard_rounds(node, here)
    elif any(body.rounds for body in here.inner):
        here.rounds.append(_summed(node, [body.rounds for body in here.inner]))


def _guard_rounds(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Count the rounds of a `Loop`, with those inside of it; bound them, with a flag."""
    (body,) = here.inner
    if body.rounds or not _surely_few(node, here):
        count = op.convert(_bounded(node, body.rounds), "i32")
        here.rounds.append(count)
        cause = (
            f"{title(node)} is asked for {MOST_ROUNDS} rounds or more: send values that ask for"
            " fewer"
        )
        yield Flag.where(cause, op.greater_equal(count, int32([MOST_ROUNDS])))


def _guard_first_round(node: ov.Node) -> Iterator[Flag]:
    """Give a flag where the request decides whether a loop has the round that it needs."""
    known = [known_input(node, number) for number in range(2)]
    # A negative count is no limit.
    if not _gives_of_rounds(node) or all(value is not None and value.all() for value in known):
        return
    none = op.equal(op.convert(node.input_value(0), "i64"), int64(0))
    yield Flag.where(
        f"{title(node)} is asked for no round and has nothing to give: ask for one at least",
        op.logical_or(none, op.logical_not(node.input_value(1))),
    )


def _gives_of_rounds(node: ov.Node) -> bool:
    """Tell whether an output holds what rounds have made, and not what is carried through them."""
    carried = {
        each.body_value_index
        for each in node.get_input_descriptions()
        if type(each).__name__ == "MergedInputDescription"
    }
    return any(each.body_value_index not in carried for each in node.get_output_descriptions())


def _surely_few(node: ov.Node, here: Visit) -> bool:
    """Tell whether the model itself, or the shapes of the inputs, say how many rounds there are."""
    trips = known_input(node, 0)
    if trips is not None:
        count = int(trips.item())
        # A negative count is no limit.
        return 0 <= count < MOST_ROUNDS or (count > 0 and _has_no_condition(node))
    return not is_among(here.sources, node, 0) and _has_no_condition(node)


def _has_no_condition(node: ov.Node) -> bool:
    """Tell whether a loop goes on until its count is reached."""
    condition = known_input(_condition(node), 0)
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


RULES: Sequence[Rule[Ask]] = (
    Rule(
        "rounds_have_no_bound a_loop_without_rounds_keeps_its_outputs",
        " ".join((BRANCH, *LOOPS)),
        _take_out,
    ),
)
"""Behind all others: the flags of bodies are complete then."""
