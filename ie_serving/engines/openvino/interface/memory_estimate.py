"""What one request of a reshaped model takes at least, before anything of it is allocated.

A fixed size has memory of its own as soon as a model is compiled: a batch of 1000000000, a slip of
the pen, would take all that the machine has, and then fail without a word about its cause.
"""

import math

import openvino as ov

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint

_RAISE = Hint(", or raise {server.memory_budget_bytes}")


def check_room(model: ov.Model, asked: str) -> None:
    """Refuse shapes of which one request would take more than all requests together may.

    Args:
        model: with these shapes.
        asked: them, for the error text.

    Raises:
        LoadFailed: naming what is largest.
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
    """Count the bytes of what an operation gives, weights apart."""
    return 0 if node.get_type_name() == "Constant" else sum(map(_least, node.outputs()))


def _least(output: ov.Output) -> int:
    """Count the bytes of a tensor, each open size as small as it may be, but not 0."""
    shape = output.get_partial_shape()
    if shape.rank.is_dynamic:
        return 0
    sizes = [max(int(dim.get_min_length()), 1) for dim in shape]
    return math.prod(sizes) * int(output.get_element_type().size)
