"""Handles bitwise operations: the plugin computes them exactly, but cuts constants to 32 bits."""

from collections.abc import Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults.integers.bounds import HELD, INT32, WIDE, Values
from ie_serving.engines.openvino.faults.integers.rule import (
    Exact,
    Made,
    check_constants,
    kind_of,
    leaves,
    refuse,
)
from ie_serving.engines.openvino.faults.integers.steps import as_int32, cast, is_negative
from ie_serving.engines.openvino.graphs.constants import Operand, int32, known_input
from ie_serving.engines.openvino.graphs.rules import Rule


def _masked(node: ov.Node, values: Values) -> Made | None:
    """Cut a constant mask to 32 bits, which gives the same for numbers that are not negative."""
    for i in range(2):
        mask, given = known_input(node, i), node.input_value(1 - i)
        if mask is not None and not _fits(mask).all():
            check_constants(node, values, [1 - i])
            return _by_lowest_bits(node, as_int32(given), mask)
    check_constants(node, values)
    return None


def _fits(mask: Array) -> Array:
    found: Array = (mask >= INT32[0]) & (mask <= INT32[1])
    return found


def _by_lowest_bits(node: ov.Node, given: Operand, mask: Array) -> Made:
    """Apply the mask's lowest 31 bits; flag negative numbers where the mask has higher bits."""
    fits = _fits(mask)
    lowest = int32(np.where(fits, mask, mask & INT32[1]))
    left = op.logical_and(is_negative(given), op.constant(~fits))
    kind = kind_of(node)
    return Made(cast(op.bitwise_and(given, lowest), kind, HELD[kind]), [(leaves(node), left)])


def _inverted(node: ov.Node, values: Values) -> Made | None:
    """Wrap u16; refuse u32 and u64, which get negative, unless the result is an output."""
    check_constants(node, values)
    kind = kind_of(node)
    if kind == "u16":
        return Made(cast(op.bitwise_not(as_int32(node.input_value(0))), kind, INT32))
    readers = [each.get_node().get_type_name() for each in node.output(0).get_target_inputs()]
    if kind in WIDE and HELD[kind][0] == 0 and set(readers) != {"Result"}:
        refuse(node)
    return None


RULES: Sequence[Rule[Exact]] = (
    Rule("wide_masks", "BitwiseOr BitwiseRightShift BitwiseXor", check_constants),
    Rule("wide_masks", "BitwiseAnd", _masked),
    Rule("inverted_bits", "BitwiseNot", _inverted),
)
