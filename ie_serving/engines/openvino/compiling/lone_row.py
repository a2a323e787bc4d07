"""Makes a graph of a signature for one row, compiled beside the graph for batches.

Requests gather only while the model is busy, so one that finds it idle should pay nothing for those
that do not. By the batches' compiled model it would: OpenVINO's CPU plugin looks at the shapes of
each operation in each inference where a size is open, and takes a few percent longer for one row
once it has computed many (`benchmarks/diary/batching.md` has both in figures). The threads that
suit batches do not suit one row either.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import openvino as ov

from ie_serving.engines.openvino.faults.shape_independent import computes_alike
from ie_serving.engines.openvino.graphs.shapes import elements
from ie_serving.engines.openvino.graphs.walk import operations
from ie_serving.engines.openvino.graphs.weightless import fix
from ie_serving.engines.openvino.interface.tensor_specs import Port, Ports

MOST_WEIGHTS = 32 << 20
"""Bytes of constants up to which a graph is compiled twice, since they are then in memory twice.
A larger graph computes a row for milliseconds; the check of shapes costs little beside that."""


class Fixed(NamedTuple):
    """A graph for one row, and its ports; each input has one shape."""

    model: ov.Model
    ports: Ports


def copy_for_one_row(model: ov.Model, ports: Ports) -> Fixed | None:
    """Copy a graph whose only open size is that of the batch; `fix_to_one_row` fixes it.

    Args:
        model: with the weights, which both graphs share until they are compiled.
        ports: of the model.

    Returns:
        None where another size is open, the batch is not or may not be 1, some operation may give
        other answers (`faults/shape_independent.py`), or the weights take more than `MOST_WEIGHTS`.
    """
    inputs = tuple(filter(None, map(_of_one_row, ports.inputs)))
    if len(inputs) < len(ports.inputs) or not computes_alike(model):
        return None
    if _weights(model) > MOST_WEIGHTS:
        return None
    return Fixed(model.clone(), replace(ports, inputs=inputs))


def fix_to_one_row(row: Fixed) -> None:
    """Give the inputs of a copy the shapes of its ports.

    Raises:
        RuntimeError: an operation does not take one row.
    """
    fix(row.model, {port.index: ov.PartialShape(list(shape_of(port))) for port in row.ports.inputs})


def shape_of(port: Port) -> tuple[int, ...]:
    """Give the shape of an input that has one only."""
    assert port.bounds is not None
    return tuple(low for low, _ in port.bounds)


def _of_one_row(port: Port) -> Port | None:
    """Fix the batch, if it may be 1 and nothing else is open."""
    if not port.bounds:
        return None
    (low, high), *others = port.bounds
    if not low <= 1 < high or any(low != high for low, high in others):
        return None
    fixed = replace(port, bounds=((1, 1), *others))
    return replace(fixed, spec=replace(port.spec, shape=shape_of(fixed), bounds=None))


def _weights(model: ov.Model) -> int:
    """Give the bytes of constants."""
    return sum(map(_bytes, operations(model)))


def _bytes(node: ov.Node) -> int:
    if node.get_type_name() != "Constant":
        return 0
    count = elements(node.get_output_partial_shape(0)) or 0
    return math.ceil(count * int(node.get_output_element_type(0).bitwidth) / 8)
