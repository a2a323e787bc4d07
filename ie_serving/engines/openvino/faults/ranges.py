"""`Range`: its length bounded, and none in the wrong direction.

The CPU plugin takes the length without its sign: from 5 to 0 by steps of 1 it gives 5, 6, 7, 8, 9,
where TensorFlow refuses and ONNX gives nothing. Measured with OpenVINO 2026.4.
"""

from collections.abc import Collection, Iterator, Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.sizes import MOST_ELEMENTS, is_among, replace_where_not
from ie_serving.engines.openvino.graphs.constants import float32, int32, value_of
from ie_serving.engines.openvino.graphs.flags import Flag, title

COMBINES = frozenset({"Add", "Concat", "Maximum", "Multiply"})
MOVES = frozenset(
    {"Convert", "Gather", "ReduceMax", "ReduceProd", "ReduceSum", "Reshape", "Slice"}
    | {"Squeeze", "StridedSlice", "Unsqueeze"}
)
"""Operations that give no negative number where their inputs, or the first of them, have none."""
INTEGERS = frozenset({"i32", "i64"})
GREATEST_HALF = 65504


def guard_ranges(
    nodes: Sequence[ov.Node], sources: Collection[str], *, may_be_empty: bool
) -> Iterator[Flag]:
    """Bound `Range`; give a flag for each whose ends are values of a request.

    Args:
        nodes: the operations, bodies apart.
        sources: see `sizes.from_values`.
        may_be_empty: whether one in the wrong direction gives nothing; else it is refused.
    """
    for node in nodes:
        if node.get_type_name() != "Range" or _surely_forward(node):
            continue
        forward = _goes_forward(node)
        if any(is_among(sources, node, number) for number in range(3)):
            yield _refusal(node, None if may_be_empty else forward)
        replace_where_not(node, 1, forward, node.input_value(0))


def _surely_forward(node: ov.Node) -> bool:
    """Tell whether it counts upwards from 0 or below to what is never negative, as sizes are."""
    start, step = (value_of(_given(node, number)) for number in (0, 2))
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
    # As integers too: floats show no difference of 1 above 2**24. Ends that are so far apart that
    # this overflows ask for more than may be asked for.
    exact = op.multiply(op.convert(op.subtract(stop, start), "f32"), op.convert(step, "f32"))
    return op.logical_and(forward, op.greater_equal(exact, float32(0)))


def _is_integer(output: ov.Output) -> bool:
    return output.get_element_type().get_type_name() in INTEGERS


def _length(node: ov.Node) -> ov.Node:
    start, stop, step = (op.convert(node.input_value(number), "f32") for number in range(3))
    return op.divide(op.subtract(stop, start), step)


def _refusal(node: ov.Node, forward: ov.Node | None) -> Flag:
    step = op.convert(node.input_value(2), "f32")
    # Written so that NaN, of zero steps and infinities, does not fit.
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
    replace_where_not(node, 1, fits, node.input_value(0))
    replace_where_not(node, 2, fits, int32(1))
    return Flag.unless(f"{title(node)} {cause}", fits)


def _is_half(node: ov.Node, number: int) -> ov.Node:
    """Tell whether float16 has a number; for others the plugin gives infinities."""
    given = op.abs(op.convert(node.input_value(number), "f32"))
    return op.less_equal(given, float32(GREATEST_HALF))
