"""Makes fake quantization round halves up, as TensorFlow does; OpenVINO rounds them to even.

Halves are common: in the range 0 to 6 with 256 levels, 1.0 is 42.5 steps. So both ends of the input
range are lowered by a small part of a step, less than float32 resolves at the last of 256 levels.
The operation stays the same, so quantized models are still computed in 8 bits.
"""

from collections.abc import Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import float32
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit

_PART = 2.0**-15
"""Part of a step by which the ends are lowered: two roundings of a float32 near 255."""


def _round_halves_up(node: ov.Node, _here: Visit) -> None:
    _, low, high, *_ = node.input_values()
    kind = low.get_element_type()
    part = op.convert(float32(_PART / (node.get_attributes()["levels"] - 1)), kind)
    little = op.multiply(op.subtract(high, low), part)
    for place, end in ((1, low), (2, high)):
        node.input(place).replace_source_output(op.subtract(end, little).output(0))


RULES: Sequence[Rule[Ask]] = (Rule("halves_are_rounded_to_even", "FakeQuantize", _round_halves_up),)
"""Applied to graphs that TensorFlow's front end made."""
