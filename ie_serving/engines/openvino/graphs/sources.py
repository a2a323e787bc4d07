"""Which outputs of a graph follow from the values of a request, and not from shapes alone."""

from collections.abc import Collection

import openvino as ov

from ie_serving.engines.openvino.graphs.rules import Visit

SOURCES = frozenset({"Parameter", "ReadValue"})


def note_source(node: ov.Node, here: Visit) -> None:
    """Note the operation if its outputs do; what a body is given counts as such.

    A rule to be asked first: what others put in front of the operation hides where values are from.
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
