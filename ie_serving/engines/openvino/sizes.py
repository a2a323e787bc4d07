"""Sizes and steps that the values of a request decide, bounded before anything is allocated.

The CPU plugin allocates whatever a `Range` or a `Broadcast` is asked for, and divides by a step of
zero, which ends the process. Measured with OpenVINO 2026.4 (`tests/functional/test_sizes.py`).
In a guarded graph such a value is replaced by 1, and a flag tells of it, so that the request is
refused. Sizes that follow from the shapes of inputs are left alone: they grow with the request's
own bytes. Sizes that do not fit to other inputs are left to the plugin, which refuses them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.indices import Flag

MOST_ELEMENTS = 1 << 26
"""Elements of one tensor that the values of a request may ask for; in float32 256 MB. It is above
what models are served with, and a few such requests at once still fit into a small container."""
SOURCES = frozenset({"Parameter", "ReadValue"})

Guard = Callable[[ov.Node], tuple[str, ov.Node]]


def guard_sizes(nodes: Sequence[ov.Node]) -> list[Flag]:
    """Bound what the values of a request may ask for; give a flag for each such operation.

    Args:
        nodes: the operations outside of bodies, each behind those that it reads.
    """
    return [
        Flag(f'{node.get_type_name()} "{node.get_friendly_name()}" {cause}', raised)
        for node, guard in list(_asked(nodes))
        for cause, raised in [guard(node)]
    ]


def _asked(nodes: Sequence[ov.Node]) -> Iterator[tuple[ov.Node, Guard]]:
    """Find the operations whose sizes or steps are values of a request."""
    from_values: set[str] = set()
    for node in nodes:
        if _computes_from(node, from_values):
            from_values.add(str(node.get_name()))
        numbers, guard = _GUARDS.get(node.get_type_name(), ((), _by_product))
        if any(_name(node, number) in from_values for number in _present(node, numbers)):
            yield node, guard


def _computes_from(node: ov.Node, from_values: Collection[str]) -> bool:
    """Tell whether the values of an operation's outputs follow from those of a request."""
    if node.get_type_name() == "ShapeOf":
        return False
    return node.get_type_name() in SOURCES or any(
        _name(node, number) in from_values for number in range(node.get_input_size())
    )


def _present(node: ov.Node, numbers: Collection[int]) -> list[int]:
    return [number for number in numbers if number < node.get_input_size()]


def _name(node: ov.Node, number: int) -> str:
    return str(node.input_value(number).get_node().get_name())


def _guard_range(node: ov.Node) -> tuple[str, ov.Node]:
    start, stop, step = (op.convert(node.input_value(number), "f32") for number in range(3))
    length = op.divide(op.subtract(stop, start), step)
    # Written so that NaN, of zero steps and infinities, is not in range.
    fits = op.logical_and(op.less(length, _float(MOST_ELEMENTS)), op.not_equal(step, _float(0.0)))
    _replace_where_not(node, 1, fits, node.input_value(0))
    _replace_where_not(node, 2, fits, None)
    return f"is asked for more than {MOST_ELEMENTS} numbers, or steps of 0", _raised(fits)


def _guard_strides(node: ov.Node) -> tuple[str, ov.Node]:
    strides = node.input_value(3)
    fits = op.not_equal(op.convert(strides, "f32"), _float(0.0))
    _replace_where_not(node, 3, fits, None)
    return "is asked for steps of 0", _raised(fits)


def _by_product(node: ov.Node) -> tuple[str, ov.Node]:
    """Bound the product of all sizes that are asked for, and of the dimensions that stay."""
    numbers = _present(node, _GUARDS[node.get_type_name()][0])
    factors = [_product(node.input_value(number)) for number in numbers]
    for kept in _KEPT.get(node.get_type_name(), lambda _: ())(node):
        factors.append(_product(kept))
    count = factors[0]
    for factor in factors[1:]:
        count = op.multiply(count, factor)
    asked = op.concat([_flat(node.input_value(number)) for number in numbers], 0)
    negative = op.reduce_logical_or(op.less(asked, _float(0.0)), _first(), False)
    few = op.less_equal(count, _float(MOST_ELEMENTS))
    fits = op.logical_and(few, op.logical_not(negative))
    for number in numbers:
        _replace_where_not(node, number, fits, None)
    return f"is asked for more than {MOST_ELEMENTS} elements, or a negative size", _raised(fits)


def _guard_pads(node: ov.Node) -> tuple[str, ov.Node]:
    shape = op.convert(op.shape_of(node.input_value(0), "i64"), "f32")
    begin, end = (op.convert(node.input_value(number), "f32") for number in (1, 2))
    fits = op.less_equal(
        _product(op.add(op.add(shape, begin), end).output(0)), _float(MOST_ELEMENTS)
    )
    for number in (1, 2):
        _replace_where_not(node, number, fits, None)
    return f"is asked for more than {MOST_ELEMENTS} elements", _raised(fits)


# As floats: their product has no overflow, and its rounding does not matter beside the bound.
def _product(sizes: ov.Output) -> ov.Node:
    """Give the product of sizes, those below 1 taken as 1, as a float32 scalar."""
    return op.reduce_prod(op.maximum(_flat(sizes), _float(1.0)), _first(), False)


def _flat(sizes: ov.Output) -> ov.Node:
    return op.reshape(op.convert(sizes, "f32"), op.constant(np.array([-1], np.int64)), False)


def _first() -> ov.Node:
    return op.constant(np.array([0], np.int64))


def _float(value: float) -> ov.Node:
    return op.constant(np.array(value, np.float32))


def _replace_where_not(node: ov.Node, number: int, fits: ov.Node, other: ov.Output | None) -> None:
    """Let an input be `other`, or 1, where `fits` does not hold."""
    given = node.input_value(number)
    kind = given.get_element_type()
    value = op.constant(np.array(1, np.int32)) if other is None else other
    chosen = op.select(fits, given, op.convert(value, kind))
    node.input(number).replace_source_output(chosen.output(0))


def _raised(fits: ov.Node) -> ov.Node:
    flat = op.reshape(op.logical_not(fits), op.constant(np.array([-1], np.int64)), False)
    return op.convert(op.reduce_logical_or(flat, _first(), True), "i32")


def _shape(node: ov.Node) -> list[ov.Output]:
    return [op.shape_of(node.input_value(0), "i64").output(0)]


_GUARDS: Mapping[str, tuple[tuple[int, ...], Guard]] = MappingProxyType(
    {
        "Broadcast": ((1,), _by_product),
        "Eye": ((0, 1, 3), _by_product),
        "OneHot": ((1,), _by_product),
        "Pad": ((1, 2), _guard_pads),
        "RandomUniform": ((0,), _by_product),
        "Range": ((0, 1, 2), _guard_range),
        "StridedSlice": ((3,), _guard_strides),
        "Tile": ((1,), _by_product),
    }
)
"""By operation: the inputs that are sizes or steps, and how they are bounded."""

_KEPT: Mapping[str, Callable[[ov.Node], Sequence[ov.Output]]] = MappingProxyType(
    {"OneHot": _shape, "Tile": _shape}
)
"""Dimensions of the output that are not asked for."""
