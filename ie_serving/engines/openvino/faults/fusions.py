"""Works around passes of OpenVINO that fuse or move operations and then answer wrongly.

A reduction of a tensor with three dimensions over its first or its last one is computed with the
values of other channels, or with memory behind them, where an elementwise operation with a constant
per channel follows it: from the second row on. With one dimension more, which is reduced as well,
it takes the right ones.

An attention without a mask whose first request has a length of 1 computes others wrongly, and so
does one of known sizes with as many heads as positions.

The pass AbsSinking gives absolute values to readers of the originals (OpenVINO 2026.4). It moves an
`Abs` in front of the `Concat` that it reads, which changes that `Concat` for all its other readers:
they get `[1, 2]` instead of `[-1, 2]`. Here each such `Abs` is replaced by a separate `Concat` of
absolute values, which is what the pass means to make.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.constants import (
    constant_behind,
    float32,
    int64,
    known_input,
)
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit, put_behind, replace_node
from ie_serving.engines.openvino.graphs.walk import bodies, operations, rank_of

_ATTENTION: Final = "ScaledDotProductAttention"
_RANK: Final = 3
_WRONG_AXES: Final = (0, 2)
_KINDS: Final = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
_WITH_CONSTANTS: Final = frozenset(
    {
        *("Add", "BatchNormInference", "Divide", "FakeQuantize", "FloorMod", "Maximum", "Minimum"),
        *("Mod", "Multiply", "PRelu", "Power", "SquaredDifference", "Subtract"),
    }
)
"""Operations that the plugin fuses with the constants beside them."""
_PASSED: Final = frozenset(
    {
        *("Abs", "Ceiling", "Clamp", "Convert", "Elu", "Erf", "Exp", "Floor", "Gelu", "HSigmoid"),
        *("HSwish", "HardSigmoid", "Log", "Mish", "Negative", "Relu", "Reshape", "Round"),
        *("Sigmoid", "Sign", "SoftPlus", "Sqrt", "Squeeze", "Swish", "Tanh", "Unsqueeze"),
    }
)
"""Operations of one value each, which may stand between a reduction and what is fused with it."""
_SWALLOWED: Final = 2.0**-24
"""Least number of float16; a softmax of scores with it added to each is the same."""


def _reduce_one_more(node: ov.Node, _: Visit) -> None:
    """Reduce over an added last dimension as well, where values per channel follow."""
    axes = known_input(node, 1)
    if axes is None or axes.size != 1 or rank_of(node.get_input_partial_shape(0)) != _RANK:
        return
    axis = int(axes.item()) % _RANK
    if axis not in _WRONG_AXES or not _has_channels_behind(node.output(0)):
        return
    data, keeps = node.input_value(0), node.get_attributes()["keep_dims"]
    node.input(0).replace_source_output(op.unsqueeze(data, int64([_RANK])).output(0))
    node.input(1).replace_source_output(int64([axis, _RANK]).output(0))
    node.validate_and_infer_types()
    if keeps:
        put_behind(node.output(0), lambda reduced: op.squeeze(reduced, int64([_RANK])))


def _has_channels_behind(output: ov.Output) -> bool:
    ahead = list(_readers(output))
    seen = set[str]()
    while ahead:
        node = ahead.pop()
        if node.get_name() in seen:
            continue
        seen.add(node.get_name())
        if node.get_type_name() in _WITH_CONSTANTS:
            beside = [constant_behind(each) for each in node.input_values()]
            constants = [each for each in beside if each is not None]
            if any(each.size > 1 for each in constants):
                return True
            if len(constants) < len(beside) - 1:
                continue  # with other data beside it nothing is fused
        elif node.get_type_name() not in _PASSED:
            continue
        ahead += _readers(node.output(0))
    return False


def _readers(output: ov.Output) -> Iterator[ov.Node]:
    return (each.get_node() for each in output.get_target_inputs())


def _shift_scores(node: ov.Node, _: Visit) -> None:
    """Add what rounding swallows to the scores of an attention over an open length.

    A softmax may be written out, from its `Exp` on, with or without the greatest score.
    """
    shape, readers = node.get_input_partial_shape(0), node.output(0).get_target_inputs()
    rank, axis = rank_of(shape), node.get_attributes().get("axis", -1)
    is_attention = rank and axis in (-1, rank - 1) and shape[rank - 1].is_dynamic
    kinds = {node.get_type_name(), *(each.get_node().get_type_name() for each in readers)}
    if not is_attention or not kinds & {"Softmax", "ReduceSum"}:
        return
    first, above = [node], node.input_value(0).get_node()
    if node.get_type_name() == "Exp" and above.get_type_name() == "Subtract":
        first = [above, above.input_value(1).get_node()]
    scores, names = first[0].input_value(0), {each.get_name() for each in first}
    near = [each for each in scores.get_target_inputs() if each.get_node().get_name() in names]
    shifted = op.add(scores, _shift(scores.get_element_type())).output(0)
    for reader in near:
        reader.replace_source_output(shifted)


def _attend_to_all(node: ov.Node, _: Visit) -> None:
    """Give an attention over an open length a mask that is not zeros, which the compile drops."""
    query, key, value, *more = node.input_values()
    rank = rank_of(key.get_partial_shape())
    is_masked = node.get_attributes()["causal"] or (more and not more[0].element_type.is_real())
    if not rank or key.get_partial_shape()[rank - 2].is_static or is_masked:
        return
    all_keys = op.reshape(_shift(key.get_element_type()), int64([1, 1]), special_zero=False)
    if more:
        node.input(3).replace_source_output(op.add(more[0], all_keys).output(0))
    else:
        replace_node(node, op.scaled_dot_product_attention(query, key, value, all_keys))


def _part_heads(node: ov.Node, _: Visit) -> None:
    """Keep an attention of as many heads as positions from what the plugin would fuse it with."""
    shape, kind = node.get_input_partial_shape(0), node.get_type_name()
    rank = rank_of(shape)
    if not rank or rank < _RANK or shape.is_dynamic:
        return
    heads, positions, _ = shape.to_shape()[-_RANK:]
    if heads != positions or heads == 1:
        return
    near = {each.get_type_name() for each in _readers(node.output(0))}
    near |= {each.get_node().get_type_name() for each in node.input_values()}
    if kind == _ATTENTION:
        for operand in node.inputs()[:3]:
            operand.replace_source_output(_moved(operand.get_source_output()))
    elif not ({"MatMul"} if kind == "Softmax" else {"MatMul", "ReduceSum"}) <= near:
        return
    put_behind(node.output(0), _moved)


def _moved(output: ov.Output) -> ov.Output:
    """Move elements by no step, which the plugin copies and does not fuse."""
    return op.roll(output, int64([0]), int64([0])).output(0)


def _shift(kind: ov.Type) -> ov.Node:
    return op.convert(float32(_SWALLOWED), kind)


RULES: Sequence[Rule[Ask]] = (
    Rule("values_per_channel_are_those_of_others", _KINDS, _reduce_one_more),
    Rule("an_attention_of_length_1_stays", _ATTENTION, _attend_to_all),
    Rule("an_attention_of_length_1_stays", "Softmax Exp", _shift_scores),
    Rule("an_attention_mixes_heads_and_places", f"{_ATTENTION} Softmax Divide", _part_heads),
)


def part_absolutes(model: ov.Model) -> None:
    """Replace each `Abs` of a `Concat`, also in bodies of loops and branches.

    Call it as the last change to the graph: the checks of integers add `Abs` operations too.
    """
    nodes = operations(model)
    for node in nodes:
        for body in bodies(node):
            part_absolutes(body)
    absolutes = [node for node in nodes if node.get_type_name() == "Abs" and _joined(node)]
    if absolutes:
        _part(nodes, absolutes)


def _part(nodes: Sequence[ov.Node], absolutes: Sequence[ov.Node]) -> None:
    left = [node.input_value(0).get_node() for node in absolutes]
    wanted: set[str] = set()
    while left:
        concat = left.pop()
        if concat.get_name() not in wanted:
            wanted.add(concat.get_name())
            left += [each.get_node() for each in concat.input_values() if _is_concat(each)]
    made: dict[str, ov.Node] = {}
    for node in nodes:  # inputs of a Concat come before the Concat
        if node.get_name() in wanted:
            parts = [made.get(_name(each)) or op.abs(each) for each in node.input_values()]
            made[node.get_name()] = op.concat(parts, node.get_attributes()["axis"])
    for node in absolutes:
        _replace(node, made[_name(node.input_value(0))])


def _joined(node: ov.Node) -> bool:
    return _is_concat(node.input_value(0))


def _is_concat(output: ov.Output) -> bool:
    return bool(output.get_node().get_type_name() == "Concat")


def _name(output: ov.Output) -> str:
    return str(output.get_node().get_name())


def _replace(node: ov.Node, made: ov.Node) -> None:
    old = node.output(0)
    for reader in old.get_target_inputs():
        reader.replace_source_output(made.output(0))
    made.output(0).get_tensor().add_names(old.get_names())
