"""Constants beyond 32 bits that operations only move: the plugin cuts them, each in its own way."""

from collections.abc import Mapping
from types import MappingProxyType

import openvino as ov

from ie_serving.engines.openvino.integers.bounds import MOVES, WIDE, Values, data_inputs
from ie_serving.engines.openvino.integers.rule import Made, Rule, check_constants

_OF_THEIR_OWN = frozenset(
    {"Ceiling", "Floor", "ScatterElementsUpdate", "ScatterNDUpdate", "Select"}
)
"""Operations whose rules stand elsewhere."""
_ENDS = frozenset({"Slice", "StridedSlice"})


def moved(node: ov.Node, values: Values) -> Made | None:
    """Refuse what moves constants that do not fit, unless they are ends of slices."""
    if node.get_output_element_type(0).get_type_name() in WIDE and not _is_end(node):
        check_constants(node, values, data_inputs(node))
    return None


def _is_end(node: ov.Node) -> bool:
    """Tell whether all that is done with an output is to slice by it: an end may be anywhere."""
    readers = [each for out in node.outputs() for each in out.get_target_inputs()]
    return all(
        each.get_node().get_type_name() in _ENDS and each.get_index() > 0 for each in readers
    )


RULES: Mapping[str, Rule] = MappingProxyType(dict.fromkeys(MOVES - _OF_THEIR_OWN, moved))
