"""Goes through the operations of a graph."""

from collections.abc import Iterator

import openvino as ov

from ie_serving.core.runtime.spare_cpu import Steps
from ie_serving.engines.openvino.graphs.bodies import bodies


def operations(model: ov.Model) -> Steps[ov.Node]:
    """List the operations of a graph, bodies apart, each behind those that it reads."""
    return Steps(model.get_ordered_ops())


def all_operations(model: ov.Model) -> Iterator[ov.Node]:
    """Give the operations of a graph, each in front of those of its bodies."""
    for node in operations(model):
        yield node
        for body in bodies(node):
            yield from all_operations(body)
