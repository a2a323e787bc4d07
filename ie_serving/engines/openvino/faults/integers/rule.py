"""Defines a rule's replacement for one integer operation, and its refusals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import openvino as ov

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.openvino.faults.integers.bounds import INT32, Values, is_within
from ie_serving.engines.openvino.graphs.constants import Operand
from ie_serving.engines.openvino.graphs.flags import title


@dataclass(frozen=True)
class Made:
    """The replacement of an operation.

    Attributes:
        output: replaces the operation's output, with the same element type; None keeps it.
        faults: messages, each with booleans of any shape: true refuses the request.
        by_element: whether each boolean concerns only the element of the output at its index.
    """

    output: ov.Output | None
    faults: Sequence[tuple[str, Operand]] = ()
    by_element: bool = False


Exact: TypeAlias = "Callable[[ov.Node, Values], Made | None]"
"""Makes an operation exact; gives None if it is exact already."""


def kind_of(node: ov.Node) -> str:
    """Name the element type of an operation's first input."""
    return str(node.get_input_element_type(0).get_type_name())


def check_constants(node: ov.Node, values: Values, numbers: Sequence[int] | None = None) -> None:
    """Refuse an operation that computes with constants that the plugin cuts to 32 bits.

    Args:
        node: the operation.
        values: of its graph.
        numbers: of the inputs that the operation computes with; None for all.

    Raises:
        LoadFailed: naming the operation.
    """
    if numbers is None:
        numbers = range(node.get_input_size())
    each = [values.of(node.input_value(i)).bounds for i in numbers]
    if not all(bounds is None or is_within(bounds, INT32) for bounds in each):
        hint = Hint("; set {openvino.integers} to fast to have it cut")
        raise LoadFailed(
            f"{named(node)} computes with a constant that does not fit into 32 bits, in which"
            f" OpenVINO computes{hint}"
        )


def refuse(node: ov.Node, _values: Values | None = None) -> NoReturn:
    """Refuse an operation that has no exact replacement.

    Raises:
        LoadFailed: naming it.
    """
    hint = Hint("; set {openvino.integers} to fast to serve it as it is")
    raise LoadFailed(f"OpenVINO does not compute {named(node)} exactly{hint}")


def leaves(node: ov.Node) -> str:
    """Give the message that results do not fit into 32 bits."""
    return (
        f"{named(node)} gives numbers that do not fit into 32 bits, in which OpenVINO computes:"
        " send smaller ones"
    )


def named(node: ov.Node) -> str:
    """Name an operation and the element type of its input."""
    number = 1 if node.get_type_name() == "Select" else 0
    return f"{title(node)} of {node.get_input_element_type(number).get_type_name()}"
