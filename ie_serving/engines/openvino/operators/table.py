"""ONNX operators that this server converts, since OpenVINO lacks or misconverts them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import NodeContext

from ie_serving.engines.onnx_file import MAIN_DOMAIN, Node
from ie_serving.engines.openvino.graphs.constants import LAST, float32, int64, value_of
from ie_serving.engines.openvino.operators import attention
from ie_serving.engines.openvino.operators.converter import (
    Convert,
    by_axis,
    floats,
    given,
    in_rank,
    number,
    part,
    rank_of,
    size_of,
    sizes,
)

SINCE = 20
"""Opset from which on the axis is an input, which OpenVINO's front end does not read."""


def is_needed(node: Node) -> bool:
    """Tell whether the front end's own is not right."""
    return node.opset >= SINCE or bool(node.attributes.get("onesided"))


def transform(node: NodeContext) -> list[ov.Output]:
    """Transform along one axis, which a request may choose where all frequencies are given."""
    data, length, axis = node.get_input(0), given(node, 1), given(node, 2)
    is_inverse, is_half = (bool(node.get_attribute(name, 0)) for name in ("inverse", "onesided"))
    along = _real if is_inverse and is_half else _inverse if is_inverse else _forward
    axes = rank_of(data) - 1  # behind them lie the parts of a number
    index = _axis_of(node, axis, axes)
    if index is not None:
        made = along(data, length, index)
        if is_half and not is_inverse:
            count = sizes(data, [index]) if length is None else _row(length)
            end = op.add(op.divide(count, int64([2])), int64([1]))
            made = op.slice(made, int64([0]), end, int64([1]), int64([index]))
    elif is_half or length is not None:
        raise ValueError("a request chooses the axis whose size changes")
    else:
        each = [op.unsqueeze(along(data, None, index), int64(0)) for index in range(axes)]
        made = op.gather(op.concat(each, 0), _among(axis, axes), int64(0))
    return [op.convert(made, data.get_element_type()).output(0)]


def _axis_of(node: NodeContext, axis: ov.Output | None, axes: int) -> int | None:
    """Give the axis; None where a request chooses it."""
    if axis is not None:
        known = value_of(axis.get_node())
        if known is None:
            return None
        index = int(known.item())
    elif node.has_attribute("axis"):
        index = int(node.get_attribute("axis"))
    elif axes == 2:
        index = 1  # by opset 17, which is -2 by opset 20
    else:
        raise ValueError("the file does not say its axis")
    return in_rank(index, axes + 1)


def _among(axis: ov.Output | None, axes: int) -> ov.Node:
    """Give the axis among `axes`, and one out of range for that of the parts."""
    number = op.reshape(op.convert(axis, "i64"), int64([]), False)
    from_end = op.select(op.equal(number, int64(-1)), int64(axes), op.add(number, int64(1)))
    return op.select(op.less(number, int64(0)), from_end, number)


def _forward(data: ov.Output, length: ov.Output | None, index: int) -> ov.Node:
    return op.dft(_complex(data), int64([index]), _length_or_all(length))


def _inverse(data: ov.Output, length: ov.Output | None, index: int) -> ov.Node:
    return op.idft(_complex(data), int64([index]), _length_or_all(length))


def _real(data: ov.Output, length: ov.Output | None, index: int) -> ov.Node:
    """Give the real numbers of one-sided frequencies.

    The plugin computes missing frequencies wrongly. Measured with OpenVINO 2026.4.
    """
    count = None if length is None else value_of(length.get_node())
    if length is not None and (
        count is None or not 0 < count.item() <= 2 * size_of(data, index) - 1
    ):
        raise ValueError("a request says how many numbers there are, or they are more than follow")
    twice = op.multiply(op.subtract(sizes(data, [index]), int64([1])), int64([2]))
    asked = twice if count is None else int64([count.item()])
    return op.unsqueeze(op.irdft(floats(data), int64([index]), asked), int64(-1))


def _complex(data: ov.Output) -> ov.Node:
    """Give numbers a real and an imaginary part; the imaginary part may be missing."""
    rank = rank_of(data)
    begin = [0] * rank
    end = [*begin[1:], 2 - size_of(data, rank - 1)]
    return op.pad(floats(data), int64(begin), int64(end), "constant", float32(0))


def _length_or_all(length: ov.Output | None) -> ov.Node:
    return int64([-1]) if length is None else _row(length)


def _row(length: ov.Output) -> ov.Node:
    return op.reshape(op.convert(length, "i64"), int64([1]), False)


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
    """Give the products of the numbers up to each index of an axis, in steps of 1, 2, 4."""
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


def _shifted(data: ov.Node, axis: int, steps: int, size: int, is_back: bool) -> ov.Node:
    """Move numbers along an axis, and put 1 where none comes from."""
    steps = min(steps, size)
    kept = part(data, steps, LAST, axis) if is_back else part(data, 0, size - steps, axis)
    pads = [0] * rank_of(data.output(0))
    pads[axis] = steps
    none = int64([0] * len(pads))
    begin, end = (none, int64(pads)) if is_back else (int64(pads), none)
    return op.pad(kept, begin, end, "constant", number(1, data.output(0)))


def ignores_axes(node: Node) -> bool:
    """Tell whether the front end looks for axes among the inputs of a reduction, as of opset 18."""
    return node.opset in range(13, 18) and "axes" in node.attributes


def _reduced(reduce: Callable[[ov.Output, ov.Node, bool], ov.Node]) -> Convert:
    """Reduce the axes that an attribute names, or else all."""

    def convert(node: NodeContext) -> list[ov.Output]:
        data, has_axes = node.get_input(0), node.has_attribute("axes")
        axes = list(node.get_attribute("axes")) if has_axes else []
        keeps = bool(node.get_attribute("keepdims", 1))
        return [reduce(data, int64(axes or range(rank_of(data))), keeps).output(0)]

    return convert


def _log_sum_exp(data: ov.Output, axes: ov.Node, keeps: bool) -> ov.Node:
    """Give the greatest plus the logarithm of a sum that it keeps finite."""
    greatest = op.reduce_max(data, axes, True)
    exact = op.exp(op.subtract(data, greatest))
    logarithm = op.add(op.log(op.reduce_sum(exact, axes, True)), greatest)
    return logarithm if keeps else op.squeeze(logarithm, axes)


def squeezed(no_axes: Collection[str]) -> Convert:
    """Give a converter of `Squeeze`, which takes these axes without elements as none given.

    As onnxruntime does; the front end reads them as axis 0.
    """

    def convert(node: NodeContext) -> list[ov.Output]:
        data, axes = node.get_input(0), given(node, 1)
        if axes is None or not axes.get_names().isdisjoint(no_axes):
            return [op.squeeze(data).output(0)]
        return [op.squeeze(data, axes).output(0)]

    return convert


def has_element(node: NodeContext) -> list[ov.Output]:
    """Tell whether an input is given."""
    return [op.constant(given(node, 0) is not None).output(0)]


def element(node: NodeContext) -> list[ov.Output]:
    """Give the input itself."""
    return [op.convert(node.get_input(0), node.get_input(0).get_element_type()).output(0)]


class Operator(NamedTuple):
    """How one operator is converted.

    Attributes:
        convert: used in place of the front end's conversion.
        is_needed: whether the front end's conversion is wrong for an operator of a file.
    """

    convert: Convert
    is_needed: Callable[[Node], bool] = lambda _: True


def needed(nodes: Iterable[Node]) -> Mapping[str, Convert]:
    """Give the converters needed in place of the front end's, by operator name."""
    return {
        node.kind: operator.convert
        for node in nodes
        if node.domain == MAIN_DOMAIN
        and (operator := OPERATORS.get(node.kind)) is not None
        and operator.is_needed(node)
    }


OPERATORS: Final[Mapping[str, Operator]] = {
    "Attention": Operator(attention.attention, attention.is_needed),
    "CausalConvWithState": Operator(attention.causal_convolution),
    "Celu": Operator(celu),
    "CumProd": Operator(cumulated_product),
    "DFT": Operator(transform, is_needed),
    "LinearAttention": Operator(attention.linear_attention),
    "OptionalGetElement": Operator(element),
    "OptionalHasElement": Operator(has_element),
    "ReduceL1": Operator(_reduced(op.reduce_l1), ignores_axes),
    "ReduceLogSum": Operator(
        _reduced(lambda data, axes, keeps: op.log(op.reduce_sum(data, axes, keeps))), ignores_axes
    ),
    "ReduceLogSumExp": Operator(_reduced(_log_sum_exp), ignores_axes),
    "SwiGLU": Operator(swiglu),
    "TensorScatter": Operator(attention.tensor_scatter),
}
"""Operators by name."""
