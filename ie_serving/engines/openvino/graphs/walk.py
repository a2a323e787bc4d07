"""Goes through the operations of a graph."""

import math
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


def elements(shape: ov.PartialShape) -> int | None:
    """Count the elements of a shape; None where it is open.

    Not by the size of the tensor, which OpenVINO cuts at 2**64.
    """
    if shape.is_dynamic:
        return None
    # Its text is one call of the binding, and each dimension would be one: 33 us instead of 3.
    return math.prod(int(size) for size in str(shape)[1:-1].split(",") if size)


def rank_of(shape: ov.PartialShape) -> int | None:
    """Count the dimensions of a shape; None where their number is open."""
    return int(shape.rank.get_length()) if shape.rank.is_static else None
