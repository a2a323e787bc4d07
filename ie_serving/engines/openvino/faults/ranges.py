"""Bounds the length of a `Range`, and guards against a step in the wrong direction.

The CPU plugin ignores the sign of the length: from 5 to 0 by steps of 1 it gives 5, 6, 7, 8, 9,
where TensorFlow refuses and ONNX gives nothing. Measured with OpenVINO 2026.4.
"""

from collections.abc import Iterator, Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.sizes import (
    MOST_ELEMENTS,
    refuse_unless,
    replace_where_not,
)
from ie_serving.engines.openvino.graphs.constants import float32, int32, known_input, value_of
from ie_serving.engines.openvino.graphs.flags import Flag
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.sources import is_among

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
    return bool(is_upwards and _never_negative(_given(node, 1)))


def _never_negative(node: ov.Node) -> bool:
    name, value = node.get_type_name(), value_of(node)
    if value is not None:
        return bool((value >= 0).all())
    if name in COMBINES or name in MOVES:
        count = node.get_input_size() if name in COMBINES else 1
        return all(_never_negative(_given(node, number)) for number in range(count))
    return bool(name == "ShapeOf")


def _given(node: ov.Node, number: int) -> ov.Node:
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
