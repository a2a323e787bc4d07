"""Operators of ONNX that this server converts, since OpenVINO's front end does not, or wrongly."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ie_serving.engines.onnx_file import MAIN_DOMAIN, Node
from ie_serving.engines.openvino.operators import attention, elementwise, fourier, optional, states
from ie_serving.engines.openvino.operators.reading import Convert


class Operator(NamedTuple):
    """How one operator is converted.

    Attributes:
        convert: what is used in place of the front end's own.
        is_needed: whether the front end's own is not right for an operator of a file.
    """

    convert: Convert
    is_needed: Callable[[Node], bool] = lambda _: True


def needed(nodes: Iterable[Node]) -> Mapping[str, Convert]:
    """Give what converts operators that the front end does not, by their names."""
    return {
        node.kind: operator.convert
        for node in nodes
        if node.domain == MAIN_DOMAIN
        and (operator := OPERATORS.get(node.kind)) is not None
        and operator.is_needed(node)
    }


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "Attention": Operator(attention.attention, attention.is_needed),
        "CausalConvWithState": Operator(states.causal_convolution),
        "Celu": Operator(elementwise.celu),
        "CumProd": Operator(elementwise.cumulated_product),
        "DFT": Operator(fourier.transform, fourier.is_needed),
        "LinearAttention": Operator(states.linear_attention),
        "OptionalGetElement": Operator(optional.element),
        "OptionalHasElement": Operator(optional.has_element),
        "SwiGLU": Operator(elementwise.swiglu),
        "TensorScatter": Operator(states.tensor_scatter),
    }
)
"""By name of the operator."""
