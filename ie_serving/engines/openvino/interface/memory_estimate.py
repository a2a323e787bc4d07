"""Estimates the least memory of one request of a reshaped model, before it is allocated.

For a fixed size memory is allocated when the model is compiled: a mistyped batch of 1000000000
would take all memory of the machine, and then fail without naming its cause.
"""

import math

import openvino as ov

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint

_RAISE = Hint(", or raise {server.memory_budget_bytes}")


def check_room(model: ov.Model, asked: str) -> None:
    """Refuse shapes for which one request exceeds the memory limit of all requests together.

    Args:
        model: with these shapes.
        asked: the shapes, for the error text.

    Raises:
        LoadFailed: naming the largest tensor.
    """
    largest = max(model.get_ordered_ops(), key=_given)
    ends = [*model.inputs, *model.outputs]
    size = max(sum(map(_least, ends)), _given(largest))
    if size > BUDGET.limit:
        raise LoadFailed(
            f"the model cannot be reshaped to {asked}: one request would take {size} bytes or more,"
            f' most of them for {largest.get_type_name()} "{largest.get_friendly_name()}", and all'
            f" requests together may take {BUDGET.limit}: ask for smaller sizes",
            _RAISE,
        )


def _given(node: ov.Node) -> int:
    """Count the bytes of an operation's outputs, except weights."""
    return 0 if node.get_type_name() == "Constant" else sum(map(_least, node.outputs()))


def _least(output: ov.Output) -> int:
    """Count the bytes of a tensor, each open size as small as it may be, but not 0."""
    shape = output.get_partial_shape()
    if shape.rank.is_dynamic:
        return 0
    sizes = [max(int(dim.get_min_length()), 1) for dim in shape]
    return math.prod(sizes) * int(output.get_element_type().size)
