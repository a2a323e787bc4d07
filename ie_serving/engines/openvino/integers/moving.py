"""Constants beyond 32 bits that operations only move: the plugin cuts them, each in its own way."""

from collections.abc import Mapping
from types import MappingProxyType

import openvino as ov

from ie_serving.engines.openvino.integers.bounds import MOVES, WIDE, Values
from ie_serving.engines.openvino.integers.rule import Made, check_constants, kind_of

_DATA: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "OneHot": (2, 3),
        "Pad": (0, 3),
        "ScatterElementsUpdate": (0, 2),
        "ScatterNDUpdate": (0, 2),
        "ScatterUpdate": (0, 2),
    }
)
"""Inputs whose values are in the output. Of `Concat` they are all, of others it is the first."""
_ENDS = frozenset({"Slice", "StridedSlice"})
MOVING = tuple(MOVES - {"ScatterElementsUpdate", "ScatterNDUpdate", "Select"})


def moved(node: ov.Node, values: Values) -> Made | None:
    """Refuse what moves constants that do not fit, unless they are ends of slices."""
    if kind_of(node) in WIDE and not _is_end(node):
        check_constants(node, values, data_inputs(node))
    return None


def data_inputs(node: ov.Node) -> tuple[int, ...]:
    """Give the inputs whose values are in the output of an operation that moves them."""
    if node.get_type_name() == "Concat":
        return tuple(range(node.get_input_size()))
    return tuple(i for i in _DATA.get(node.get_type_name(), (0,)) if i < node.get_input_size())


def _is_end(node: ov.Node) -> bool:
    """Tell whether all that is done with an output is to slice by it: an end may be anywhere."""
    readers = [each for out in node.outputs() for each in out.get_target_inputs()]
    return all(
        each.get_node().get_type_name() in _ENDS and each.get_index() > 0 for each in readers
    )
