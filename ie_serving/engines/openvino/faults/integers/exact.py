"""Replaces or refuses, at load, integer operations that OpenVINO's CPU plugin computes wrongly.

The plugin computes integers in 32 bits, and many operations in float32, which rounds above 2**24.
Measured with OpenVINO 2026.4; `docs/reference/openvino-faults.md` lists them, and
`tests/unit/engines/openvino/faults/integers` compares each with numpy. By the setting `integers`:

- `exact`: such operations are replaced by exact ones. A result that 32 bits cannot hold, or a
  divisor of 0, raises a flag, which refuses the request.
- `refuse`: a model with such operations is not served.
- `fast`: nothing changes.

Operations whose values are known to be small (`bounds.py`) stay as they are.
"""

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.openvino.faults.integers import (
    arithmetic,
    bits,
    comparing,
    dividing,
    moving,
    scattered,
    sums,
)
from ie_serving.engines.openvino.faults.integers.behind import REDUCING, grows, keep_apart
from ie_serving.engines.openvino.faults.integers.bounds import CONVERTS, HELD, Values
from ie_serving.engines.openvino.faults.integers.loops import entering_bodies
from ie_serving.engines.openvino.faults.integers.masked import masks
from ie_serving.engines.openvino.faults.integers.rule import (
    Exact,
    Made,
    check_constants,
    kind_of,
    named,
    refuse,
)
from ie_serving.engines.openvino.graphs.bodies import bodies, carried
from ie_serving.engines.openvino.graphs.flags import Flag
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.walk import all_operations, operations

FAST = "fast"
EXACT = "exact"
REFUSE = "refuse"


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
    is_known = bool(_RULES.of(node))
    return is_known and (kind_of(node) in HELD or node.get_type_name() in CONVERTS)


def _exact(model: ov.Model, values: Values, mode: str) -> list[Flag]:
    flags: list[Flag] = []
    for node in operations(model):
        if entering := list(entering_bodies(node)):
            check_constants(node, values, entering)
        flags += carried(node, [_exact(body, values, mode) for body in bodies(node)])
        made = _made(node, values)
        if made is not None:
            _check(node, mode)
            # Before other operations read the output: the graph's readers decide the masks.
            flags += _flags(node, made)
            _replace(node, made, values)
        if made is None or made.output is None:
            _keep_apart(node, values, mode)
    return flags


def _keep_apart(node: ov.Node, values: Values, mode: str) -> None:
    if node.get_type_name() in REDUCING and grows(node, values):
        _check(node, mode)
        keep_apart(node, values)


def _flags(node: ov.Node, made: Made) -> list[Flag]:
    counts = masks(node.output(0)) if made.by_element and made.faults else ()
    return [
        Flag.where(cause, seen)
        for cause, wrong in made.faults
        for seen in [op.logical_and(wrong, mask) for mask in counts] or [wrong]
    ]


def _made(node: ov.Node, values: Values) -> Made | None:
    if not _may_be_inexact(node) or values.stays(node):
        return None
    ((_, rule),) = _RULES.of(node)
    return rule.do(node, values)


def _check(node: ov.Node, mode: str) -> None:
    if mode == REFUSE:
        hint = Hint("; set {openvino.integers} to exact or fast to serve it")
        raise LoadFailed(f"OpenVINO does not compute {named(node)} exactly{hint}")


def _replace(node: ov.Node, made: Made, values: Values) -> None:
    if made.output is None:
        return
    old = node.output(0)
    values.take_over(old, made.output)
    made.output.get_node().set_friendly_name(node.get_friendly_name())
    for reader in old.get_target_inputs():
        reader.replace_source_output(made.output)
    made.output.get_tensor().add_names(old.get_names())


_REFUSED = (
    "EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum PRelu"
    " ReduceL2"
)
"""Inexact operations without an exact replacement."""

_RULES: Rules[Exact] = Rules(
    moving.RULES,
    arithmetic.RULES,
    bits.RULES,
    comparing.RULES,
    dividing.RULES,
    scattered.RULES,
    sums.RULES,
    (Rule("norms", _REFUSED, refuse),),
)
"""Rules that make operations exact; at most one for each type of operation."""
