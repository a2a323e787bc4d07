"""Keeps OpenVINO from giving the magnitudes of numbers to whoever reads the numbers.

A pass of OpenVINO 2026.4, AbsSinking, moves an `Abs` in front of the `Concat` that it reads, and so
changes what all other operations read of that `Concat`: of `[-1, 2]` they get `[1, 2]`. So each
`Abs` gets concatenations of its own here, of the magnitudes. That is what the pass means to make.
"""

from collections.abc import Sequence

import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.graphs.bodies import bodies
from ie_serving.engines.openvino.graphs.walk import operations


def part_absolutes(model: ov.Model) -> None:
    """Let no `Abs` read a `Concat`, in bodies neither.

    Called when nothing more is added to the graph: checks of integers have `Abs` as well.
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
    for node in nodes:  # what is put together comes before what it is put together to
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
