"""Operators on what may be missing: a tensor that is given is there, and is its own element."""

import openvino as ov
import openvino.opset15 as op
from openvino.frontend import NodeContext

from ie_serving.engines.openvino.operators.reading import given


def has_element(node: NodeContext) -> list[ov.Output]:
    """Tell whether an input is given."""
    return [op.constant(given(node, 0) is not None).output(0)]


def element(node: NodeContext) -> list[ov.Output]:
    """Give the input itself."""
    return [op.convert(node.get_input(0), node.get_input(0).get_element_type()).output(0)]
