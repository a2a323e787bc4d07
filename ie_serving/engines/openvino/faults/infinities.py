"""Keeps the infinities that a graph computes where OpenVINO's CPU plugin makes them finite.

The plugin's `ReduceMax`, `ReduceMin` and `MaxPool` begin with the greatest finite number, so that
no result is infinite; and it converts a constant of a type that it does not compute in with the
infinities clipped. A mask of attention has both: a row that is masked as a whole is recognized by
comparing its greatest number with -infinity. `IsInf` that is fused with the operation before it is
false.
"""

from collections.abc import Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import float32
from ie_serving.engines.openvino.graphs.rewiring import put_behind, replace, replace_node
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit

_CLIPPED = (ov.Type.bf16, ov.Type.f64)
"""Types whose constants the plugin converts to f32, BF16 only on CPUs without AVX-512."""
_INFINITE_BF16 = 0x7F80
_UNFOLDED = "DisableConstantFolding_0"
"""Runtime attribute: OpenVINO then leaves an operation on constants to the plugin."""
_SOURCES = frozenset({"Log", "Parameter", "Select"})
"""Operations whose results a `MaxPool` may get as infinities; a network of images has a `Relu`."""
_MOVES = frozenset({"Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def _hold_constant(node: ov.Node, _: Visit) -> None:
    """Replace a constant with infinities by a conversion of its f32 numbers."""
    kind = node.get_output_element_type(0)
    if kind in _CLIPPED and _is_infinite(node):
        values = float32(node.get_data(dtype=np.float32))
        replace(node.output(0), _unfolded(op.convert(values, kind)).output(0))


def _hold_conversion(node: ov.Node, _: Visit) -> None:
    """Leave the conversion of a constant with infinities to the plugin, which keeps them."""
    values, kind = node.input_value(0).get_node(), node.get_output_element_type(0)
    if kind in _CLIPPED and values.get_type_name() == "Constant" and _is_infinite(values):
        _unfolded(node)


def _is_infinite(node: ov.Node) -> bool:
    kind = node.get_output_element_type(0)
    if kind != ov.Type.bf16:
        return bool(kind.is_real() and np.isinf(node.data).any())
    bits = node.data.view(np.uint16)  # numpy has no BF16
    return bool(((bits & 0x7FFF) == _INFINITE_BF16).any())


def _unfolded(node: ov.Node) -> ov.Node:
    node.get_rt_info()[_UNFOLDED] = ""
    return node


def _compare_with_infinity(node: ov.Node, _: Visit) -> None:
    """Tell infinities by a comparison."""
    given, told = node.input_value(0), node.get_attributes()
    signs = [sign for sign in ("negative", "positive") if told[f"detect_{sign}"]]
    ends = {"negative": -np.inf, "positive": np.inf}
    same = [
        op.equal(given, _unfolded(op.convert(float32(ends[sign]), given.get_element_type())))
        for sign in signs
    ]
    if same:
        replace_node(node, same[0] if len(same) == 1 else op.logical_or(*same))


def _reach_infinity(node: ov.Node, _: Visit) -> None:
    """Halve the data and double the result, which turns the least finite float into infinity."""
    data, output = node.input_value(0), node.output(0)
    kind = data.get_element_type()
    if not kind.is_real() or _is_of_softmax(data, output):
        return
    half, two = (op.convert(float32(number), kind) for number in (0.5, 2))
    node.input(0).replace_source_output(op.multiply(data, half).output(0))
    put_behind(output, lambda reduced: op.multiply(reduced, two))


def _reach_infinity_in_windows(node: ov.Node, here: Visit) -> None:
    source = node.input_value(0).get_node()
    while source.get_type_name() in _MOVES:
        source = source.input_value(0).get_node()
    if source.get_type_name() in _SOURCES:
        _reach_infinity(node, here)


def _is_of_softmax(data: ov.Output, greatest: ov.Output) -> bool:
    """Tell whether a maximum is only subtracted from its own data: a softmax, which gets fused."""
    readers = list(greatest.get_target_inputs())
    if len(readers) != 1 or readers[0].get_node().get_type_name() != "Subtract":
        return False
    lowered = readers[0].get_node().input_value(0)
    return bool(lowered == data)


RULES: Sequence[Rule[Ask]] = (
    Rule("infinite_constants_are_finite", "Constant", _hold_constant),
    Rule("infinite_constants_are_finite", "Convert", _hold_conversion),
    Rule("infinities_behind_operations_are_not_seen", "IsInf", _compare_with_infinity),
    Rule("the_greatest_of_infinities_is_finite", "ReduceMax ReduceMin", _reach_infinity),
    Rule("the_greatest_of_infinities_is_finite", "MaxPool", _reach_infinity_in_windows),
)
