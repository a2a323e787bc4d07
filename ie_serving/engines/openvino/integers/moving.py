"""Operations that only move numbers, or find their places, and constants beyond 32 bits in them.

The plugin cuts those, each operation in its own way. `Interpolate` moves integers as float32.
"""

from collections.abc import Mapping
from types import MappingProxyType

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import int32
from ie_serving.engines.openvino.integers.bounds import (
    MOST,
    MOVES,
    WIDE,
    Values,
    data_inputs,
    ends_beyond,
    is_small,
)
from ie_serving.engines.openvino.integers.rule import Made, Rule, check_constants, named
from ie_serving.engines.openvino.integers.steps import as_int32, equal

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


def _given_out(node: ov.Node, values: Values) -> None:
    """Refuse constants that do not fit as outputs of a graph or a body."""
    check_constants(node, values)


def _resized(node: ov.Node, values: Values) -> Made | None:
    """Flag integers that float32 may not hold."""
    if is_small(values.bounds(node, 0)):
        return None
    given = as_int32(node.input_value(0))
    large = op.logical_or(op.greater(given, int32(MOST)), op.less(given, int32(-MOST)))
    cause = f"{named(node)} meets numbers beyond {MOST}, which OpenVINO rounds: send smaller ones"
    return Made(None, [(cause, large)])


_SOUGHT: Mapping[str, int] = MappingProxyType({"Bucketize": 0, "SearchSorted": 1})
"""The input with the numbers whose places are sought; the other one has what they lie between."""


def _placed(node: ov.Node, values: Values) -> Made | None:
    """Flag the ends of int32 where constants are cut to them: no other number is equal to those."""
    sought = _SOUGHT[node.get_type_name()]
    check_constants(node, values, [sought])
    bounds = values.of(node.input_value(1 - sought)).bounds
    if bounds is None:
        return None
    ends = ends_beyond(bounds)
    given = as_int32(node.input_value(sought))
    cause = (
        f"{named(node)} compares an end of what 32 bits hold with constants beyond: send other"
        " numbers"
    )
    return Made(None, [(cause, equal(given, int32(end))) for end in ends]) if ends else None


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(MOVES - _OF_THEIR_OWN, moved),
        **dict.fromkeys(_SOUGHT, _placed),
        "Interpolate": _resized,
        "Result": _given_out,
    }
)
