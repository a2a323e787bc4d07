"""Makes sums, means and products of many integers exact; the plugin reduces in float32.

A cumulative sum, however, is exact in int32 and wraps around: a sum is the last of the cumulative
sums of a row, and a mean the quotient of that. For 64-bit and unsigned types each step is checked
like an addition: a request is refused if a partial sum leaves 32 bits.

Estimates use integers, since the plugin may compute reals in 16 bits.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.arithmetic import added, result
from ie_serving.engines.openvino.faults.integers.bounds import (
    HELD,
    MOST,
    WIDE,
    Values,
    is_small,
    is_within,
    sum_of,
)
from ie_serving.engines.openvino.faults.integers.dividing import quotient
from ie_serving.engines.openvino.faults.integers.rule import (
    Exact,
    Made,
    check_constants,
    kind_of,
    leaves,
    named,
)
from ie_serving.engines.openvino.faults.integers.steps import (
    as_int32,
    cast,
    is_negative,
    least,
    sealed,
)
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int32, int64, known_input
from ie_serving.engines.openvino.graphs.rules import Rule

_LARGE_PRODUCT = 2.0**30
"""Half of int32's range, since the product is estimated in reals."""
_FACTORS = 1 << 16
"""Largest product of two factors up to which a MatMul whose results become floats is left to the
plugin: the factors of quantized models have 8 bits."""


def _cumulated(node: ov.Node, values: Values) -> Made | None:
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


def _summed(node: ov.Node, values: Values, *, mean: bool = False) -> Made | None:
    """Sum along one axis after the other; for a mean, divide by the count unless it is 0."""
    found = sum_of(node, values.bounds(node, 0))
    kind = kind_of(node)
    if is_small(found) and (mean or is_within(found, HELD[kind])):
        return None
    check_constants(node, values)
    axes = _axes(node)
    if axes is None:
        return Made(None, [_rounded(node)])
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
    return Made(cast(total, kind, HELD["i32"]), faults)


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
    more = [int(place == axis) for place in range(len(shape))]
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


def _matrix(node: ov.Node, values: Values) -> Made | None:
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


def _einsum(node: ov.Node, values: Values) -> Made:
    """Flag an Einsum as a MatMul, into which the plugin converts it."""
    given = [_less_magnitude(each) for each in node.input_values()]
    return _if_exact(node, values, op.einsum(given, node.get_attributes()["equation"]))


def _magnitudes(node: ov.Node, values: Values) -> Made | None:
    """Flag sums of magnitudes that may have been rounded; narrow ones wrap around."""
    kind, found = kind_of(node), sum_of(node, values.bounds(node, 0))
    of_few_bits = kind not in WIDE | {"i32"}
    most = max(map(abs, found))
    if is_small(found) and not (of_few_bits and most > HELD[kind][1]):
        return None
    check_constants(node, values)
    faults = [] if is_small(found) else [_rounded(node)]
    if not of_few_bits:
        return Made(None, faults)
    given, keeps = as_int32(node.input_value(0)), bool(node.get_attributes()["keep_dims"])
    total = op.reduce_l1(given, node.input_value(1), keeps)
    return Made(cast(total, kind, HELD["i32"]), faults)


def _if_exact(node: ov.Node, values: Values, sums: ov.Node) -> Made:
    check_constants(node, values)
    most = int32(_most(node))
    # With an odd number of factors the sums are negative. Beyond int32 they are its least number.
    wrong = op.logical_or(op.greater(sums, most), op.less(sums, op.negative(most)))
    return Made(None, [(_too_large(node), wrong)])


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


def _product(node: ov.Node, values: Values) -> Made | None:
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
        return Made(output)
    rough = op.abs(op.reduce_prod(op.convert(given, "f32"), axes, keeps))
    limit = float32(_LARGE_PRODUCT)
    return Made(output, [(leaves(node), op.logical_not(op.less(rough, limit)))])


RULES: Sequence[Rule[Exact]] = (
    Rule("arithmetic_of_64_bits", "CumSum", _cumulated),
    Rule("products", "Einsum", _einsum),
    Rule("products", "MatMul", _matrix),
    Rule("products arithmetic_of_8_bits", "ReduceL1", _magnitudes),
    Rule("sums", "ReduceMean", partial(_summed, mean=True)),
    Rule("arithmetic_of_64_bits arithmetic_behind", "ReduceProd", _product),
    Rule("sums", "ReduceSum", _summed),
)
