"""Separates reductions from arithmetic on their results; the plugin does both fused, in float32.

A reduction of small integers is exact and stays as it is, but arithmetic on its result may give
large numbers. Measured with OpenVINO 2026.4: `reduce_max` followed by a product, of int32.
"""

import openvino as ov

from ie_serving.engines.openvino.faults.integers.arithmetic import COMPUTED
from ie_serving.engines.openvino.faults.integers.bounds import (
    CONVERTS,
    HELD,
    MOVES,
    Values,
    is_small,
)
from ie_serving.engines.openvino.faults.integers.rule import kind_of
from ie_serving.engines.openvino.faults.integers.steps import sealed

REDUCING = frozenset(
    {"Einsum", "MatMul", "ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}
)
"""Operations that are fused with arithmetic on their results, also across moves of the data."""
_FUSED = frozenset({*COMPUTED, "CumSum", "Divide", "FloorMod", "Mod", "Power"})


def grows(node: ov.Node, values: Values) -> bool:
    """Tell whether arithmetic on a result may give an integer that float32 does not hold."""
    if kind_of(node) not in HELD or values.of(node.output(0)).fixed:
        return False
    return any(_is_large(reader, values) for reader in _readers(node))


def _is_large(node: ov.Node, values: Values) -> bool:
    if node.get_type_name() not in _FUSED | CONVERTS | MOVES:
        return False
    bounds = values.of(node.output(0)).bounds
    if bounds is None:
        return False
    return not is_small(bounds) or any(_is_large(each, values) for each in _readers(node))


def _readers(node: ov.Node) -> list[ov.Node]:
    return [each.get_node() for each in node.output(0).get_target_inputs()]


def keep_apart(node: ov.Node, values: Values) -> None:
    """Put a bitwise Or, which is not fused, between a result and its readers."""
    old = node.output(0)
    # A Result of the graph does not compute, so nothing is fused with it.
    readers = [
        each for each in old.get_target_inputs() if each.get_node().get_type_name() != "Result"
    ]
    found = sealed(old)
    values.take_over(old, found)
    for reader in readers:
        reader.replace_source_output(found)
