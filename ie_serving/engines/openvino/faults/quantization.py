"""Quantized models: detects 8-bit products that saturate, and rounds halves as TensorFlow does.

OpenVINO rounds halves to even. Halves are common: in the range 0 to 6 with 256 levels, 1.0 is 42.5
steps. So both ends of the input range are lowered by a small part of a step, less than float32
resolves at the last of 256 levels. The operation stays the same, so quantized models are still
computed in 8 bits.

On a CPU without VNNI or AMX the plugin adds two products of an unsigned and a signed number at a
time in 16 bits, and the sum saturates at 32,767: 2 * 255 * 64 is below it, 2 * 255 * 65 beyond. A
quantized model with a weight beyond 64 is therefore computed in float32 there, which takes longer.
Quantizers that avoid saturation keep weights within 64 (NNCF: "overflow fix"), and their models
stay in 8 bits.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.graphs.constants import float32, known_input, value_of
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.walk import all_operations
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.runtime import core

QUANTIZED = "FakeQuantize"
PRODUCTS = frozenset({"Convolution", "ConvolutionBackpropData", "GroupConvolution", "MatMul"})
LARGEST = 64
"""Largest weight w for which 2 * 255 * w fits into a signed 16-bit integer."""
_PASSED = ("Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operations that may stand between a constant and its quantization."""
IN_FLOATS: Mapping[str, str] = {"LP_TRANSFORMS_MODE": "NO"}
"""Property of the plugin that makes it compute a quantized model in floats."""


def properties_for(model: ov.Model, own: OpenVinoOptions) -> Mapping[str, str]:
    """Give the compile properties with which a model's 8-bit products do not saturate on this CPU.

    Raises:
        LoadFailed: they would saturate, and the options refuse such models.
    """
    if own.integers == "fast" or not (_may_saturate(model) and saturates()):
        return {}
    if own.integers == "refuse":
        raise LoadFailed(
            "this CPU adds up products of 8 bits in 16 bits, and the model's weights go beyond 64:"
            " sums would be cut off",
            Hint(": let the model be computed in floats with {openvino.integers} exact"),
        )
    return IN_FLOATS


@cache
def saturates() -> bool:
    """Test once, by an inference, whether the plugin saturates a sum of 8-bit products."""
    x = op.parameter([1, 64], np.float32)
    low, high = float32(0.0), float32(255.0)
    quantized = op.fake_quantize(x, low, high, low, high, 256)
    packed = op.convert(op.constant(np.full((64, 16), 127, np.int8)), "f32")
    weights = op.multiply(packed, float32(1.0))
    model = ov.Model([op.matmul(quantized, weights, False, False)], [x], "eight_bits")
    compiled = core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = compiled(np.full((1, 64), 255, np.float32))[0]
    return bool((given < 64 * 255 * 126).any())


def _may_saturate(model: ov.Model) -> bool:
    """Tell whether a product has quantized inputs and a weight beyond `LARGEST`."""
    nodes = list(all_operations(model))
    quantized = [node for node in nodes if node.get_type_name() == QUANTIZED]
    if all(_weights(node) is not None for node in quantized):
        return False
    known = _constant_names(nodes)
    return any(_beyond(node, known) for node in nodes)


def _constant_names(nodes: Sequence[ov.Node]) -> set[str]:
    """Name the operations that depend on constants alone."""
    known: set[str] = set()
    for node in nodes:
        sources = [value.get_node().get_name() for value in node.input_values()]
        if node.get_type_name() == "Constant" or (sources and known.issuperset(sources)):
            known.add(node.get_name())
    return known


def _beyond(node: ov.Node, known: set[str]) -> bool:
    kind = node.get_type_name()
    if kind == "Constant":
        element = node.get_output_element_type(0)
        if element == ov.Type.i8:
            return bool((np.abs(node.data.astype(np.int16)) > LARGEST).any())
        return bool(element == ov.Type.u8) and node.get_output_size() > 0
    if kind == QUANTIZED:
        weights = _weights(node)
        return weights is not None and round(_steps(node, weights)) > LARGEST
    # A product without weights: both operands may hold any 8-bit values.
    operands = node.input_values()[:2] if kind in PRODUCTS else ()
    return bool(operands) and not any(each.get_node().get_name() in known for each in operands)


def _weights(node: ov.Node) -> Array | None:
    """Give the constant that an operation quantizes; None if it quantizes an activation."""
    source = node.input_value(0).get_node()
    while source.get_type_name() in _PASSED:
        source = source.input_value(0).get_node()
    return value_of(source)


def _steps(node: ov.Node, weights: Array) -> float:
    """Give the largest absolute 8-bit value among the quantized weights."""
    levels = int(node.get_attributes()["levels"])
    low, high = known_input(node, 1), known_input(node, 2)
    if low is None or high is None or not (high > low).all():
        return levels
    step = (high - low) / (levels - 1)
    try:
        weights = np.clip(weights, low, high)
        # The plugin centres the 8-bit values on 0, also for a range that is not centred on 0.
        around = np.abs((weights - low) / step - (levels - 1) / 2)
        return float(np.maximum(around, np.abs(weights) / step).max(initial=0))
    except ValueError:  # the weights are transposed in between
        return levels


_PART = 2.0**-15
"""Part of a step by which the ends are lowered: two roundings of a float32 near 255."""


def _round_halves_up(node: ov.Node, _here: Visit) -> None:
    _, low, high, *_ = node.input_values()
    kind = low.get_element_type()
    part = op.convert(float32(_PART / (node.get_attributes()["levels"] - 1)), kind)
    little = op.multiply(op.subtract(high, low), part)
    for index, end in ((1, low), (2, high)):
        node.input(index).replace_source_output(op.subtract(end, little).output(0))


RULES: Sequence[Rule[Ask]] = (Rule("halves_are_rounded_to_even", "FakeQuantize", _round_halves_up),)
"""Applied to graphs that TensorFlow's front end made."""
