"""Makes a graph of a signature for one row, compiled beside the graph for batches.

Requests gather only while the model is busy, so one that finds it idle should pay nothing for those
that do not. By the batches' compiled model it would: OpenVINO's CPU plugin looks at the shapes of
each operation in each inference where a size is open, and takes a few percent longer for one row
once it has computed many (`benchmarks/diary/batching.md` has both in figures). The threads that
suit batches do not suit one row either.

`unlike` finds graphs that may give other answers with static shapes than with open ones. With
static shapes OpenVINO's CPU plugin uses other kernels; some give other outputs, or end the process.
With 2026.4, for one row: floats converted to 8 bits wrap instead of saturating; a `TopK` of several
values orders equal ones differently; quantized NaN become other numbers. So a graph is compiled a
second time with static shapes, for one row or for known ones, only if each operation is one of
these, which `test_shape_independent.py` compares.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import openvino as ov

from ie_serving.engines.openvino.faults.known_operations import named
from ie_serving.engines.openvino.graphs.constants import known_input
from ie_serving.engines.openvino.graphs.rules import Rule, Rules
from ie_serving.engines.openvino.graphs.walk import elements, operations
from ie_serving.engines.openvino.graphs.weightless import fix
from ie_serving.engines.openvino.interface.tensor_specs import Port, SignaturePorts

MOST_WEIGHTS = 32 << 20
"""Bytes of constants up to which a graph is compiled twice, since they are then in memory twice.
A larger graph computes a row for milliseconds; the check of shapes costs little beside that."""

FLOATS = named("f16 f32")
TYPES = FLOATS | named("i32 i64 boolean")
"""Element types for which operations that move data were compared."""
MOVES = named(
    "Broadcast Concat Constant Convert Gather Identity Pad Parameter Range Reshape Result "
    "ScatterElementsUpdate Select ShapeOf Slice Split Squeeze StridedSlice Transpose Unsqueeze "
    "VariadicSplit"
)
COMPUTES = named(
    "Add AvgPool BatchNormInference Clamp Convolution ConvolutionBackpropData Cos Divide Elu Equal "
    "Erf Exp Gelu GroupConvolution HSigmoid HSwish HardSigmoid Interpolate Less Log MVN MatMul "
    "MaxPool Maximum Minimum Mish Multiply Negative PRelu Power ReduceL2 ReduceMax ReduceMean "
    "ReduceMin ReduceSum Relu Sigmoid SoftPlus Softmax Sqrt SquaredDifference Subtract Swish Tanh "
    "TopK"
)
"""Operations compared on floats. Integers have rules of their own (`integers/exact.py`)."""
COUNTS = named("Add Divide Equal Less Multiply Subtract")
"""Operations compared on integers, too."""
_FAULT = "known_sizes_cast_otherwise_than_open_ones"


class LoneRowGraph(NamedTuple):
    """A graph for one row, and its ports; each input has one shape."""

    model: ov.Model
    ports: SignaturePorts


def copy_for_one_row(model: ov.Model, ports: SignaturePorts) -> LoneRowGraph | None:
    """Copy a graph whose only open size is that of the batch; `fix_to_one_row` fixes it.

    Args:
        model: graph with the weights, which both graphs share until they are compiled.
        ports: ports of the model.

    Returns:
        None where another size is open, the batch is not or may not be 1, some operation may give
        other outputs, or the weights take more than `MOST_WEIGHTS` (`unlike`).
    """
    inputs = tuple(filter(None, map(_of_one_row, ports.inputs)))
    if len(inputs) < len(ports.inputs) or unlike(model):
        return None
    return LoneRowGraph(model.clone(), replace(ports, inputs=inputs))


def fix_to_one_row(row: LoneRowGraph) -> None:
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


def unlike(model: ov.Model) -> str:
    """Say why a graph is not compiled a second time for known sizes; empty if it may be.

    An operation may give other outputs than with open sizes, or it has much weights.
    """
    others = sorted({node.get_type_name() for node in operations(model) if not _is_alike(node)})
    if others:
        return f"{', '.join(others)} may give other outputs with known sizes"
    return "its weights would take much memory twice" if _weights(model) > MOST_WEIGHTS else ""


def _is_alike(node: ov.Node) -> bool:
    name = node.get_type_name()
    if not all(rule.do(node) for _, rule in RULES.of(node)):
        return False
    if name in MOVES:
        return _types(node.inputs()) | _types(node.outputs()) <= TYPES
    given = _types(node.inputs()[:1])
    return (name in COMPUTES and given <= FLOATS) or (name in COUNTS and given <= TYPES)


def _types(tensors: list[ov.Input] | list[ov.Output]) -> set[str]:
    return {each.get_element_type().get_type_name() for each in tensors}


def _widens(node: ov.Node) -> bool:
    """Tell whether the target type of a `Convert` holds every value of the source type."""
    given, made = node.get_input_element_type(0), node.get_output_element_type(0)
    if made.get_type_name() == "boolean":
        return False
    return bool(made.is_real() and made.bitwidth == 32) or not (given.is_real() or made.is_real())


def _has_no_batch_dimension(node: ov.Node) -> bool:
    return not node.get_attributes().get("batch_dims", 0)


def _is_plain(node: ov.Node) -> bool:
    """Tell whether an `Interpolate` is of a kind that was compared."""
    return node.get_attributes()["mode"] in {"linear_onnx", "nearest"}


def _takes_the_first(node: ov.Node) -> bool:
    """Tell whether a `TopK` gives one value, the first among equal ones (`faults/rewrites.py`)."""
    count = known_input(node, 1)
    return count is not None and count.item() == 1 and bool(node.get_attributes().get("stable"))


def _gives_no_indices(node: ov.Node) -> bool:
    """Tell whether no operation reads the indices of a `MaxPool`."""
    return node.get_output_size() < 2 or not node.output(1).get_target_inputs()


RULES: Rules[Callable[[ov.Node], bool]] = Rules(
    (
        Rule(_FAULT, "Convert", _widens),
        Rule(_FAULT, "Gather", _has_no_batch_dimension),
        Rule(_FAULT, "Interpolate", _is_plain),
        Rule(_FAULT, "MaxPool", _gives_no_indices),
        Rule(_FAULT, "TopK", _takes_the_first),
    )
)
