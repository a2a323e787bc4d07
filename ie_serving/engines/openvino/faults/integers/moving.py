"""Handles operations that only move integers, or search for them.

The plugin cuts constants beyond 32 bits in them, differently in each operation. `Interpolate` and
`ReverseSequence` move integers as float32, and `Pad` holds its padding value as float32.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.integers.bounds import (
    INT32,
    MOST,
    MOVES,
    WIDE,
    Values,
    data_inputs,
    ends_beyond,
    is_small,
)
from ie_serving.engines.openvino.faults.integers.rule import (
    MakeExact,
    Replacement,
    as_int32,
    cast,
    check_constants,
    equal,
    in_parts,
    kind_of,
    named,
)
from ie_serving.engines.openvino.graphs.constants import int32
from ie_serving.engines.openvino.graphs.rules import Rule

_OF_THEIR_OWN = frozenset(
    {"Ceiling", "Floor", "Pad", "ReverseSequence", "ScatterElementsUpdate", "ScatterNDUpdate"}
    | {"Select"}
)
"""Moving operations that have rules of their own."""
_FILL = 3
"""Number of the input of `Pad` with the padding value."""
_ENDS = frozenset({"Slice", "StridedSlice"})


def moved(node: ov.Node, values: Values) -> Replacement | None:
    """Refuse an operation that moves constants beyond 32 bits, unless they are ends of slices."""
    if node.get_output_element_type(0).get_type_name() in WIDE and not _is_end(node):
        check_constants(node, values, data_inputs(node))
    return None


def _is_end(node: ov.Node) -> bool:
    """Tell whether an output is only used as the end of slices, which may be cut to 32 bits."""
    readers = [each for out in node.outputs() for each in out.get_target_inputs()]
    return all(
        each.get_node().get_type_name() in _ENDS and each.get_index() > 0 for each in readers
    )


def _padded(node: ov.Node, values: Values) -> Replacement | None:
    """Xor the data with the padding value, pad with 0, and xor again: 0 is not rounded."""
    moved(node, values)
    fills = node.get_attributes()["pad_mode"] == "constant" and node.get_input_size() > _FILL
    if not fills or is_small(values.bounds(node, _FILL)):
        return None
    given, fill = (as_int32(node.input_value(i)) for i in (0, _FILL))
    begin, end = (node.input_value(i) for i in (1, 2))
    padded = op.pad(op.bitwise_xor(given, fill), begin, end, "constant", int32(0))
    return _as_given(node, values, op.bitwise_xor(padded, fill))


def _reversed(node: ov.Node, values: Values) -> Replacement | None:
    """Reverse in two parts, each exact as float32."""
    moved(node, values)
    if is_small(values.bounds(node, 0)):
        return None
    lengths, kept = node.input_value(1), node.get_attributes()
    high, low = (
        op.reverse_sequence(part, lengths, kept["batch_axis"], kept["seq_axis"])
        for part in in_parts(as_int32(node.input_value(0)))
    )
    return _as_given(node, values, op.bitwise_or(high, low))


def _as_given(node: ov.Node, values: Values, found: ov.Node) -> Replacement:
    bounds = values.of(node.output(0)).bounds or INT32
    return Replacement(cast(found, kind_of(node), bounds))


def _resized(node: ov.Node, values: Values) -> Replacement | None:
    """Flag integers that float32 may not hold."""
    if is_small(values.bounds(node, 0)):
        return None
    given = as_int32(node.input_value(0))
    large = op.logical_or(op.greater(given, int32(MOST)), op.less(given, int32(-MOST)))
    cause = f"{named(node)} meets numbers beyond {MOST}, which OpenVINO rounds: send smaller ones"
    return Replacement(None, [(cause, large)])


_SOUGHT: Final[Mapping[str, int]] = {"Bucketize": 0, "SearchSorted": 1}
"""Number of the input with the values to search for; the other input has the boundaries."""


def _placed(node: ov.Node, values: Values) -> Replacement | None:
    """Flag an end of int32 if constants are cut to it: no other number equals such a constant."""
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
    return Replacement(None, [(cause, equal(given, int32(end))) for end in ends]) if ends else None


RULES: Sequence[Rule[MakeExact]] = (
    Rule("moved_constants", " ".join(MOVES - _OF_THEIR_OWN), moved),
    Rule("wide_boundaries", " ".join(_SOUGHT), _placed),
    Rule("pictures", "Interpolate", _resized),
    Rule("numbers_to_pad_with", "Pad", _padded),
    Rule("reversed_rows", "ReverseSequence", _reversed),
    Rule("moved_constants", "Result Unique", check_constants),
)
