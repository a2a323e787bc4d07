"""What a rule makes of one operation on integers, and the operations that it is made of.

The CPU plugin computes these exactly with int32, wrapping around: Add, Subtract, Multiply,
Negative, CumSum, bitwise And, Or and Xor; comparisons with numbers below 2**24; Maximum, Minimum
and Select where it does not fuse them with an operation in front that it computes as float32
(`FUSED`), since it then computes both so. Shifts to the right are exact too, but take 0.3 us
an element. Measured with OpenVINO 2026.4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.errors import LoadFailed
from ie_serving.core.hints import Hint
from ie_serving.engines.openvino.integers.bounds import HELD, INT32, WIDE, Bounds, Values

Operand: TypeAlias = "ov.Node | ov.Output"

FUSED = frozenset(
    {
        *("Abs", "Clamp", "Divide", "FloorMod", "Maximum", "Minimum", "Mod", "Negative", "Power"),
        *("Relu", "Select", "Sign"),
    }
)
"""Operations behind which Maximum and Minimum may be computed as float32. Maximum and Minimum are
among them because both together become a Clamp, which is."""


@dataclass(frozen=True)
class Made:
    """What takes the place of an operation.

    Attributes:
        output: in place of the operation's own, of the same element type; None where that stays.
        faults: what was wrong with a request, and where: booleans of any shape.
    """

    output: ov.Output | None
    faults: Sequence[tuple[str, Operand]] = ()


Rule = Callable[[ov.Node, Values], Made | None]
"""Gives None for an operation that is exact as it stands."""


def kind_of(node: ov.Node) -> str:
    """Name the element type of an operation's first input."""
    return str(node.get_input_element_type(0).get_type_name())


def number(value: int) -> ov.Node:
    """Give an int32 constant."""
    return op.constant(np.array(value, np.int32))


def as_int32(output: ov.Output) -> ov.Output:
    """Give the values as int32, which all that are held fit into."""
    if output.get_element_type().get_type_name() == "i32":
        return output
    return op.convert(output, "i32").output(0)


def operands(node: ov.Node) -> list[ov.Output]:
    """Give the inputs of an operation as int32."""
    return [as_int32(node.input_value(i)) for i in range(node.get_input_size())]


def apart(output: Operand) -> ov.Output:
    """Keep the plugin from fusing what reads this with what gives it: a bitwise Or is not fused."""
    given = output if isinstance(output, ov.Output) else output.output(0)
    return op.bitwise_or(given, number(0)).output(0) if is_fused(given) else given


def is_fused(output: ov.Output) -> bool:
    """Tell whether an operation may be fused with what gives it this input."""
    node = output.get_node()
    while node.get_type_name() == "Convert":  # between integers it does nothing, and goes
        node = node.input_value(0).get_node()
    return node.get_type_name() in FUSED


def least(a: Operand, b: Operand) -> ov.Node:
    """Give the lesser of two."""
    return op.minimum(apart(a), apart(b))


def greatest(a: Operand, b: Operand) -> ov.Node:
    """Give the greater of two."""
    return op.maximum(apart(a), apart(b))


def choose(condition: Operand, a: Operand, b: Operand) -> ov.Node:
    """Give `a` where the condition holds, else `b`: by their bits, which no fusion rounds."""
    mask = op.select(condition, number(-1), number(0))
    return op.bitwise_xor(b, op.bitwise_and(op.bitwise_xor(a, b), mask))


def equal(a: Operand, b: Operand) -> ov.Node:
    """Compare exactly: as float32 only 0 is 0."""
    return op.equal(op.bitwise_xor(a, b), number(0))


def is_negative(value: Operand) -> ov.Node:
    """Tell by the sign, which no rounding changes."""
    return op.less(value, number(0))


def one_if(condition: Operand) -> ov.Node:
    """Give 1 where a condition holds, else 0."""
    return op.select(condition, number(1), number(0))


def cast(value: Operand, kind: str, found: Bounds) -> ov.Output:
    """Convert int32 to an element type; narrow ones wrap around where `found` leaves them.

    The plugin itself would let i8 and u8 saturate, and keep 32 bits of i16 and u16.
    """
    low, high = HELD[kind]
    node = value if isinstance(value, ov.Output) else value.output(0)
    if kind == "i32":
        return node
    if kind not in WIDE and not (low <= found[0] and found[1] <= high):
        mask = number(high - low)
        wrapped = op.bitwise_and(op.subtract(node, number(low)), mask)
        node = op.add(wrapped, number(low)).output(0)
    return op.convert(node, kind).output(0)


def is_within(found: Bounds | None, limits: Bounds) -> bool:
    """Tell whether values are known to lie within limits."""
    return found is not None and limits[0] <= found[0] and found[1] <= limits[1]


def check_constants(node: ov.Node, values: Values, numbers: Sequence[int] | None = None) -> None:
    """Refuse constants that the plugin cuts, where they are computed with.

    Args:
        node: the operation.
        values: of its graph.
        numbers: of the inputs that are computed with; None for all.

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
    """Refuse an operation that nothing here makes exact.

    Raises:
        LoadFailed: naming it.
    """
    hint = Hint("; set {openvino.integers} to fast to serve it as it is")
    raise LoadFailed(f"OpenVINO does not compute {named(node)} exactly{hint}")


def leaves(node: ov.Node) -> str:
    """Say that results do not fit into 32 bits."""
    return (
        f"{named(node)} gives numbers that do not fit into 32 bits, in which OpenVINO computes:"
        " send smaller ones"
    )


def named(node: ov.Node) -> str:
    """Name an operation on integers."""
    name = node.get_type_name()
    chosen = node.get_input_element_type(1 if name == "Select" else 0).get_type_name()
    return f'{name} "{node.get_friendly_name()}" of {chosen}'
