"""Makes comparisons of integers exact, and operations based on them; the plugin uses float32.

Two integers are equal if no bit differs. `a < b` if the minimum of both is not `b`; the plugin
computes a minimum exactly. If one of the two lies within 2**24 (`bounds.MOST`), nothing changes:
rounding moves no other integer onto it, or past it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import (
    INT32,
    Bounds,
    Values,
    ends_beyond,
    is_small,
    is_within,
)
from ie_serving.engines.openvino.faults.integers.rule import (
    LOWEST,
    MakeExact,
    Replacement,
    as_int32,
    cast,
    check_constants,
    choose,
    equal,
    greatest,
    in_parts,
    is_fused,
    kind_of,
    least,
    leaves,
    operands,
    sealed,
)
from ie_serving.engines.openvino.graphs.constants import Operand, int32
from ie_serving.engines.openvino.graphs.rules import Rule

Compare = Callable[[Operand, Operand], ov.Node]


def _less(a: Operand, b: Operand) -> ov.Node:
    return op.logical_not(equal(least(a, b), b))


def _less_equal(a: Operand, b: Operand) -> ov.Node:
    return equal(least(a, b), a)


_COMPARE: Final[Mapping[str, tuple[Compare, Compare]]] = {
    "Equal": (equal, op.equal),
    "NotEqual": (lambda a, b: op.logical_not(equal(a, b)), op.not_equal),
    "Less": (_less, op.less),
    "LessEqual": (_less_equal, op.less_equal),
    "Greater": (lambda a, b: _less(b, a), op.greater),
    "GreaterEqual": (lambda a, b: _less_equal(b, a), op.greater_equal),
}
"""The exact form of each comparison, and its form for small integers."""


def _compared(node: ov.Node, values: Values) -> Replacement | None:
    """Compare two integers; for constants beyond 32 bits the result is known at load."""
    exactly, roughly = _COMPARE[node.get_type_name()]
    bounds = [values.bounds(node, i) for i in range(2)]
    beyond = [_beyond(each) for each in bounds]
    # Constants alone are beyond 32 bits: such values of requests are refused.
    if any(beyond):
        return Replacement(roughly(*_signs(node, beyond)).output(0))
    if any(map(is_small, bounds)):
        return None
    return Replacement(exactly(*operands(node)).output(0))


def _beyond(bounds: Bounds) -> int:
    """Give the sign of a constant whose values are all beyond 32 bits, else 0."""
    if bounds[0] > INT32[1]:
        return 1
    return -1 if bounds[1] < INT32[0] else 0


def _signs(node: ov.Node, beyond: list[int]) -> list[ov.Node]:
    """Replace operands within 32 bits by 0, and others by -1 or 1, in the same shape."""
    return [
        op.broadcast(int32(sign), op.shape_of(node.input_value(i))) for i, sign in enumerate(beyond)
    ]


def _relu(node: ov.Node, values: Values) -> Replacement | None:
    """Replace `Relu` by the exact maximum of the number and 0."""
    if is_small(values.bounds(node, 0)):
        return None
    kind = kind_of(node)
    found = greatest(as_int32(node.input_value(0)), int32(0))
    return Replacement(cast(found, kind, values.bounds(node, 0)))


def _drop_rounding(node: ov.Node, values: Values) -> Replacement | None:
    """Drop the rounding of an integer, which the front end adds to truncate quotients."""
    bounds = values.bounds(node, 0)
    if is_small(bounds):
        return None
    given = sealed(as_int32(node.input_value(0)))
    return Replacement(cast(given, kind_of(node), bounds))


def _clamped(node: ov.Node, values: Values) -> Replacement | None:
    """Clamp to integer bounds: the plugin rounds the bounds to float32."""
    given = node.get_attributes()
    # Fractional bounds of integers can be rounded inwards.
    ends = (np.ceil(given["min"]), np.floor(given["max"]))
    low, high = (int(np.clip(end, *INT32)) for end in ends)
    if is_small((low + 1, high)) or is_small(values.bounds(node, 0)):
        return None
    found = least(greatest(as_int32(node.input_value(0)), int32(low)), int32(high))
    return Replacement(cast(found, kind_of(node), (low, high)))


def _extreme(node: ov.Node, values: Values) -> Replacement | None:
    """Find a maximum or minimum in two steps, each exact in float32.

    The first compares numbers without their lowest 8 bits; the second compares the lowest bits of
    those that the first found equal. Without elements both steps give the end of int32's range.
    """
    if is_small(values.bounds(node, 0)):
        return None
    reduce, other = _EXTREMES[node.get_type_name()]
    given, axes = as_int32(node.input_value(0)), node.input_value(1)
    # `known_operations.py` refuses empty data by the node's type.
    highest, lowest = in_parts(given)
    high = op.convert(highest, kind_of(node))
    most = reduce(high, axes, True)
    low = op.select(op.equal(high, most), lowest, int32(other))
    keeps = bool(node.get_attributes()["keep_dims"])
    found_high = as_int32(reduce(high, axes, keeps).output(0))
    found = op.bitwise_or(found_high, reduce(low, axes, keeps))
    bounds = values.bounds(node, 0)
    made = cast(found, kind_of(node), bounds)
    cut = ends_beyond(bounds)
    return Replacement(made, [(leaves(node), equal(found, int32(end))) for end in cut])


_EXTREMES: Final[Mapping[str, tuple[Callable[..., ov.Node], int]]] = {
    "ReduceMax": (op.reduce_max, -1),
    "ReduceMin": (op.reduce_min, LOWEST + 1),
}
"""The reduction of each operation, and the lowest bits given to numbers that the first step
lost."""


def _limited(node: ov.Node, values: Values) -> Replacement | None:
    """Keep the plugin from fusing Maximum and Minimum with an input's operation, in float32."""
    bounds = values.of(node.output(0)).bounds or INT32
    # The minimum of a number and 2**40 is the number, also if the plugin cuts 2**40.
    if not is_within(values.unwrapped(node), INT32):
        check_constants(node, values)
    if is_small(bounds) or not any(is_fused(node.input_value(i)) for i in range(2)):
        return None
    limit = least if node.get_type_name() == "Minimum" else greatest
    return Replacement(cast(limit(*operands(node)), kind_of(node), bounds))


def _chosen(node: ov.Node, values: Values) -> Replacement | None:
    """Select by bit masks: the plugin computes a Select on a comparison as float32."""
    bounds = values.of(node.output(0)).bounds
    if bounds is None or is_small(bounds):
        return None
    if not _is_stand_in(node):
        check_constants(node, values)
    condition = node.input_value(0)
    a, b = (_cut(node, values, i) for i in (1, 2))
    kind = node.get_output_element_type(0).get_type_name()
    return Replacement(cast(choose(condition, a, b), kind, bounds))


def _is_stand_in(node: ov.Node) -> bool:
    """Tell whether the result of a Select is only reduced to its maximum or minimum.

    Models select the end of int64 for elements to ignore. Cut to 32 bits it still loses against
    every number; `_extreme` flags it if there are no others.
    """
    readers = [each.get_node().get_type_name() for each in node.output(0).get_target_inputs()]
    return bool(readers) and set(readers) <= _EXTREMES.keys()


def _cut(node: ov.Node, values: Values, i: int) -> ov.Output:
    """Give an input as int32, with an end of int32 in place of a number beyond it."""
    given, bounds = node.input_value(i), values.bounds(node, i)
    if is_within(bounds, INT32):
        return as_int32(given)
    if bounds[0] != bounds[1]:
        check_constants(node, values)
    end = int32(INT32[bounds[0] > 0])
    return op.broadcast(end, op.shape_of(given)).output(0)


def to_boolean(node: ov.Node, values: Values) -> Replacement | None:
    """Convert to boolean by a comparison with 0: the plugin converts -2**31 to false."""
    if values.bounds(node, 0)[0] > INT32[0]:
        return None
    return Replacement(op.not_equal(as_int32(node.input_value(0)), int32(0)).output(0))


RULES: Sequence[Rule[MakeExact]] = (
    Rule("comparing", " ".join(_COMPARE), _compared),
    Rule("the_greatest", " ".join(_EXTREMES), _extreme),
    Rule("limits", "Ceiling Floor", _drop_rounding),
    Rule("fused_selections", "Maximum Minimum", _limited),
    Rule("limits", "Clamp", _clamped),
    Rule("limits", "Relu", _relu),
    Rule("fused_selections", "Select", _chosen),
)
