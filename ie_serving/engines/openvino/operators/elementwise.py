"""Converts operators that compute each element from few others: activations, row products."""

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import NodeContext

from ie_serving.engines.openvino.graphs.constants import LAST, float32, int64
from ie_serving.engines.openvino.operators.reading import (
    by_axis,
    floats,
    number,
    part,
    rank_of,
    size_of,
)


def celu(node: NodeContext) -> list[ov.Output]:
    """Give `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`, computed in float32."""
    data, alpha = node.get_input(0), float32(node.get_attribute("alpha", 1.0))
    exact = floats(data)
    below = op.multiply(alpha, op.elu(op.divide(op.minimum(exact, float32(0)), alpha), 1.0))
    return [op.convert(op.add(op.relu(exact), below), data.get_element_type()).output(0)]


def swiglu(node: NodeContext) -> list[ov.Output]:
    """Give the second input times the `Swish` of the first."""
    gate, linear = node.get_input(0), node.get_input(1)
    alpha = op.convert(float32(node.get_attribute("alpha", 1.0)), gate.get_element_type())
    activated = op.multiply(gate, op.sigmoid(op.multiply(alpha, gate)))
    return [op.multiply(activated, linear).output(0)]


def cumulated_product(node: NodeContext) -> list[ov.Output]:
    """Give the products of the numbers up to each place of an axis, in steps of 1, 2, 4 places."""
    data = node.get_input(0)
    is_reverse, is_exclusive = (
        bool(node.get_attribute(name, 0)) for name in ("reverse", "exclusive")
    )

    def along(axis: int) -> ov.Node:
        size = size_of(data, axis)
        product = op.convert(data, data.get_element_type())
        if is_exclusive:
            product = _shifted(product, axis, 1, size, is_reverse)
        step = 1
        while step < size:
            others = _shifted(product, axis, step, size, is_reverse)
            product = op.multiply(product, others)
            step *= 2
        return product

    return [by_axis(data, node.get_input(1), along).output(0)]


def _shifted(data: ov.Node, axis: int, places: int, size: int, is_back: bool) -> ov.Node:
    """Move numbers along an axis, and put 1 where none comes from."""
    places = min(places, size)
    kept = part(data, places, LAST, axis) if is_back else part(data, 0, size - places, axis)
    pads = [0] * rank_of(data.output(0))
    pads[axis] = places
    none = int64([0] * len(pads))
    begin, end = (none, int64(pads)) if is_back else (int64(pads), none)
    return op.pad(kept, begin, end, "constant", number(1, data.output(0)))
