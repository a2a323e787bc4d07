"""Bounds sizes and steps that the values of a request decide, before the plugin allocates memory.

The CPU plugin allocates any size that a `Range` or a `Broadcast` requests, and divides by a step of
zero, which ends the process. Measured with OpenVINO 2026.4 (`tests/functional/test_sizes.py`).
A guarded graph replaces such a value by 1 and raises a flag, which refuses the request. Sizes that
follow from input shapes have no bound: they grow with the request's own bytes. Sizes that do not
match other inputs are left to the plugin, which refuses them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import (
    LAST,
    Operand,
    float32,
    int32,
    int64,
    known_input,
)
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit, is_among, replace_node
from ie_serving.engines.openvino.graphs.walk import Flag, title

MOST_ELEMENTS = 1 << 26
"""Most elements of one tensor whose size the values of a request decide: 256 MB in float32; beyond
it the request is refused. Models need less, and a few such requests fit into a small container."""


def refuse_unless(node: ov.Node, fits: ov.Node, cause: str, others: Mapping[int, Operand]) -> Flag:
    """Give a flag that is raised where `fits` is false, and replace inputs of the operation there.

    Args:
        node: the operation.
        fits: graph of booleans.
        cause: message for the client, after the name of the operation.
        others: replacements where `fits` is false, by number of an input.
    """
    for number, other in others.items():
        replace_where_not(node, number, fits, other)
    return Flag.unless(f"{title(node)} {cause}", fits)


def replace_where_not(node: ov.Node, number: int, fits: ov.Node, other: Operand) -> None:
    """Replace an input by `other` where `fits` is false."""
    given = node.input_value(number)
    chosen = op.select(fits, given, op.convert(other, given.get_element_type()))
    node.input(number).replace_source_output(chosen.output(0))


def _bounds(
    numbers: tuple[int, ...],
    fits: Callable[[ov.Node], ov.Node],
    cause: str,
    *,
    of_shapes: bool = False,
) -> Ask:
    """Bound the inputs of an operation that a request chooses.

    Args:
        numbers: numbers of the inputs that are replaced by 1 where `fits` is false.
        fits: gives a graph of booleans: whether the inputs are in range.
        cause: message for the client, after the name of the operation.
        of_shapes: whether inputs that follow from shapes alone are bounded too.
    """

    def is_chosen(node: ov.Node, number: int, here: Visit) -> bool:
        if of_shapes and number < node.get_input_size():
            return known_input(node, number) is None
        return is_among(here.sources, node, number)

    def bound(node: ov.Node, here: Visit) -> Iterator[Flag]:
        if any(is_chosen(node, number, here) for number in numbers):
            others = dict.fromkeys(_replaced(node, numbers), int32(1))
            yield refuse_unless(node, fits(node), cause, others)

    return bound


def _replaced(node: ov.Node, numbers: Collection[int]) -> list[int]:
    """Leave out the axes of `Interpolate`: the plugin crashes if they are not constants."""
    kind = node.get_type_info()
    axes = 2 if (kind.name, kind.version_id) == ("Interpolate", "opset11") else None
    return [number for number in _present(node, numbers) if number != axes]


def _present(node: ov.Node, numbers: Collection[int]) -> list[int]:
    return [number for number in numbers if number < node.get_input_size()]


def _asks_little(
    numbers: tuple[int, ...], kept: Callable[[ov.Node], Sequence[ov.Node]] = lambda _: ()
) -> Ask:
    """Bound the product of the requested sizes and of the other output dimensions, `kept`."""

    def fits(node: ov.Node) -> ov.Node:
        sizes = [_floats(node.input_value(number)) for number in _present(node, numbers)]
        count = reduce(op.multiply, [*map(_product, sizes), *kept(node)])
        least = op.reduce_min(op.concat(sizes, 0), int64([0]), False)
        return op.logical_and(_few(count), op.greater_equal(least, float32(0.0)))

    cause = f"is asked for more than {MOST_ELEMENTS} elements, or a negative size"
    return _bounds(numbers, fits, cause)


def _by_count(numbers: tuple[int, ...], count: Callable[[ov.Node], ov.Node]) -> Ask:
    """Bound the elements of an operation's output."""
    cause = f"is asked for more than {MOST_ELEMENTS} elements"
    return _bounds(numbers, lambda node: _few(count(node)), cause)


def _steps(number: int) -> Ask:
    def fits(node: ov.Node) -> ov.Node:
        step = op.convert(node.input_value(number), "f32")
        # The plugin negates a negative step and divides by it: -2**31 has no negative in int32.
        turns = op.greater(step, float32(-(2.0**31)))
        return op.logical_and(turns, op.not_equal(step, float32(0.0)))

    return _bounds((number,), fits, "is asked for steps of 0, or of -2147483648")


def _pads() -> Ask:
    """Bound the output of `Pad` and the elements it cuts off: the plugin adds both in 32 bits."""

    def fits(node: ov.Node) -> ov.Node:
        size = _floats(_shape_of(node))
        begun, end = op.add(size, _floats(node.input_value(1))), _floats(node.input_value(2))
        padded = op.add(begun, end)
        least = op.reduce_min(op.concat([padded, begun, op.add(size, end)], 0), int64([0]), False)
        return op.logical_and(_few(_product(padded)), op.greater_equal(least, float32(0.0)))

    cause = f"is asked for more than {MOST_ELEMENTS} elements, or to cut off more than there are"
    return _bounds((1, 2), fits, cause)


def _transforms() -> Ask:
    """Bound the sizes of a Fourier transform: size 0 makes the plugin end the process.

    Models request all numbers by 2 * (frequencies - 1), which is 0 for one frequency.
    """

    def fits(node: ov.Node) -> ov.Node:
        none = op.equal(_floats(node.input_value(2)), float32(0.0))
        any_none = op.reduce_logical_or(none, int64([0]), False)
        return op.logical_and(_few(_transformed(node)), op.logical_not(any_none))

    cause = f"is asked for more than {MOST_ELEMENTS} elements, or for none"
    return _bounds((2,), fits, cause, of_shapes=True)


def _transforms_back() -> Ask:
    bound = _transforms()
    return lambda node, here: bound(_with_size(node, here), here)


def _with_size(node: ov.Node, here: Visit) -> ov.Node:
    """Make the output size of an `IRDFT` explicit if it follows from an open size that may be 0."""
    shape, held = node.get_input_partial_shape(0), _optional(node, 2)
    asked = known_input(node, 2)
    if shape.is_static or (held is not None and (asked is None or asked.min() >= 0)):
        return node
    axes = node.input_value(1)
    has = _gathered(_shape_of(node), axes.get_node())
    last = op.constant(np.arange(axes.get_shape()[0]) == axes.get_shape()[0] - 1)
    # The last axis holds one half of the spectrum, of n // 2 + 1 frequencies.
    own = op.select(last, op.multiply(op.subtract(has, int64(1)), int64(2)), has)
    sizes = (
        own if held is None else op.select(op.less(held, int64(0)), own, op.convert(held, "i64"))
    )
    made = op.irdft(node.input_value(0), axes, sizes)
    replace_node(node, made)
    if node.get_name() in here.sources:  # the new operation depends on values as the old one did
        here.sources.add(made.get_name())
    return made


def _resized(node: ov.Node) -> ov.Node:
    """Count the elements of an `Interpolate`. Opset 4 has sizes and scales, 11 one of them."""
    attributes = node.get_attributes()
    older = node.get_type_info().version_id == "opset4"
    shape = _floats(_shape_of(node))
    if attributes.get("shape_calculation_mode") == "scales":
        scales = _floats(node.input_value(2 if older else 1))
        return op.multiply(_product(shape), op.reduce_prod(scales, int64([0]), False))
    axes = _optional(node, 3 if older else 2)
    if "axes" in attributes:
        axes = int64(attributes["axes"])
    return _along(shape, shape, axes, _floats(node.input_value(1)))


def _transformed(node: ov.Node) -> ov.Node:
    """Count the complex numbers of a Fourier transform, each as two; -1 keeps the size."""
    shape = _floats(_shape_of(node))
    # The last dimension of complex data holds the two parts.
    dimensions = shape if node.get_type_name() == "RDFT" else _between(shape, 0, -1)
    axes = node.input_value(1).get_node()
    asked = _floats(node.input_value(2))
    sizes = op.select(op.less(asked, float32(0.0)), _gathered(dimensions, axes), asked)
    return op.multiply(_along(shape, dimensions, axes, sizes), float32(2.0))


def _along(shape: ov.Node, dimensions: ov.Node, axes: ov.Node | None, sizes: ov.Node) -> ov.Node:
    """Count elements after the sizes of some axes, or of all if `axes` is None, are replaced."""
    if axes is None:
        return _product(sizes)
    return op.multiply(
        op.divide(_product(shape), _product(_gathered(dimensions, axes))), _product(sizes)
    )


def _gathered(shape: ov.Node, axes: ov.Node) -> ov.Node:
    return op.gather(shape, op.convert(axes, "i32"), int64(0))


def _broadcast(node: ov.Node) -> ov.Node:
    """Count the elements of a `Broadcast`; if bidirectional, by the larger of two sizes."""
    asked = _floats(node.input_value(1))
    if node.get_attributes().get("mode") != "bidirectional":
        return _product(asked)
    shape = _floats(_shape_of(node))
    ranks = [size.get_output_partial_shape(0)[0] for size in (shape, asked)]
    if any(rank.is_dynamic for rank in ranks):
        return op.multiply(_product(shape), _product(asked))
    longest = max(rank.get_length() for rank in ranks)
    aligned = [
        op.concat([float32([1] * (longest - rank.get_length())), sizes], 0)
        for sizes, rank in zip((shape, asked), ranks, strict=True)
    ]
    return _product(op.maximum(*aligned))


def _leading(count: int) -> Callable[[ov.Node], list[ov.Node]]:
    return lambda node: [_product(_between(_floats(_shape_of(node)), 0, count))]


def _element_count(node: ov.Node) -> list[ov.Node]:
    return [_product(_floats(_shape_of(node)))]


def _rows_of(node: ov.Node) -> list[ov.Node]:
    return [_product(_between(_floats(_shape_of(node)), 1, LAST))]


def _filtered(node: ov.Node) -> list[ov.Node]:
    """Give batch and filter count of a transposed convolution, whose image size is requested."""
    filters = _floats(_shape_of(node, 1))
    return [*_leading(1)(node), _product(filters)]


# In floats a product does not overflow, and its rounding is irrelevant for the bound.
def _product(sizes: ov.Node) -> ov.Node:
    """Give the product of sizes, those below 1 taken as 1, as a float32 scalar."""
    return op.reduce_prod(op.maximum(sizes, float32(1.0)), int64([0]), False)


def _few(count: ov.Node) -> ov.Node:
    # False for NaN.
    return op.less_equal(count, float32(MOST_ELEMENTS))


def _floats(sizes: Operand) -> ov.Node:
    """Give sizes as one row of float32."""
    return op.reshape(op.convert(sizes, "f32"), int64([-1]), False)


def _shape_of(node: ov.Node, number: int = 0) -> ov.Node:
    return op.shape_of(node.input_value(number), "i64")


def _between(sizes: ov.Node, begin: int, end: int) -> ov.Node:
    ends = (int64([number]) for number in (begin, end, 1))
    return op.slice(sizes, *ends)


def _optional(node: ov.Node, number: int) -> ov.Node | None:
    return node.input_value(number).get_node() if number < node.get_input_size() else None


_ASKED = "a_step_of_0_ends_the_process"

RULES: Sequence[Rule[Ask]] = (
    Rule(_ASKED, "Broadcast", _by_count((1,), _broadcast)),
    Rule(
        _ASKED,
        "ConvolutionBackpropData GroupConvolutionBackpropData",
        _asks_little((2,), _filtered),
    ),
    Rule("a_transform_of_nothing_ends_the_process", "DFT IDFT RDFT", _transforms()),
    Rule("a_transform_of_nothing_ends_the_process", "IRDFT", _transforms_back()),
    Rule(_ASKED, "EmbeddingSegmentsSum", _asks_little((3,), _rows_of)),
    Rule(_ASKED, "Eye", _asks_little((0, 1, 3))),
    Rule(_ASKED, "Interpolate", _by_count((1, 2), _resized)),
    Rule(_ASKED, "Multinomial", _asks_little((1,), _leading(1))),
    Rule(_ASKED, "OneHot Tile", _asks_little((1,), _element_count)),
    Rule("pads_are_added_up_with_32_bits", "Pad", _pads()),
    Rule(_ASKED, "RandomUniform", _asks_little((0,))),
    Rule(_ASKED, "Slice StridedSlice", _steps(3)),
)
"""Inputs that are sizes or steps, and their bounds. `ranges.py` has those of `Range`."""
