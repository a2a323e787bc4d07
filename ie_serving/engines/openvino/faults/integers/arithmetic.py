"""Makes the arithmetic of integers wrap around and divide as in TensorFlow, or flags it.

The plugin computes sums, products and powers exactly in int32, which wraps around. `rule.cast`
makes results of 8 and 16 bits wrap too: by default the plugin lets 8 bits saturate and continues 16
bits as 32. For 64 bits, and unsigned 32, results that int32 cannot hold are flagged:

- A sum left 32 bits if its sign differs from those of both summands; a difference likewise.
- A product left 32 bits if it differs from the product as float32 by more than 2**31: wrapping
  changes it by at least 2**32, rounding by at most 2**10, or by less than the excess.

Quotients and remainders take steps that are exact in int32, since the plugin divides integers as
float32: `D(a, b)` is the quotient of the rounded numbers, rounded, and truncated to an integer
(measured: never anything else). With n = -|a| and d = -|b|, which exist for -2**31 too, these steps
make it exact for any a and any b but 0:

1. q = D(D(n, 2), d), near x = n / 2d. Four roundings, by 2**-24 each, and the halving of an odd
   number let q be at most (x + 1/2) * (1 + 2**-21.9), and less than x by x * 2**-21.9 + 2 at most.
   m = q - D(q, 2**20) - min(q, 1) is at most x: below 2**20 the last term outweighs 1/2 and the
   roundings, above it the second does, which is at least q * 2**-21.
   So 2m is at most the quotient n / d, less by 2**11.3 + 8 at most, and fits into 31 bits.
2. r = n - 2m * d lies between n and 0, and r / d below 2**12. There a rounded quotient is wrong by
   less than 0.01, so that D(r, d) is at most 1 too large, or 1 too small: t = max(D(r, d) - 1, 0)
   is at most the quotient, and at most 2 too small.
3. r - t * d lies between 3d and 0. Where it is at most d, t was too small; so twice.

All products and differences lie between n and 0, so nothing wraps around but a quotient of 2**31.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import (
    CONVERTS,
    HELD,
    INT32,
    MOST,
    WIDE,
    Bounds,
    Values,
    is_small,
    is_within,
)
from ie_serving.engines.openvino.faults.integers.comparing import to_boolean
from ie_serving.engines.openvino.faults.integers.rule import (
    MakeExact,
    Replacement,
    as_int32,
    cast,
    check_constants,
    choose,
    equal,
    greatest,
    is_negative,
    kind_of,
    least,
    leaves,
    named,
    one_if,
    operands,
)
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int32
from ie_serving.engines.openvino.graphs.rules import Rule

Computed = tuple[Operand, Operand]
"""A result in int32, and whether the true result left 32 bits."""


def added(a: Operand, b: Operand) -> Computed:
    """Add."""
    found = op.add(a, b)
    return found, is_negative(op.bitwise_and(op.bitwise_xor(a, found), op.bitwise_xor(b, found)))


def _subtracted(a: Operand, b: Operand) -> Computed:
    found = op.subtract(a, b)
    return found, is_negative(op.bitwise_and(op.bitwise_xor(a, b), op.bitwise_xor(a, found)))


def multiplied(a: Operand, b: Operand) -> Computed:
    """Multiply."""
    found = op.multiply(a, b)
    rough = op.multiply(op.convert(a, "f32"), op.convert(b, "f32"))
    near = op.abs(op.subtract(op.convert(found, "f32"), rough))
    # NaN, which float16 may give, counts as not near.
    return found, op.logical_not(op.less_equal(near, float32(2.0**31)))


def _squared(a: Operand, b: Operand) -> Computed:
    apart, left = _subtracted(a, b)
    found, left_too = multiplied(apart, apart)
    return found, op.logical_or(left, left_too)


def _absolute(a: Operand) -> Computed:
    return op.abs(a), equal(a, int32(INT32[0]))


def _negated(a: Operand) -> Computed:
    return op.negative(a), equal(a, int32(INT32[0]))


def _shifted(a: Operand, b: Operand) -> Computed:
    found = op.bitwise_left_shift(a, b)
    # A number that lost bits to the left differs from the original after the shift back.
    back = op.logical_not(equal(op.bitwise_right_shift(found, b), a))
    beyond = op.logical_or(is_negative(b), op.greater(b, int32(31)))
    return found, op.logical_or(back, beyond)


_COMPUTE: Final[Mapping[str, Callable[..., Computed]]] = {
    "Abs": _absolute,
    "Add": added,
    "BitwiseLeftShift": _shifted,
    "Multiply": multiplied,
    "Negative": _negated,
    "SquaredDifference": _squared,
    "Subtract": _subtracted,
}
_LARGE = WIDE | {"i32"}
"""Element types with integers that float32 does not hold exactly."""
COMPUTED = tuple(_COMPUTE)
"""Operations that `computed` knows."""


def _computed(node: ov.Node, values: Values) -> Replacement | None:
    """Make narrow results wrap around; flag wide ones that 32 bits cannot hold."""
    kind = kind_of(node)
    found_in = values.unwrapped(node)
    check_constants(node, values)
    if kind == "i32" or (is_within(found_in, HELD[kind]) and kind not in BYTES):
        return None
    made = result(node, _COMPUTE[node.get_type_name()](*operands(node)))
    return replace(made, by_element=True)


def result(node: ov.Node, made: Computed) -> Replacement:
    """Give the replacement of an operation's result, flagged where it left 32 bits."""
    kind, (found, left) = kind_of(node), made
    if kind not in WIDE:
        return Replacement(cast(found, kind, INT32))
    # The plugin holds unsigned types up to 2**31 - 1: a negative result left that range.
    if HELD[kind][0] == 0:
        left = op.logical_or(left, is_negative(found))
    return Replacement(cast(found, kind, INT32), [(leaves(node), left)])


MOST_POWER = 31
"""Largest exponent that a request may send, beyond which no power of 2 fits; others are refused."""


def _powered(node: ov.Node, values: Values) -> Replacement | None:
    """Compute the power by repeated squaring over the bits of the exponent."""
    check_constants(node, values)
    base, exponent = operands(node)
    low, high = values.bounds(node, 1)
    zeros = op.bitwise_and(op.add(base, exponent), int32(0))  # of the shape of the result
    found: Operand = op.add(zeros, int32(1))
    left: Operand = is_negative(zeros)
    square: Operand = base
    for bit in range(min(high, MOST_POWER).bit_length()):
        bits = op.bitwise_and(exponent, int32(1 << bit))
        more = op.greater(exponent, int32((1 << bit) - 1))
        if bit:
            square, beyond = multiplied(square, square)
            # A square is used only where the exponent has this bit or a higher one.
            left = op.logical_or(left, op.logical_and(beyond, more))
        factor = choose(op.greater(bits, int32(0)), square, int32(1))
        found, beyond = multiplied(found, factor)
        left = op.logical_or(left, beyond)
    made = result(node, (found, left))
    if low >= 0 and high <= MOST_POWER:
        return made
    wrong = op.logical_or(is_negative(exponent), op.greater(exponent, int32(MOST_POWER)))
    cause = f"{named(node)} has an exponent that is not from 0 to {MOST_POWER}: send one that is"
    return Replacement(made.output, [*made.faults, (cause, wrong)])


def _converted(node: ov.Node, values: Values) -> Replacement | None:
    """Flag values that 32 bits cannot hold, and wrap those that a narrow target type cannot."""
    kind = str(node.get_output_element_type(0).get_type_name())
    if node.get_input_element_type(0).is_real():
        return _from_real(node, kind)
    if kind == "boolean":
        return to_boolean(node, values)
    if kind == "f64":
        return _to_double(node, values)
    if kind not in HELD or is_within(values.bounds(node, 0), HELD[kind]):
        return None
    check_constants(node, values, [0])
    given = as_int32(node.input_value(0))
    if kind in WIDE:
        return Replacement(None, [(leaves(node), is_negative(given))], by_element=True)
    return Replacement(cast(given, kind, INT32))


def _to_double(node: ov.Node, values: Values) -> Replacement | None:
    """Flag integers that the plugin rounds, since it computes doubles as float32."""
    if is_small(values.bounds(node, 0)):
        return None
    check_constants(node, values, [0])
    given = as_int32(node.input_value(0))
    # Exact in float32: at most 2**24 times the lowest set bit, which is negative for -2**31.
    lowest = op.bitwise_and(given, op.negative(given))
    top = op.bitwise_right_shift(op.subtract(op.abs(given), int32(1)), int32(24))
    rounded = op.logical_and(op.greater_equal(top, lowest), op.greater(lowest, int32(0)))
    return Replacement(None, [(_rounded(node), rounded)], by_element=True)


def _rounded(node: ov.Node) -> str:
    return (
        f"{named(node)} meets numbers beyond {MOST} that float32 does not hold, in which OpenVINO"
        " computes float64: send smaller ones"
    )


def _from_real(node: ov.Node, kind: str) -> Replacement | None:
    """Flag reals that 32 bits cannot hold, NaN too, and doubles that may have been rounded."""
    is_double = kind_of(node) == "f64" and kind in _LARGE
    if not is_double and kind not in WIDE:
        return None
    cause, most = (_rounded(node), 2.0**24) if is_double else (leaves(node), 2.0**31)
    below = -most if is_double else -most - 256  # the float32 below -2**31
    fits = _between(node.input_value(0), -1.0 if HELD[kind][0] == 0 else below, most)
    return Replacement(None, [(cause, op.logical_not(fits))], by_element=True)


def _between(output: ov.Output, low: float, high: float) -> ov.Node:
    given = op.convert(output, "f32")
    above = op.greater(given, float32(low))
    return op.logical_and(above, op.less(given, float32(high)))


RULES: Sequence[Rule[MakeExact]] = (
    Rule("arithmetic_of_64_bits arithmetic_of_8_bits", " ".join(COMPUTED), _computed),
    Rule(
        "booleans from_doubles reals_to_64_bits to_16_bits to_doubles",
        " ".join(CONVERTS),
        _converted,
    ),
    Rule("powers", "Power", _powered),
)

BYTES = frozenset({"i8", "u8"})
"""Element types whose quotients the plugin may round instead of truncating them."""
_SHRUNK = 1 << 20
"""Divisor of the first quotient: the part by which step 1 makes that quotient smaller, so that the
plugin's roundings never leave it above the exact one."""


def _divided(node: ov.Node, values: Values) -> Replacement | None:
    """Divide exactly, and flag a divisor of 0, which TensorFlow refuses too.

    Quotients are truncated, not rounded down, as in TensorFlow, ONNX and the plugin.
    """
    check_constants(node, values)
    bounds = [values.bounds(node, i) for i in range(2)]
    small = all(map(is_small, bounds))
    kind, (a, b) = kind_of(node), operands(node)
    faults: list[tuple[str, Operand]] = []
    if bounds[1][0] <= 0 <= bounds[1][1]:
        cause = f"Integer division by zero in {named(node)}: send other divisors"
        faults.append((cause, op.equal(b, int32(0))))
    if kind in WIDE and node.get_type_name() == "Divide" and _may_leave(bounds):
        both = op.logical_and(equal(a, int32(INT32[0])), op.equal(b, int32(-1)))
        faults.append((leaves(node), both))
    if kind not in BYTES and small:
        return Replacement(None, faults) if faults else None
    found = _PARTS[node.get_type_name()](a, b, small)
    return Replacement(cast(found, kind, INT32), faults)


def _may_leave(bounds: list[Bounds]) -> bool:
    # -2**31 by -1 is the only quotient that int32 does not hold.
    return bounds[0][0] == INT32[0] and bounds[1][0] <= -1 <= bounds[1][1]


def quotient(a: ov.Output, b: ov.Output, small: bool) -> ov.Node:
    """Divide int32 by int32, and truncate."""
    if small:
        return op.divide(a, b)
    found, _ = _magnitudes(a, b)
    return op.multiply(found, op.multiply(op.sign(a), op.sign(b)))


def _remainder(a: ov.Output, b: ov.Output, small: bool) -> ov.Node:
    """Give the remainder of a truncated quotient, which has the sign of `a`."""
    if small:
        return op.mod(a, b)
    _, left = _magnitudes(a, b)
    return op.multiply(left, op.negative(op.sign(a)))


def _floor_remainder(a: ov.Output, b: ov.Output, small: bool) -> ov.Node:
    """Give the remainder of a quotient rounded down, which has the sign of `b`."""
    if small:
        return op.floor_mod(a, b)
    left = _remainder(a, b, small)
    # The signs differ and the remainder is not 0.
    differs = op.logical_and(is_negative(op.bitwise_xor(left, b)), op.not_equal(left, int32(0)))
    return op.add(left, op.multiply(b, one_if(differs)))


_PARTS: Final[Mapping[str, Callable[[ov.Output, ov.Output, bool], ov.Node]]] = {
    "Divide": quotient,
    "Mod": _remainder,
    "FloorMod": _floor_remainder,
}


def _magnitudes(a: ov.Output, b: ov.Output) -> tuple[ov.Node, ov.Node]:
    """Give |a| // |b|, and the negated remainder, from -|b| + 1 to 0."""
    n, d = (least(each, op.negative(each)) for each in (a, b))
    rough = op.divide(op.divide(n, int32(2)), d)
    less = op.subtract(rough, op.divide(rough, int32(_SHRUNK)))
    half = op.subtract(less, op.minimum(rough, int32(1)))
    first = op.add(half, half)
    left = op.subtract(n, op.multiply(first, d))
    second = op.maximum(op.subtract(op.divide(left, d), int32(1)), int32(0))
    left = op.subtract(left, op.multiply(second, d))
    found = op.add(first, second)
    for _ in range(2):
        short = one_if(equal(greatest(left, d), d))  # left <= d
        found, left = op.add(found, short), op.subtract(left, op.multiply(short, d))
    return found, left


DIVISION_RULES: Sequence[Rule[MakeExact]] = (Rule("dividing", " ".join(_PARTS), _divided),)
