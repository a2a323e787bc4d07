"""What rules for integer operations are made of: replacements, refusals, and exact operations.

Replacements are built of int32 operations that the plugin computes exactly. Those are, wrapping
around: Add, Subtract, Multiply, Negative, CumSum, bitwise And, Or and Xor; comparisons with numbers
below 2**24; Maximum, Minimum and Select unless the plugin fuses them with a preceding operation
that it computes as float32 (`FUSED`), since it then does both in float32. Shifts to the right are
exact too, but take 0.3 us an element. Measured with OpenVINO 2026.4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.openvino.faults.integers.bounds import (
    CONVERTS,
    HELD,
    INT32,
    WIDE,
    Bounds,
    Values,
    is_within,
)
from ie_serving.engines.openvino.graphs.constants import Operand, int32, output_of
from ie_serving.engines.openvino.graphs.walk import title


@dataclass(frozen=True)
class Replacement:
    """The replacement of an operation.

    Attributes:
        output: replaces the operation's output, with the same element type; None keeps it.
        faults: messages, each with booleans of any shape: true refuses the request.
        by_element: whether each boolean concerns only the element of the output at its index.
    """

    output: ov.Output | None
    faults: Sequence[tuple[str, Operand]] = ()
    by_element: bool = False


MakeExact: TypeAlias = "Callable[[ov.Node, Values], Replacement | None]"
"""Makes an operation exact; gives None if it is exact already."""


def kind_of(node: ov.Node) -> str:
    """Name the element type of an operation's first input."""
    return str(node.get_input_element_type(0).get_type_name())


def check_constants(node: ov.Node, values: Values, numbers: Sequence[int] | None = None) -> None:
    """Refuse an operation that computes with constants that the plugin cuts to 32 bits.

    Args:
        node: the operation.
        values: values of its graph.
        numbers: numbers of the inputs that the operation computes with; None for all.

    Raises:
        LoadFailed: naming the operation.
    """
    if numbers is None:
        numbers = range(node.get_input_size())
    each = [values.of(node.input_value(i)).bounds for i in numbers]
    if not all(bounds is None or is_within(bounds, INT32) for bounds in each):
        hint = Hint("; set {openvino.integers} to fast to have it cut")
        raise LoadFailed(
            f"{named(node)} computes with a constant that does not fit into 32 bits, in which"
            f" OpenVINO computes{hint}"
        )


def refuse(node: ov.Node, _values: Values | None = None) -> NoReturn:
    """Refuse an operation that has no exact replacement.

    Raises:
        LoadFailed: naming it.
    """
    hint = Hint("; set {openvino.integers} to fast to serve it as it is")
    raise LoadFailed(f"OpenVINO does not compute {named(node)} exactly{hint}")


def leaves(node: ov.Node) -> str:
    """Give the message that results do not fit into 32 bits."""
    return (
        f"{named(node)} gives numbers that do not fit into 32 bits, in which OpenVINO computes:"
        " send smaller ones"
    )


def named(node: ov.Node) -> str:
    """Name an operation and the element type of its input."""
    number = 1 if node.get_type_name() == "Select" else 0
    return f"{title(node)} of {node.get_input_element_type(number).get_type_name()}"


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
