"""Puts other operations in the place of one of a graph, or behind it."""

from collections.abc import Callable

import openvino as ov

from ie_serving.engines.openvino.graphs.constants import Operand, output_of


def replace(old: ov.Output, made: ov.Output) -> None:
    """Let all that read `old` read `made`, which takes its names."""
    put_behind(old, lambda _: made)


def replace_node(node: ov.Node, made: ov.Node) -> None:
    """Let all that read the outputs of an operation read those of another, which takes its name."""
    made.set_friendly_name(node.get_friendly_name())
    for old, new in zip(node.outputs(), made.outputs(), strict=True):
        replace(old, new)


def put_behind(output: ov.Output, make: Callable[[ov.Output], Operand]) -> None:
    """Let all that read an output so far read what is made of it, which takes its names."""
    readers, names = list(output.get_target_inputs()), output.get_names()
    made = output_of(make(output))
    output.set_names(set())
    made.set_names(names)
    for reader in readers:
        reader.replace_source_output(made)
