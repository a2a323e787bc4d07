"""Computes quotients and remainders of integers by steps that are exact in int32.

The plugin divides integers as float32: `D(a, b)` is the quotient of the rounded numbers, rounded,
and truncated to an integer (measured: never anything else). With n = -|a| and d = -|b|, which exist
for -2**31 too, these steps make it exact for any a and any b but 0:

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
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import INT32, WIDE, Bounds, Values, is_small
from ie_serving.engines.openvino.faults.integers.rule import (
    Exact,
    Made,
    check_constants,
    kind_of,
    leaves,
    named,
)
from ie_serving.engines.openvino.faults.integers.steps import (
    cast,
    equal,
    greatest,
    is_negative,
    least,
    one_if,
    operands,
)
from ie_serving.engines.openvino.graphs.constants import Operand, int32
from ie_serving.engines.openvino.graphs.rules import Rule

BYTES = frozenset({"i8", "u8"})
"""Element types whose quotients the plugin may round instead of truncating them."""
_SHRUNK = 1 << 20


def _divided(node: ov.Node, values: Values) -> Made | None:
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
        return Made(None, faults) if faults else None
    found = _PARTS[node.get_type_name()](a, b, small)
    return Made(cast(found, kind, INT32), faults)


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


RULES: Sequence[Rule[Exact]] = (Rule("dividing", " ".join(_PARTS), _divided),)
