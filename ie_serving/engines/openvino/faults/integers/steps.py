"""Building blocks of exact replacements: int32 operations that the plugin computes exactly.

Those are, wrapping around: Add, Subtract, Multiply, Negative, CumSum, bitwise And, Or and Xor;
comparisons with numbers below 2**24; Maximum, Minimum and Select unless the plugin fuses them with
a preceding operation that it computes as float32 (`FUSED`), since it then does both in float32.
Shifts to the right are exact too, but take 0.3 us an element. Measured with OpenVINO 2026.4.
"""

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import (
    CONVERTS,
    HELD,
    WIDE,
    Bounds,
    is_within,
)
from ie_serving.engines.openvino.graphs.constants import Operand, int32, output_of

FUSED = frozenset(
    {
        *("Abs", "Clamp", "Divide", "FloorMod", "Maximum", "Minimum", "Mod", "Negative", "Power"),
        *("Relu", "Select", "Sign"),
    }
)
"""Operations after which Maximum and Minimum may be computed as float32. Maximum and Minimum are
among them because the two together become a Clamp, which is computed as float32."""
LOWEST = 255
"""Mask of the lowest 8 bits of an integer."""


def as_int32(output: ov.Output) -> ov.Output:
    """Give the values as int32, which holds all values that the plugin keeps."""
    if output.get_element_type().get_type_name() == "i32":
        return output
    return op.convert(output, "i32").output(0)


def operands(node: ov.Node) -> list[ov.Output]:
    """Give the inputs of an operation as int32."""
    return [as_int32(each) for each in node.input_values()]


def sealed(value: Operand) -> ov.Output:
    """Put a bitwise Or between a value and its readers, so that the plugin does not fuse them."""
    given = output_of(value)
    zero = ov.op.Constant(given.get_element_type(), ov.Shape(), [0])
    return op.bitwise_or(given, zero).output(0)


def is_fused(output: ov.Output) -> bool:
    """Tell whether a reader of this output may be fused with the operation that computes it."""
    node = output.get_node()
    while node.get_type_name() in CONVERTS:  # between integers the plugin removes it
        node = node.input_value(0).get_node()
    return node.get_type_name() in FUSED


def _unfused(value: Operand) -> Operand:
    return sealed(value) if is_fused(output_of(value)) else value


def least(a: Operand, b: Operand) -> ov.Node:
    """Give the elementwise minimum."""
    return op.minimum(_unfused(a), _unfused(b))


def greatest(a: Operand, b: Operand) -> ov.Node:
    """Give the elementwise maximum."""
    return op.maximum(_unfused(a), _unfused(b))


def choose(condition: Operand, a: Operand, b: Operand) -> ov.Node:
    """Give `a` where the condition holds, else `b`, by bit masks, which no fusion rounds."""
    mask = op.select(condition, int32(-1), int32(0))
    return op.bitwise_xor(op.bitwise_and(op.bitwise_xor(a, b), mask), b)


def in_parts(value: Operand) -> tuple[ov.Node, ov.Node]:
    """Split numbers into all but the lowest 8 bits, and those bits: both are exact in float32."""
    return op.bitwise_and(value, int32(~LOWEST)), op.bitwise_and(value, int32(LOWEST))


def equal(a: Operand, b: Operand) -> ov.Node:
    """Compare the difference in bits with 0: no other integer rounds to 0 in float32."""
    return op.equal(op.bitwise_xor(a, b), int32(0))


def is_negative(value: Operand) -> ov.Node:
    """Give whether numbers are negative; rounding does not change the sign."""
    return op.less(value, int32(0))


def one_if(condition: Operand) -> ov.Node:
    """Give 1 where a condition holds, else 0."""
    return op.select(condition, int32(1), int32(0))


def cast(value: Operand, kind: str, found: Bounds) -> ov.Output:
    """Convert int32 to an element type; narrow ones wrap around where `found` leaves them.

    The plugin itself would let i8 and u8 saturate, and keep 32 bits of i16 and u16.
    """
    node = output_of(value)
    if kind == "i32":
        return node
    if kind not in WIDE and not is_within(found, HELD[kind]):
        low, high = HELD[kind]
        wrapped = op.bitwise_and(op.subtract(node, int32(low)), int32(high - low))
        node = op.add(wrapped, int32(low)).output(0)
    return op.convert(node, kind).output(0)
