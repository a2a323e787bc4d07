"""Ignores wrong results that the graph itself discards by a `Select`.

`tf.where(tf.math.is_nan(a), 0, tf.cast(a, tf.int64))` casts NaN, which is not an integer, and gives
0 in its place. So if all readers of a result lead to a `Select`, only the flags of elements that it
selects count. Elementwise operations may stand between, since a wrong element affects only its own
result. Any other reader makes every element count.
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
"""Longest chain of operations that is followed; beyond it every element counts."""
_MOST = 8
"""Most masks of one result, one or two operations each; beyond it every element counts."""


def masks(output: ov.Output) -> Sequence[Operand]:
    """Give masks, one for each path of readers: an element counts if any mask selects it.

    Returns:
        Booleans that can be broadcast with the output; none if every element counts.
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
    """Tell whether shapes broadcast from their ends, as those of a mask do."""
    return str(node.get_attributes().get("auto_broadcast", "numpy")) in ("numpy", "none")
