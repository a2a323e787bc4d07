"""Makes sums, means and products of many integers exact; the plugin reduces in float32.

A cumulative sum, however, is exact in int32 and wraps around: a sum is the last of the cumulative
sums of a row, and a mean the quotient of that. For 64-bit and unsigned types each step is checked
like an addition: a request is refused if a partial sum leaves 32 bits.

Estimates use integers, since the plugin may compute reals in 16 bits.

Scatter and segment sums that leave 32 bits are flagged. The plugin adds exactly in int32, wrapping
around (measured with OpenVINO 2026.4). Three more sums, each of 11 bits of every number, show
whether a 64-bit sum leaves 32 bits: none of the three leaves int32 with fewer than 2**20 numbers,
and with their carries they give the whole sum.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.arithmetic import added, quotient, result
from ie_serving.engines.openvino.faults.integers.bounds import (
    HELD,
    INT32,
    MOST,
    WIDE,
    Values,
    count_of,
    is_small,
    is_within,
    sum_of,
)
from ie_serving.engines.openvino.faults.integers.moving import moved
from ie_serving.engines.openvino.faults.integers.rule import (
    MakeExact,
    Replacement,
    as_int32,
    cast,
    check_constants,
    is_negative,
    kind_of,
    least,
    leaves,
    named,
    refuse,
    sealed,
)
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int32, int64, known_input
from ie_serving.engines.openvino.graphs.rules import Rule

_LARGE_PRODUCT = 2.0**30
"""Half of int32's range, since the product is estimated in reals."""
_FACTORS = 1 << 16
"""Largest product of two factors up to which a MatMul whose results become floats is left to the
plugin: the factors of quantized models have 8 bits."""

_BITS = 11
_LOWEST_BITS = (1 << _BITS) - 1
_HIGHEST = 1 << (31 - 2 * _BITS)
"""Bound of the highest piece of an int32, which includes the sign."""
_MOST_NUMBERS = 1 << 20
"""Number of 11-bit numbers whose sum may leave int32; from it on the request is refused."""
_Values = Sequence[Operand]
_Sum = Callable[[ov.Node, _Values], ov.Node]
"""Adds other values than those of an operation by the operation's indices."""
_EXACT = frozenset({"none", "min", "max"})
_WEIGHTED = 6
"""Number of inputs of an `EmbeddingSegmentsSum` with weights."""


def _cumulated(node: ov.Node, values: Values) -> Replacement | None:
    """Flag a cumulative sum that leaves 32 bits: the previous sum is this one less one summand."""
    kind = kind_of(node)
    if kind == "i32" or is_within(values.unwrapped(node), HELD[kind]):
        return None
    check_constants(node, values)
    kept = node.get_attributes()
    given = as_int32(node.input_value(0))
    found = op.cum_sum(given, node.input_value(1), kept["exclusive"], kept["reverse"])
    before = found if kept["exclusive"] else op.subtract(found, given)
    return result(node, (found, added(before, given)[1]))


def _summed(node: ov.Node, values: Values, *, mean: bool = False) -> Replacement | None:
    """Sum along one axis after the other; for a mean, divide by the count unless it is 0."""
    found = sum_of(node, values.bounds(node, 0))
    kind = kind_of(node)
    if is_small(found) and (mean or is_within(found, HELD[kind])):
        return None
    check_constants(node, values)
    axes = _axes(node)
    if axes is None:
        return Replacement(None, [_rounded(node)])
    total, left = _total(node, axes)
    faults: list[tuple[str, Operand]] = []
    if mean:
        size = _count(node, axes)
        faults = [(f"{named(node)} has no numbers: send some", op.equal(size, int32(0)))]
        total = quotient(total, op.maximum(size, int32(1)).output(0), small=False).output(0)
    if kind in WIDE:
        faults.append((leaves(node), left))
    if not node.get_attributes()["keep_dims"]:
        total = op.squeeze(total, int64(axes)).output(0)
    return Replacement(cast(total, kind, HELD["i32"]), faults)


def _axes(node: ov.Node) -> list[int] | None:
    """Give the axes, counted from the front; None if not known at load."""
    axes, shape = known_input(node, 1), node.get_input_partial_shape(0)
    if axes is None or shape.rank.is_dynamic:
        return None
    return sorted({int(axis) % len(shape) for axis in axes.reshape(-1)})


def _total(node: ov.Node, axes: Sequence[int]) -> tuple[ov.Output, Operand]:
    """Give sums with the axes kept as size 1, and whether a partial sum left 32 bits."""
    given = as_int32(node.input_value(0))
    left: Operand = op.constant(np.array(False))
    for axis in axes:
        given = _filled(given, axis)
        found = op.cum_sum(given, int64(axis))
        beyond = op.reduce_logical_or(
            added(op.subtract(found, given), given)[1], int64([axis]), True
        )
        left = op.logical_or(left, beyond)
        ends = (int64([end]) for end in (-1, np.iinfo(np.int64).max, 1, axis))
        given = op.slice(found, *ends).output(0)
    # The plugin holds unsigned types up to 2**31 - 1: a negative sum left that range.
    if HELD[kind_of(node)][0] == 0:
        left = op.logical_or(left, is_negative(given))
    return given, left


def _filled(given: ov.Output, axis: int) -> ov.Output:
    """Put a 0 in front of an axis that may be empty, so that it has a last sum."""
    shape = given.get_partial_shape()
    if shape[axis].get_min_length() > 0:
        return given
    more = [int(index == axis) for index in range(len(shape))]
    return op.pad(given, int64(more), int64([0] * len(shape)), "constant", int32(0)).output(0)


def _count(node: ov.Node, axes: Sequence[int]) -> ov.Node:
    shape = op.shape_of(node.input_value(0), "i32")
    sizes = op.gather(shape, int64(list(axes)), int64(0))
    return op.reduce_prod(sizes, int64([0]), False)


def _rounded(node: ov.Node) -> tuple[str, Operand]:
    """Flag sums whose partial sums may have been rounded, by the sum of the magnitudes."""
    sums = op.reduce_sum(_less_magnitude(node.input_value(0)), node.input_value(1), False)
    return _too_large(node), op.less(sums, int32(-MOST))


def _less_magnitude(output: ov.Output) -> ov.Node:
    """Give negated magnitudes, which exist for -2**31 too."""
    given = as_int32(output)
    return least(given, op.negative(given))


def _too_large(node: ov.Node) -> str:
    return (
        f"{named(node)} adds up to more than {_most(node)}, above which OpenVINO rounds: send"
        " smaller numbers"
    )


def _matrix(node: ov.Node, values: Values) -> Replacement | None:
    """Flag matrix products whose partial sums may have been rounded, by those of the magnitudes."""
    factors = [max(map(abs, values.bounds(node, i))) for i in range(2)]
    if factors[0] * factors[1] <= _FACTORS and _becomes_real(node):
        return None
    if factors[0] * factors[1] * _added_up(node) <= _most(node):
        return None
    kept = node.get_attributes()
    a, b = (_less_magnitude(node.input_value(i)) for i in range(2))
    sums = op.matmul(a, b, kept["transpose_a"], kept["transpose_b"])
    return _if_exact(node, values, sums)


def _einsum(node: ov.Node, values: Values) -> Replacement:
    """Flag an Einsum as a MatMul, into which the plugin converts it."""
    given = [_less_magnitude(each) for each in node.input_values()]
    return _if_exact(node, values, op.einsum(given, node.get_attributes()["equation"]))


def _magnitudes(node: ov.Node, values: Values) -> Replacement | None:
    """Flag sums of magnitudes that may have been rounded; narrow ones wrap around."""
    kind, found = kind_of(node), sum_of(node, values.bounds(node, 0))
    of_few_bits = kind not in WIDE | {"i32"}
    most = max(map(abs, found))
    if is_small(found) and not (of_few_bits and most > HELD[kind][1]):
        return None
    check_constants(node, values)
    faults = [] if is_small(found) else [_rounded(node)]
    if not of_few_bits:
        return Replacement(None, faults)
    given, keeps = as_int32(node.input_value(0)), bool(node.get_attributes()["keep_dims"])
    total = op.reduce_l1(given, node.input_value(1), keeps)
    return Replacement(cast(total, kind, HELD["i32"]), faults)


def _if_exact(node: ov.Node, values: Values, sums: ov.Node) -> Replacement:
    check_constants(node, values)
    most = int32(_most(node))
    # With an odd number of factors the sums are negative. Beyond int32 they are its least number.
    wrong = op.logical_or(op.greater(sums, most), op.less(sums, op.negative(most)))
    return Replacement(None, [(_too_large(node), wrong)])


def _most(node: ov.Node) -> int:
    return min(MOST, HELD[kind_of(node)][1])


def _becomes_real(node: ov.Node) -> bool:
    """Tell whether all readers of a result convert it to floats."""
    readers = [each.get_node() for each in node.output(0).get_target_inputs()]
    return all(
        each.get_type_name() == "Convert" and each.get_output_element_type(0).is_real()
        for each in readers
    )


def _added_up(node: ov.Node) -> int:
    """Give the number of products in one sum."""
    shape = node.get_input_partial_shape(0)
    if shape.rank.is_dynamic:
        return MOST
    transposed = node.get_attributes()["transpose_a"] and len(shape) > 1
    size = shape[len(shape) - (2 if transposed else 1)]
    return int(size.get_length()) if size.is_static else MOST


def _product(node: ov.Node, values: Values) -> Replacement | None:
    """Flag 64-bit products that leave 32 bits; this also flags those above 2**30.

    Readers are kept from fusion: the plugin computes an addition or the like, fused with a product
    of int32, as float32.
    """
    check_constants(node, values)
    kind, given, axes = kind_of(node), node.input_value(0), node.input_value(1)
    keeps = bool(node.get_attributes()["keep_dims"])
    found = sealed(op.reduce_prod(as_int32(given), axes, keeps))
    output = cast(found, kind, HELD["i32"])
    if kind not in WIDE:
        return Replacement(output)
    rough = op.abs(op.reduce_prod(op.convert(given, "f32"), axes, keeps))
    limit = float32(_LARGE_PRODUCT)
    return Replacement(output, [(leaves(node), op.logical_not(op.less(rough, limit)))])


RULES: Sequence[Rule[MakeExact]] = (
    Rule("arithmetic_of_64_bits", "CumSum", _cumulated),
    Rule("products", "Einsum", _einsum),
    Rule("products", "MatMul", _matrix),
    Rule("products arithmetic_of_8_bits", "ReduceL1", _magnitudes),
    Rule("sums", "ReduceMean", partial(_summed, mean=True)),
    Rule("arithmetic_of_64_bits arithmetic_behind", "ReduceProd", _product),
    Rule("sums", "ReduceSum", _summed),
)


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
"""The sum of each operation, the inputs it adds, and the input whose number of elements, plus one,
bounds how many numbers one sum has."""


def gathered(node: ov.Node, values: Values) -> Replacement | None:
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
        return Replacement(cast(add_up(node, given), kind, INT32))
    return Replacement(None, [(leaves(node), _leaves(node, given))])


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
    by_position = zip(*(_pieces(each) for each in given), strict=True)
    low, middle, high = (add_up(node, list(pieces)) for pieces in by_position)
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


SCATTER_RULES: Sequence[Rule[MakeExact]] = (
    Rule("scattered_sums norms", " ".join(_SUMS), gathered),
)
