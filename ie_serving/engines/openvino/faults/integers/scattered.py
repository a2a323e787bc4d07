"""Flags scatter and segment sums that leave 32 bits.

The plugin adds exactly in int32, wrapping around (measured with OpenVINO 2026.4). Three more sums,
each of 11 bits of every number, show whether a 64-bit sum leaves 32 bits: none of the three leaves
int32 with fewer than 2**20 numbers, and with their carries they give the whole sum.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import (
    HELD,
    INT32,
    WIDE,
    Values,
    count_of,
    is_within,
)
from ie_serving.engines.openvino.faults.integers.moving import moved
from ie_serving.engines.openvino.faults.integers.rule import (
    Exact,
    Made,
    check_constants,
    kind_of,
    leaves,
    refuse,
)
from ie_serving.engines.openvino.faults.integers.steps import as_int32, cast
from ie_serving.engines.openvino.graphs.constants import Operand, int32, int64
from ie_serving.engines.openvino.graphs.rules import Rule

_BITS = 11
_LOWEST_BITS = (1 << _BITS) - 1
_HIGHEST = 1 << (31 - 2 * _BITS)
"""Bound of the highest piece of an int32, which includes the sign."""
_MOST_NUMBERS = 1 << 20
"""Number of 11-bit numbers whose sum may leave int32; from it on the request is refused."""

_Values = Sequence[Operand]
_Sum = Callable[[ov.Node, _Values], ov.Node]
"""Adds other values than those of an operation by the operation's indices."""


def _in_rows(node: ov.Node, values: _Values) -> ov.Node:
    kept = node.get_attributes()
    return op.scatter_nd_update(values[0], node.input_value(1), values[1], kept["reduction"])


def _in_elements(node: ov.Node, values: _Values) -> ov.Node:
    kept, indices, axis = node.get_attributes(), node.input_value(1), node.input_value(3)
    return op.scatter_elements_update(
        values[0], indices, values[1], axis, kept["reduction"], kept["use_init_val"]
    )


def _of_segments(node: ov.Node, values: _Values) -> ov.Node:
    others = [node.input_value(i) for i in range(1, node.get_input_size())]
    return op.embedding_segments_sum(values[0], *others)


_SUMS: Final[Mapping[str, tuple[_Sum, Sequence[int], int]]] = {
    "EmbeddingSegmentsSum": (_of_segments, (0,), 1),
    "ScatterElementsUpdate": (_in_elements, (0, 2), 2),
    "ScatterNDUpdate": (_in_rows, (0, 2), 2),
}
"""By operation: how it adds, the inputs it adds, and the input whose number of elements, plus one,
bounds how many numbers one sum has."""
_EXACT = frozenset({"none", "min", "max"})
_WEIGHTED = 6
"""Number of inputs of an `EmbeddingSegmentsSum` with weights."""


def gathered(node: ov.Node, values: Values) -> Made | None:
    """Flag or wrap sums that leave their type; refuse reductions other than sums and extremes."""
    is_sum = node.get_type_name() == "EmbeddingSegmentsSum"
    reduction = node.get_attributes().get("reduction", "sum" if is_sum else "none")
    if reduction in _EXACT:
        return moved(node, values)
    if reduction not in ("sum", "sub") or node.get_input_size() == _WEIGHTED:
        refuse(node)
    kind = kind_of(node)
    if kind == "i32" or _stays(node, values):
        return None
    check_constants(node, values)
    add_up, summed, _ = _SUMS[node.get_type_name()]
    given = [as_int32(node.input_value(i)) for i in summed]
    if kind not in WIDE:
        return Made(cast(add_up(node, given), kind, INT32))
    return Made(None, [(leaves(node), _leaves(node, given))])


def _stays(node: ov.Node, values: Values) -> bool:
    """Tell whether sums are known to fit into their type."""
    _, summed, counted = _SUMS[node.get_type_name()]
    most = max(abs(end) for i in summed for end in values.bounds(node, i))
    # One more for the number that the data already has at the index.
    count = count_of(node.get_input_partial_shape(counted)) + 1
    least = -most * count if _has_negative(node, values) else 0
    return is_within((least, most * count), HELD[kind_of(node)])


def _has_negative(node: ov.Node, values: Values) -> bool:
    _, summed, _ = _SUMS[node.get_type_name()]
    below = any(values.bounds(node, i)[0] < 0 for i in summed)
    return below or node.get_attributes().get("reduction") == "sub"


def _leaves(node: ov.Node, given: _Values) -> ov.Node:
    """Give for each sum whether 32 bits cannot hold it."""
    add_up, _, counted = _SUMS[node.get_type_name()]
    by_place = zip(*(_pieces(each) for each in given), strict=True)
    low, middle, high = (add_up(node, list(pieces)) for pieces in by_place)
    high = op.add(high, _above(op.add(middle, _above(low, _BITS)), _BITS))
    low_bits = op.less(high, int32(0 if HELD[kind_of(node)][0] == 0 else -_HIGHEST))
    left = op.logical_or(low_bits, op.greater(high, int32(_HIGHEST - 1)))
    if count_of(node.get_input_partial_shape(counted)) + 1 < _MOST_NUMBERS:
        return left
    sizes = op.shape_of(node.input_value(counted), "i32")
    count = op.reduce_prod(sizes, int64([0]), False)
    return op.logical_or(left, op.greater(count, int32(_MOST_NUMBERS - 2)))


def _pieces(value: Operand) -> list[ov.Node]:
    """Cut int32 into its lowest 11 bits, the next 11, and the rest with the sign."""
    lowest = int32(_LOWEST_BITS)
    middle = op.bitwise_and(_above(value, _BITS), lowest)
    return [op.bitwise_and(value, lowest), middle, _above(value, 2 * _BITS)]


def _above(value: Operand, bits: int) -> ov.Node:
    return op.bitwise_right_shift(value, int32(bits))


RULES: Sequence[Rule[Exact]] = (Rule("scattered_sums norms", " ".join(_SUMS), gathered),)
