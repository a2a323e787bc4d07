"""Makes constants of the element types that operations take as arguments."""

from typing import TypeAlias

import numpy as np
import openvino as ov
import openvino.opset15 as op
from numpy.typing import ArrayLike

from ie_serving.core.values.tensors import Array

MOST_FOLDED = 20
"""Operations that `is_constant` looks at: those of a scale that is computed at load are fewer."""
LAST = 2**31 - 1
"""An end behind all indices of an axis; the plugin computes ends in 32 bits."""

Operand: TypeAlias = "ov.Node | ov.Output"
"""An operand of an operation: a node stands for its only output."""


def output_of(value: Operand) -> ov.Output:
    """Give the output that an operand stands for."""
    return value if isinstance(value, ov.Output) else value.output(0)


def int32(value: ArrayLike) -> ov.Node:
    """Give a constant: a number is a scalar, a list has its shape."""
    return op.constant(np.array(value, np.int32))


def int64(value: ArrayLike) -> ov.Node:
    """Give a constant; axes and indices are given so."""
    return op.constant(np.array(value, np.int64))


def float32(value: ArrayLike) -> ov.Node:
    """Give a constant."""
    return op.constant(np.array(value, np.float32))


def value_of(node: ov.Node) -> Array | None:
    """Give the value of a constant; None for any other operation."""
    return np.asarray(node.data) if node.get_type_name() == "Constant" else None


def constant_behind(output: ov.Output) -> Array | None:
    """Give the value of a constant, also through a conversion or a change of rank; else None."""
    node = output.get_node()
    while node.get_type_name() in ("Convert", "Reshape", "Unsqueeze"):
        node = node.input_value(0).get_node()
    return value_of(node)


def is_constant(output: ov.Output) -> bool:
    """Tell whether few operations compute a value from constants alone, as the compile will."""
    found = [output.get_node()]
    for _ in range(MOST_FOLDED):
        node = found.pop()
        if not node.get_input_size() and node.get_type_name() != "Constant":
            return False
        found += [each.get_node() for each in node.input_values()]
        if not found:
            return True
    return False


def known_input(node: ov.Node, number: int) -> Array | None:
    """Give the value of an operation's input; None where it is no constant, or there is none."""
    return value_of(node.input_value(number).get_node()) if number < node.get_input_size() else None
