"""Works around OpenVINO's pass AbsSinking, which gives absolute values to readers of the originals.

The pass of OpenVINO 2026.4 moves an `Abs` in front of the `Concat` that it reads, which changes
that `Concat` for all its other readers: they get `[1, 2]` instead of `[-1, 2]`. Here each such
`Abs` is replaced by a separate `Concat` of absolute values, which is what the pass means to make.
"""

from collections.abc import Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.graphs.walk import operations


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
