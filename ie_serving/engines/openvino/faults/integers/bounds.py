"""Derives, at load, bounds for the integers of a graph.

Proved: a value lies within bounds that follow from the bounds of its operation's inputs, from its
element type, and from constants. Assumed to be below 2**24: sizes of dimensions, sizes computed
from these and small constants alone, and the rounds of a loop, since larger ones would not fit into
memory, or take minutes. The bounds of an element type are the 32-bit values that OpenVINO's CPU
plugin holds: inputs beyond them are refused, and so are operations whose results leave them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import openvino as ov

from ie_serving.engines.openvino.faults.integers.loops import LoopSource, given
from ie_serving.engines.openvino.graphs.constants import value_of
from ie_serving.engines.openvino.graphs.walk import bodies, operations

Bounds = tuple[int, int]

MOST = (1 << 24) - 1
"""Greatest integer that is exact in float32 and that no other integer is rounded to."""
INT32: Bounds = (-(1 << 31), (1 << 31) - 1)
HELD: Final[Mapping[str, Bounds]] = {
    "boolean": (0, 1),
    "i8": (-(1 << 7), (1 << 7) - 1),
    "u8": (0, (1 << 8) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, (1 << 16) - 1),
    "i32": INT32,
    "i64": INT32,
    "u32": (0, INT32[1]),
    "u64": (0, INT32[1]),
}
"""Least and greatest value that the plugin holds, by element type."""
WIDE = frozenset({"i64", "u32", "u64"})
"""Element types whose values the plugin holds only in part."""
CONVERTS = frozenset({"Convert", "ConvertLike"})
UNFOLDED = frozenset(
    {
        *("BitwiseAnd", "BitwiseLeftShift", "BitwiseNot", "BitwiseOr", "BitwiseRightShift"),
        *("BitwiseXor", "Bucketize", "CumSum", "EmbeddingBagPacked", "GatherElements", "GatherND"),
        *("ReduceL2", "ReverseSequence", "Roll", "SearchSorted", "SquaredDifference", "Unique"),
    }
)
"""Operations that OpenVINO does not compute at load, of constants neither: it cuts these first."""
CHANGING = frozenset({"Parameter", "ReadValue", "RandomUniform", "Multinomial"})
"""Operations whose values differ between requests even if their inputs do not."""
SMALL: Bounds = (-MOST, MOST)
"""Bounds of integers that are exact in float32, and of sizes."""

_Rule = Callable[[ov.Node, ov.Output, Sequence[Bounds]], Bounds | None]
"""A function of an operation, one of its outputs and the bounds of its inputs; returns the
output's."""
_DATA: Final[Mapping[str, tuple[int, ...]]] = {
    "Concat": (),
    "OneHot": (2, 3),
    "Pad": (0, 3),
    "ScatterElementsUpdate": (0, 2),
    "ScatterNDUpdate": (0, 2),
    "ScatterUpdate": (0, 2),
    "Select": (1, 2),
}
"""Inputs whose values are in the output; empty means all. Other operations: the first input."""
MOVES = frozenset(
    {
        *("Broadcast", "Ceiling", "DepthToSpace", "Floor", "Gather", "GatherElements", "GatherND"),
        *("Identity", "Reshape", "Reverse", "ReverseSequence", "Roll", "Slice", "SpaceToDepth"),
        *("Split", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"),
        *_DATA,
    }
)
"""Operations whose outputs hold only values of their inputs."""


@dataclass(frozen=True)
class KnownOutput:
    """Facts known at load about one output.

    Attributes:
        bounds: least and greatest value; None if the values are not integers.
        fixed: whether the output follows from constants and shapes alone.
        folded: whether it follows from constants alone: OpenVINO computes it at load, exactly.
    """

    bounds: Bounds | None
    fixed: bool = False
    folded: bool = False


class Values:
    """Bounds of the integers of a graph and of the bodies in it."""

    def __init__(self, model: ov.Model) -> None:
        self._known: dict[tuple[str, int], KnownOutput] = {}
        self._find(model)

    def of(self, output: ov.Output) -> KnownOutput:
        """Give the known facts about an output."""
        known = self._known.get(_key(output))
        return known or KnownOutput(HELD.get(output.get_element_type().get_type_name()))

    def bounds(self, node: ov.Node, number: int) -> Bounds:
        """Give the bounds of an input that holds integers."""
        bounds = self.of(node.input_value(number)).bounds
        assert bounds is not None  # asked of integers alone
        return bounds

    def unwrapped(self, node: ov.Node) -> Bounds | None:
        """Give the bounds of an operation's first output before wrapping around, if known."""
        inputs = [self.of(each).bounds or INT32 for each in node.input_values()]
        return _RULES.get(node.get_type_name(), _unknown)(node, node.output(0), inputs)

    def stays(self, node: ov.Node) -> bool:
        """Tell whether a result needs no change: folded at load, or computed from small sizes."""
        if node.get_type_name() == "Result":  # the plugin cuts outputs too
            return False
        known = self.of(node.output(0))
        if known.folded or not known.fixed:
            return known.folded
        inputs = [self.of(each).bounds for each in node.input_values()]
        # A constant that models use as beyond all sizes is still so after the plugin cuts it.
        is_beyond = not all(each is None or is_within(each, INT32) for each in inputs)
        return is_beyond or _are_sizes(node.output(0), inputs)

    def take_over(self, old: ov.Output, new: ov.Output) -> None:
        """Note that `new` has the values of `old`."""
        self._known[_key(new)] = self.of(old)

    def _find(self, model: ov.Model) -> None:
        for node in operations(model):
            inputs = [self.of(each) for each in node.input_values()]
            for output in node.outputs():
                key = _key(output)
                if key not in self._known:  # those of a body's inputs are known already
                    self._known[key] = _known_output(node, output, inputs)
            for body, taken in given(node):
                for parameter, each in taken.items():
                    self._enter(body.get_parameters()[parameter], inputs[each.outer], each)
                self._find(body)

    def _enter(self, parameter: ov.Node, outer: KnownOutput, taken: LoopSource) -> None:
        """Note the bounds of a body's input."""
        if outer.bounds is None or taken.step is None:
            return
        low, high = outer.bounds
        # A loop has fewer than 2**24 rounds; see above.
        grown = (low + min(0, taken.step) * MOST, high + max(0, taken.step) * MOST)
        held = HELD[parameter.get_output_element_type(0).get_type_name()]
        is_same = not taken.step and not taken.sliced
        known = KnownOutput(
            _wrapped(grown, held), outer.fixed and is_same, outer.folded and is_same
        )
        self._known[_key(parameter.output(0))] = known


def is_within(found: Bounds | None, limits: Bounds) -> bool:
    """Tell whether values are known to lie within limits."""
    return found is not None and limits[0] <= found[0] and found[1] <= limits[1]


def is_small(found: Bounds | None) -> bool:
    """Tell whether values are known to be exact and distinct in float32."""
    return is_within(found, SMALL)


def ends_beyond(found: Bounds) -> list[int]:
    """Give the ends of int32 to which the plugin cuts values outside int32."""
    low, high = found
    return [
        end for end, is_cut in zip(INT32, (low < INT32[0], high > INT32[1]), strict=True) if is_cut
    ]


def count_of(shape: ov.PartialShape) -> int:
    """Give the largest number of elements that a tensor of this shape may have."""
    return int(np.prod(shape.to_shape(), dtype=object)) if shape.is_static else MOST


def sum_of(node: ov.Node, each: Bounds) -> Bounds:
    """Give the bounds of sums of the first input's elements, if each element is within `each`."""
    count = count_of(node.get_input_partial_shape(0))
    return min(0, each[0] * count), max(0, each[1] * count)


def data_inputs(node: ov.Node) -> tuple[int, ...]:
    """Give the inputs whose values are in the output of an operation that moves them."""
    numbers = _DATA.get(node.get_type_name(), (0,))
    size = node.get_input_size()
    return tuple(i for i in numbers if i < size) if numbers else tuple(range(size))


def _key(output: ov.Output) -> tuple[str, int]:
    return str(output.get_node().get_name()), int(output.get_index())


def _known_output(node: ov.Node, output: ov.Output, inputs: Sequence[KnownOutput]) -> KnownOutput:
    name = node.get_type_name()
    stays = name not in CHANGING
    folded = stays and all(each.folded for each in inputs) and not bodies(node)
    fixed = name == "ShapeOf" or (stays and all(each.fixed for each in inputs))
    held = HELD.get(output.get_element_type().get_type_name())
    if held is None:
        return KnownOutput(None, fixed, folded)
    bounds = [each.bounds for each in inputs]
    if folded and name in UNFOLDED and not all(b is None or is_within(b, INT32) for b in bounds):
        return KnownOutput(held)
    found = _RULES.get(name, _unknown)(node, output, [each or INT32 for each in bounds])
    # Folded and moved values keep all bits, and are refused where the plugin cuts them.
    if not found or not (folded or name in MOVES):
        sizes = fixed and _are_sizes(output, bounds)
        found = _overlap(found or SMALL, SMALL) if sizes else _wrapped(found or held, held)
    return KnownOutput(found, fixed, folded)


# Sizes have a shape known at load: a tensor with an open shape, like an input, holds none.
def _are_sizes(output: ov.Output, inputs: Sequence[Bounds | None]) -> bool:
    is_static = output.get_partial_shape().is_static
    return is_static and all(each is None or is_small(each) for each in inputs)


def _wrapped(found: Bounds, held: Bounds) -> Bounds:
    """Give the bounds after results outside `held` have wrapped around."""
    return found if is_within(found, held) else held


def _overlap(one: Bounds, other: Bounds) -> Bounds:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else other


def _unknown(_node: ov.Node, _output: ov.Output, _inputs: Sequence[Bounds]) -> None:
    return None


def _constant(node: ov.Node, _output: ov.Output, _inputs: Sequence[Bounds]) -> Bounds | None:
    value = value_of(node)
    assert value is not None  # by the name of the operation
    return (int(value.min()), int(value.max())) if value.size else None


def _moves(node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds | None:
    # A scatter that adds or multiplies values with equal indices may leave any bounds.
    if node.get_attributes().get("reduction", "none") != "none":
        return None
    chosen = [inputs[i] for i in data_inputs(node)]
    if node.get_type_name() == "Pad":  # with 0 where no input says otherwise
        chosen.append((0, 0))
    return min(low for low, _ in chosen), max(high for _, high in chosen)


def _corners(compute: Callable[[int, int], int]) -> _Rule:
    """Give the rule of an operation whose extremes lie at extremes of its two inputs."""

    def rule(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
        values = [compute(a, b) for a in inputs[0] for b in inputs[1]]
        return min(values), max(values)

    return rule


def _convert(node: ov.Node, output: ov.Output, inputs: Sequence[Bounds]) -> Bounds | None:
    if node.get_input_element_type(0).is_real():
        return None
    return inputs[0]


def _abs(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    low, high = inputs[0]
    return max(0, low, -high), max(-low, high)


def _negative(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    return -inputs[0][1], -inputs[0][0]


def _squared(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    (low, high), (least, most) = inputs
    return 0, max(abs(low - most), abs(high - least)) ** 2


def _divide(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    # No divisor makes a quotient larger than the dividend: 0 is flagged where it may come.
    most = max(map(abs, inputs[0]))
    return (0 if min(*inputs[0], inputs[1][0]) >= 0 else -most), most


def _mod(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    most = max(map(abs, inputs[1])) - 1
    return (0 if min(inputs[0][0], inputs[1][0]) >= 0 else -most), most


def _floor_mod(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    low, high = inputs[1]  # a remainder of this kind has the sign of the divisor
    return min(0, low + 1), max(0, high - 1)


def _and(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds | None:
    # An operand that is not negative acts as a mask: the result is at most that operand.
    tops = [high for low, high in inputs if low >= 0]
    return (0, min(tops)) if tops else None


def _clamp(node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    (low, high), kept = inputs[0], node.get_attributes()
    # Infinity means no bound; int() refuses it.
    least, most = (int(np.clip(kept[end], -(2.0**62), 2.0**62)) for end in ("min", "max"))
    return min(max(low, least), most), min(max(low, high, least), max(most, least))


def _with_indices(_node: ov.Node, output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    return inputs[0] if output.get_index() == 0 else (0, MOST)


def _range(_node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    (low, high), (stop_low, stop_high), _ = inputs
    return min(low, stop_low), max(high, stop_high)


def _extreme(node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds | None:
    """Give the bounds of a maximum or minimum; without elements it is an end of the type."""
    shape = node.get_input_partial_shape(0)
    filled = shape.rank.is_static and all(dim.get_min_length() > 0 for dim in shape)
    return inputs[0] if filled else None


def _sum(node: ov.Node, _output: ov.Output, inputs: Sequence[Bounds]) -> Bounds:
    return sum_of(node, inputs[0])


def _index(_node: ov.Node, _output: ov.Output, _inputs: Sequence[Bounds]) -> Bounds:
    return 0, MOST


_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(MOVES, _moves),
    **dict.fromkeys(("TopK", "Unique"), _with_indices),
    **dict.fromkeys(("NonZero", "ShapeOf", "Bucketize", "SearchSorted"), _index),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceMean"), _extreme),
    **dict.fromkeys(("ReduceSum", "CumSum"), _sum),
    "Abs": _abs,
    "Add": _corners(lambda a, b: a + b),
    "BitwiseAnd": _and,
    "Clamp": _clamp,
    **dict.fromkeys(CONVERTS, _convert),
    "Constant": _constant,
    "Divide": _divide,
    "FloorMod": _floor_mod,
    "Maximum": _corners(max),
    "Minimum": _corners(min),
    "Mod": _mod,
    "Multiply": _corners(lambda a, b: a * b),
    "Negative": _negative,
    "Range": _range,
    "Relu": lambda _node, _output, inputs: (max(0, inputs[0][0]), max(0, inputs[0][1])),
    "Sign": lambda _node, _output, _inputs: (-1, 1),
    "SquaredDifference": _squared,
    "Subtract": _corners(lambda a, b: a - b),
}
"""Rules by operation: the bounds of an output from those of the inputs; no entry if not known."""
