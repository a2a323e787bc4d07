"""Finds the outputs of a graph that depend on the values of a request, not only on shapes."""

from collections.abc import Collection

import openvino as ov

from ie_serving.engines.openvino.graphs.rules import Visit

SOURCES = frozenset({"Parameter", "ReadValue"})


def note_source(node: ov.Node, here: Visit) -> None:
    """Note the operation if its outputs do; inputs of a body count as such.

    This rule comes first: operations that other rules insert hide the source of the values.
    """
    kind = node.get_type_name()
    inputs = range(node.get_input_size())
    if kind in SOURCES or (
        kind != "ShapeOf" and any(is_among(here.sources, node, i) for i in inputs)
    ):
        here.sources.add(str(node.get_name()))


def is_among(sources: Collection[str], node: ov.Node, number: int) -> bool:
    """Tell whether an operation has an input with a number, and it was noted."""
    has = number < node.get_input_size()
    return has and node.input_value(number).get_node().get_name() in sources
