"""Results that the graph itself leaves out: what is wrong with them is no fault of a request.

`tf.where(tf.math.is_nan(a), 0, tf.cast(a, tf.int64))` casts NaN, which no integer is, and gives 0
in its place. So a flag of single elements counts where a `Select` chooses them, if all that is done
with the others is to pass them over; operations of single elements may stand between, since a wrong
one spoils its own result alone. Whatever else reads a result sees all of it.
"""

from collections.abc import Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import Operand

_BY_ELEMENT = frozenset(
    {
        *("Abs", "Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Convert"),
        *("Maximum", "Minimum", "Multiply", "Negative", "Subtract"),
    }
)
_DEEPEST = 8
"""Operations, one behind the other, that are looked through."""
_MOST = 8
"""Masks of one result; each is an operation or two for every element."""


def masks(output: ov.Output) -> Sequence[Operand]:
    """Give where elements of an output count: each mask is of one way on, and any will do.

    Returns:
        Booleans that can be broadcast with the output; none where every element counts.
    """
    found = _masks(output, _DEEPEST)
    return found if len(found) <= _MOST else ()


def _masks(output: ov.Output, deepest: int) -> list[Operand]:
    found: list[Operand] = []
    for reader in output.get_target_inputs():
        own = _of_reader(reader, deepest)
        if not own:
            return []
        found += own
    return found


def _of_reader(reader: ov.Input, deepest: int) -> list[Operand]:
    node = reader.get_node()
    is_choice = node.get_type_name() == "Select" and reader.get_index() > 0
    if not deepest or not _is_broadcast(node):
        return []
    if is_choice:
        chosen = _chosen(node, reader.get_index())
        return [op.logical_and(chosen, each) for each in _masks(node.output(0), deepest - 1)] or [
            chosen
        ]
    return _masks(node.output(0), deepest - 1) if node.get_type_name() in _BY_ELEMENT else []


def _chosen(node: ov.Node, side: int) -> Operand:
    condition = node.input_value(0)
    return condition if side == 1 else op.logical_not(condition)


def _is_broadcast(node: ov.Node) -> bool:
    """Tell whether shapes are matched from their ends, as those of a mask are."""
    return str(node.get_attributes().get("auto_broadcast", "numpy")) in ("numpy", "none")
