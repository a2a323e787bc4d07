"""Replaces or refuses, at load, integer operations that OpenVINO's CPU plugin computes wrongly.

The plugin computes integers in 32 bits, and many operations in float32, which rounds above 2**24.
Measured with OpenVINO 2026.4; `docs/reference/openvino-faults.md` lists them, and
`tests/unit/engines/openvino/faults/integers` compares each with numpy. By the setting `integers`:

- `exact`: such operations are replaced by exact ones. A result that 32 bits cannot hold, or a
  divisor of 0, raises a flag, which refuses the request.
- `refuse`: a model with such operations is not served.
- `fast`: nothing changes.

Operations whose values are known to be small (`bounds.py`) stay as they are.

`masks` finds the wrong results that the graph itself discards by a `Select`; they are ignored.
`tf.where(tf.math.is_nan(a), 0, tf.cast(a, tf.int64))` casts NaN, which is not an integer, and gives
0 in its place. So if all readers of a result lead to a `Select`, only the flags of elements that it
selects count. Elementwise operations may stand between, since a wrong element affects only its own
result. Any other reader makes every element count.

`keep_apart` separates a reduction from the arithmetic on its result, since the plugin does both
fused, in float32. A reduction of small integers is exact and stays as it is, but arithmetic on its
result may give large numbers. Measured with OpenVINO 2026.4: `reduce_max` followed by a product, of
int32.
"""

from collections.abc import Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.faults.integers import arithmetic, comparing, moving, sums
from ie_serving.engines.openvino.faults.integers.arithmetic import COMPUTED
from ie_serving.engines.openvino.faults.integers.bounds import (
    CONVERTS,
    HELD,
    INT32,
    MOVES,
    WIDE,
    Values,
    is_small,
)
from ie_serving.engines.openvino.faults.integers.loops import entering_bodies
from ie_serving.engines.openvino.faults.integers.rule import (
    MakeExact,
    Replacement,
    as_int32,
    cast,
    check_constants,
    is_negative,
    kind_of,
    leaves,
    named,
    refuse,
    sealed,
)
from ie_serving.engines.openvino.graphs.constants import Operand, int32, known_input
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.walk import (
    Flag,
    all_operations,
    bodies,
    carried,
    operations,
)

FAST = "fast"
EXACT = "exact"
REFUSE = "refuse"
_REFUSED = (
    "EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum PRelu"
    " ReduceL2"
)
"""Inexact operations without an exact replacement."""
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
REDUCING = frozenset(
    {"Einsum", "MatMul", "ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}
)
"""Operations that are fused with arithmetic on their results, also across moves of the data."""
_FUSED = frozenset({*COMPUTED, "CumSum", "Divide", "FloorMod", "Mod", "Power"})


def _masked(node: ov.Node, values: Values) -> Replacement | None:
    """Cut a constant mask to 32 bits, which gives the same for numbers that are not negative."""
    for i in range(2):
        mask, given = known_input(node, i), node.input_value(1 - i)
        if mask is not None and not _fits(mask).all():
            check_constants(node, values, [1 - i])
            return _by_lowest_bits(node, as_int32(given), mask)
    check_constants(node, values)
    return None


def _fits(mask: Array) -> Array:
    found: Array = (mask >= INT32[0]) & (mask <= INT32[1])
    return found


def _by_lowest_bits(node: ov.Node, given: Operand, mask: Array) -> Replacement:
    """Apply the mask's lowest 31 bits; flag negative numbers where the mask has higher bits."""
    fits = _fits(mask)
    lowest = int32(np.where(fits, mask, mask & INT32[1]))
    left = op.logical_and(is_negative(given), op.constant(~fits))
    kind = kind_of(node)
    return Replacement(
        cast(op.bitwise_and(given, lowest), kind, HELD[kind]), [(leaves(node), left)]
    )


def _inverted(node: ov.Node, values: Values) -> Replacement | None:
    """Wrap u16; refuse u32 and u64, which get negative, unless the result is an output."""
    check_constants(node, values)
    kind = kind_of(node)
    if kind == "u16":
        return Replacement(cast(op.bitwise_not(as_int32(node.input_value(0))), kind, INT32))
    readers = [each.get_node().get_type_name() for each in node.output(0).get_target_inputs()]
    if kind in WIDE and HELD[kind][0] == 0 and set(readers) != {"Result"}:
        refuse(node)
    return None


RULES: Sequence[Rule[MakeExact]] = (
    Rule("wide_masks", "BitwiseOr BitwiseRightShift BitwiseXor", check_constants),
    Rule("wide_masks", "BitwiseAnd", _masked),
    Rule("inverted_bits", "BitwiseNot", _inverted),
)


def exact_integers(model: ov.Model, mode: str) -> list[Flag]:
    """Make the operations on integers exact, or refuse them. Changes `model`.

    Args:
        model: the graph.
        mode: `exact`, `fast` or `refuse`.

    Returns:
        Flags of values with which a request is refused.

    Raises:
        LoadFailed: the mode, or a rule, refuses an operation.
    """
    if mode == FAST or not any(map(_may_be_inexact, all_operations(model))):
        return []
    return _exact(model, Values(model), mode)


def _may_be_inexact(node: ov.Node) -> bool:
    is_known = bool(ALL_RULES.of(node))
    return is_known and (kind_of(node) in HELD or node.get_type_name() in CONVERTS)


def _exact(model: ov.Model, values: Values, mode: str) -> list[Flag]:
    flags: list[Flag] = []
    for node in operations(model):
        if entering := list(entering_bodies(node)):
            check_constants(node, values, entering)
        flags += carried(node, [_exact(body, values, mode) for body in bodies(node)])
        made = _replacement(node, values)
        if made is not None:
            _check(node, mode)
            # Flags come before other readers: the graph's own readers decide the masks.
            flags += _flags(node, made)
            _replace(node, made, values)
        if made is None or made.output is None:
            _keep_apart(node, values, mode)
    return flags


def _keep_apart(node: ov.Node, values: Values, mode: str) -> None:
    if node.get_type_name() in REDUCING and grows(node, values):
        _check(node, mode)
        keep_apart(node, values)


def _flags(node: ov.Node, made: Replacement) -> list[Flag]:
    counts = masks(node.output(0)) if made.by_element and made.faults else ()
    return [
        Flag.where(cause, seen)
        for cause, wrong in made.faults
        for seen in [op.logical_and(wrong, mask) for mask in counts] or [wrong]
    ]


def _replacement(node: ov.Node, values: Values) -> Replacement | None:
    if not _may_be_inexact(node) or values.stays(node):
        return None
    ((_, rule),) = ALL_RULES.of(node)
    return rule.do(node, values)


def _check(node: ov.Node, mode: str) -> None:
    if mode == REFUSE:
        hint = Hint("; set {openvino.integers} to exact or fast to serve it")
        raise LoadFailed(f"OpenVINO does not compute {named(node)} exactly{hint}")


def _replace(node: ov.Node, made: Replacement, values: Values) -> None:
    if made.output is None:
        return
    old = node.output(0)
    values.take_over(old, made.output)
    made.output.get_node().set_friendly_name(node.get_friendly_name())
    for reader in old.get_target_inputs():
        reader.replace_source_output(made.output)
    made.output.get_tensor().add_names(old.get_names())


ALL_RULES: Rules[MakeExact] = Rules(
    moving.RULES,
    arithmetic.RULES,
    RULES,
    comparing.RULES,
    arithmetic.DIVISION_RULES,
    sums.SCATTER_RULES,
    sums.RULES,
    (Rule("norms", _REFUSED, refuse),),
)
"""Rules that make operations exact; at most one for each type of operation."""


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
