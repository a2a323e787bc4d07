"""Bounds the length of a `Range` and the rounds of loops, which the values of a request decide.

In a `Range` the CPU plugin ignores the sign of the length: from 5 to 0 by steps of 1 it gives 5, 6,
7, 8, 9, where TensorFlow refuses and ONNX gives nothing. Measured with OpenVINO 2026.4.

A loop of 2^31 rounds keeps its thread busy for half a day, and no deadline ends it: OpenVINO checks
for a cancellation only between two operations, and a loop is one operation. In a guarded graph each
loop counts its rounds, including those of the loops inside it, and ends at `MOST_ROUNDS`; a flag
then refuses the request.

After a loop without any round, outputs that collect each round, or take the last, hold the data of
the previous request (measured with OpenVINO 2026.4). So such a request is refused as well.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.sizes import (
    MOST_ELEMENTS,
    refuse_unless,
    replace_where_not,
)
from ie_serving.engines.openvino.graphs.constants import (
    float32,
    int32,
    int64,
    known_input,
    value_of,
)
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit, is_among
from ie_serving.engines.openvino.graphs.walk import (
    BRANCH,
    LOOPS,
    Flag,
    bodies,
    carried,
    of_branches,
    of_rounds,
    title,
    zeros,
)

COMBINES = frozenset({"Add", "Concat", "Maximum", "Multiply"})
MOVES = frozenset(
    {"Convert", "Gather", "ReduceMax", "ReduceProd", "ReduceSum", "Reshape", "Slice"}
    | {"Squeeze", "StridedSlice", "Unsqueeze"}
)
"""Operations without negative results if their inputs, or the first input, have none."""
INTEGERS = frozenset({"i32", "i64"})
GREATEST_HALF = 65504


def _guard_range(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Bound a `Range`; give a flag if its ends are values of a request.

    A range in the wrong direction becomes empty, as in ONNX, or is refused.
    """
    if _surely_forward(node):
        return
    forward = _goes_forward(node)
    if any(is_among(here.sources, node, number) for number in range(3)):
        yield _refusal(node, None if here.from_end else forward)
    replace_where_not(node, 1, forward, node.input_value(0))


def _surely_forward(node: ov.Node) -> bool:
    """Tell whether a range counts upwards from 0 or below to a number that cannot be negative."""
    start, step = known_input(node, 0), known_input(node, 2)
    if start is None or step is None:
        return False
    is_upwards = start.item() <= 0 < step.item()
    return bool(is_upwards and _never_negative(_input_node(node, 1)))


def _never_negative(node: ov.Node) -> bool:
    name, value = node.get_type_name(), value_of(node)
    if value is not None:
        return bool((value >= 0).all())
    if name in COMBINES or name in MOVES:
        count = node.get_input_size() if name in COMBINES else 1
        return all(_never_negative(_input_node(node, number)) for number in range(count))
    return bool(name == "ShapeOf")


def _input_node(node: ov.Node, number: int) -> ov.Node:
    return node.input_value(number).get_node()


def _goes_forward(node: ov.Node) -> ov.Node:
    start, stop, step = (node.input_value(number) for number in range(3))
    forward = op.greater_equal(_length(node), float32(0))
    if start.get_element_type() != stop.get_element_type() or not _is_integer(start):
        return forward
    # Compared as integers too: float32 shows no difference of 1 above 2**24. If the difference
    # overflows, the range is longer than the limit anyway.
    exact = op.multiply(op.convert(op.subtract(stop, start), "f32"), op.convert(step, "f32"))
    return op.logical_and(forward, op.greater_equal(exact, float32(0)))


def _is_integer(output: ov.Output) -> bool:
    return output.get_element_type().get_type_name() in INTEGERS


def _length(node: ov.Node) -> ov.Node:
    start, stop, step = (op.convert(node.input_value(number), "f32") for number in range(3))
    return op.divide(op.subtract(stop, start), step)


def _refusal(node: ov.Node, forward: ov.Node | None) -> Flag:
    step = op.convert(node.input_value(2), "f32")
    # Both comparisons are false for NaN, which steps of 0 and infinities give.
    fits = op.logical_and(
        op.less(_length(node), float32(MOST_ELEMENTS)),
        op.not_equal(step, float32(0)),
    )
    cause = f"is asked for more than {MOST_ELEMENTS} numbers, or steps of 0"
    if node.get_output_element_type(0).get_type_name() == "f16":
        fits = op.logical_and(fits, op.logical_and(_is_half(node, 0), _is_half(node, 1)))
        cause += f", or float16 beyond {GREATEST_HALF}"
    if forward is not None:
        fits = op.logical_and(fits, forward)
        cause += ", or steps away from its end"
    return refuse_unless(node, fits, cause, {1: node.input_value(0), 2: int32(1)})


def _is_half(node: ov.Node, number: int) -> ov.Node:
    """Tell whether a number is in float16's range; for others the plugin gives infinities."""
    given = op.abs(op.convert(node.input_value(number), "f32"))
    return op.less_equal(given, float32(GREATEST_HALF))


RULES: Sequence[Rule[Ask]] = (
    Rule(
        "a_range_counts_in_the_wrong_direction a_step_of_0_ends_the_process", "Range", _guard_range
    ),
)

MOST_ROUNDS = 100_000
"""Most rounds of one loop, about 2 s with a minimal body; beyond it the request is refused."""


def _take_out(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Move the flags in the bodies of an operation out of them, and bound its rounds."""
    yield from carried(node, [body.flags for body in here.inner])
    if node.get_type_name() == "Loop":
        yield from _guard_first_round(node)
        yield from _guard_rounds(node, here)
    elif any(body.rounds for body in here.inner):
        here.rounds.append(_summed(node, [body.rounds for body in here.inner]))


def _guard_rounds(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Count the rounds of a `Loop` and of the loops inside it; bound them, with a flag."""
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
    """Give a flag if the request decides whether a loop has any round, and the outputs need one."""
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
    """Tell whether an output holds results of rounds, not a value carried from round to round."""
    carried = {
        each.body_value_index
        for each in node.get_input_descriptions()
        if type(each).__name__ == "MergedInputDescription"
    }
    return any(each.body_value_index not in carried for each in node.get_output_descriptions())


def _surely_few(node: ov.Node, here: Visit) -> bool:
    """Tell whether constants of the model, or the shapes of the inputs, bound the rounds."""
    trips = known_input(node, 0)
    if trips is not None:
        count = int(trips.item())
        # A negative count is no limit.
        return 0 <= count < MOST_ROUNDS or (count > 0 and _has_no_condition(node))
    return not is_among(here.sources, node, 0) and _has_no_condition(node)


def _has_no_condition(node: ov.Node) -> bool:
    """Tell whether a loop runs until its count, without a condition that ends it earlier."""
    condition = known_input(_condition(node), 0)
    return condition is not None and bool(condition.all())


def _condition(node: ov.Node) -> ov.Node:
    """Give the result of a loop's body that decides whether another round follows."""
    (body,) = bodies(node)
    return body.get_results()[node.get_special_body_ports()[1]]


def _bounded(node: ov.Node, inside: Sequence[ov.Node]) -> ov.Output:
    """Count a loop's rounds, and let it end at `MOST_ROUNDS`."""

    def counted(so_far: ov.Node) -> ov.Node:
        count = reduce(op.add, [op.add(so_far, int32([1])), *inside])
        condition = _condition(node)
        goes_on = condition.input_value(0)
        few = op.less(count, int32([MOST_ROUNDS]))
        # The plugin expects the condition's own shape, () or (1,).
        shape = int64(goes_on.get_partial_shape().to_shape())
        both = op.logical_and(goes_on, op.reshape(few, shape, False))
        condition.input(0).replace_source_output(both.output(0))
        return count

    return of_rounds(node, counted, 1)


def _summed(node: ov.Node, inner: Sequence[Sequence[ov.Node]]) -> ov.Node:
    """Give the count of the branch that is taken, or of all rounds of a TensorIterator."""
    if node.get_type_name() == BRANCH:
        out = of_branches(node, [reduce(op.add, counts, zeros(1)) for counts in inner])
    else:
        out = of_rounds(node, lambda so_far: reduce(op.add, [so_far, *inner[0]]), 1)
    return op.convert(out, "i32")


LOOP_RULES: Sequence[Rule[Ask]] = (
    Rule(
        "rounds_have_no_bound a_loop_without_rounds_keeps_its_outputs",
        " ".join((BRANCH, *LOOPS)),
        _take_out,
    ),
)
"""Applied after all other rules, when the flags of bodies are complete."""
