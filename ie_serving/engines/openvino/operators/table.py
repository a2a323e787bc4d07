"""ONNX operators that this server converts, since OpenVINO lacks or misconverts them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ie_serving.engines.onnx_file import MAIN_DOMAIN, Node
from ie_serving.engines.openvino.operators import attention, elementwise, fourier, optional
from ie_serving.engines.openvino.operators import state_variables as states
from ie_serving.engines.openvino.operators.reading import Convert


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
"""By name of the operator."""
