"""Integers that OpenVINO's CPU plugin would compute wrongly, and what is done about them at load.

The plugin computes integers in 32 bits, and many operations in float32, which rounds above 2**24.
Measured with OpenVINO 2026.4; `docs/design.md` section 11 lists them, and
`tests/unit/engines/openvino/integers` compares each with numpy. By the setting `integers`:

- `exact`: such operations become others that are exact. Where a result cannot be held, or a divisor
  is 0, a flag tells of it, so that the request is refused.
- `refuse`: a model with such operations is not served.
- `fast`: nothing is changed.

Operations whose values are known to be small (`integers/bounds.py`) stay as they are.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.errors import LoadFailed
from ie_serving.core.hints import Hint
from ie_serving.engines.openvino.bodies import Flag, bodies, carried
from ie_serving.engines.openvino.integers.arithmetic import (
    COMPUTED,
    computed,
    converted,
    powered,
)
from ie_serving.engines.openvino.integers.behind import REDUCING, grows, keep_apart
from ie_serving.engines.openvino.integers.bounds import HELD, Values
from ie_serving.engines.openvino.integers.comparing import (
    chosen,
    clamped,
    compared,
    extreme,
    kept,
    limited,
    relu,
    to_boolean,
)
from ie_serving.engines.openvino.integers.dividing import divided
from ie_serving.engines.openvino.integers.moving import MOVING, moved
from ie_serving.engines.openvino.integers.rule import Made, Operand, Rule, kind_of, named, refuse
from ie_serving.engines.openvino.integers.scattered import SUMS, gathered
from ie_serving.engines.openvino.integers.sums import (
    averaged,
    cumulated,
    einsum,
    magnitudes,
    matrix,
    product,
    summed,
)

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
        LoadFailed: an operation is to be refused.
    """
    if mode == FAST or not _has_integers(model):
        return []
    return _exact(model, Values(model), mode)


def _has_integers(model: ov.Model) -> bool:
    return any(
        _may_be_inexact(node) or any(map(_has_integers, bodies(node)))
        for node in model.get_ordered_ops()
    )


def _may_be_inexact(node: ov.Node) -> bool:
    name = node.get_type_name()
    return name in _RULES and (kind_of(node) in HELD or name == "Convert")


def _exact(model: ov.Model, values: Values, mode: str) -> list[Flag]:
    flags: list[Flag] = []
    for node in model.get_ordered_ops():
        flags += carried(node, [_exact(body, values, mode) for body in bodies(node)])
        made = _made(node, values)
        if made is None and node.get_type_name() in REDUCING and grows(node, values):
            _check(node, mode)
            keep_apart(node, values)
        if made is not None:
            _check(node, mode)
            _replace(node, made, values)
            flags += [Flag(cause, _raised(wrong)) for cause, wrong in made.faults]
    return flags


def _made(node: ov.Node, values: Values) -> Made | None:
    # A fixed result is folded at load, or computed from sizes, which are small.
    if not _may_be_inexact(node) or values.of(node.output(0)).fixed:
        return None
    return _RULES[node.get_type_name()](node, values)


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


def _raised(wrong: Operand) -> ov.Node:
    flat = op.reshape(wrong, op.constant(np.array([-1], np.int64)), False)
    return op.convert(op.reduce_logical_or(flat, op.constant(np.array([0], np.int64)), True), "i32")


def _converted(node: ov.Node, values: Values) -> Made | None:
    to = node.get_output_element_type(0).get_type_name()
    return to_boolean(node, values) if to == "boolean" else converted(node, values)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"), compared
        ),
        **dict.fromkeys(("Divide", "Mod", "FloorMod"), divided),
        **dict.fromkeys(("ReduceMax", "ReduceMin"), extreme),
        **dict.fromkeys(("Maximum", "Minimum"), limited),
        **dict.fromkeys(COMPUTED, computed),
        **dict.fromkeys(MOVING, moved),
        **dict.fromkeys(("Floor", "Ceiling"), kept),
        **dict.fromkeys(SUMS, gathered),
        **dict.fromkeys(
            (
                *("EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "EmbeddingBagPacked"),
                *("EmbeddingBagPackedSum", "PRelu", "ReduceL2"),
            ),
            refuse,
        ),
        "Clamp": clamped,
        "Convert": _converted,
        "CumSum": cumulated,
        "Einsum": einsum,
        "MatMul": matrix,
        "Power": powered,
        "ReduceL1": magnitudes,
        "ReduceMean": averaged,
        "ReduceProd": product,
        "ReduceSum": summed,
        "Relu": relu,
        "Select": chosen,
    }
)
"""By operation: what makes it exact where it is not."""
