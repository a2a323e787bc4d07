"""Keeps NaN and positive infinity of a request where OpenVINO's CPU plugin would lose them.

The plugin's maximum instruction returns the second operand if either is NaN, so `Relu` turns NaN
into 0; its clipping of exponents makes `Exp` turn NaN into infinity. Which operations are affected
depends on the instruction set of the CPU. A graph with a check at each of them takes longer, and
few requests contain NaN. So that graph is compiled beside the usual one when the first request
comes that needs it (`engines/run/detour.py`).

A request is refused if NaN or infinity reaches an operation that neither keeps it nor has a rule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.known_operations import named
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int64
from ie_serving.engines.openvino.graphs.flags import Flag, title
from ie_serving.engines.openvino.graphs.rewiring import put_behind, replace
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.walk import all_operations
from ie_serving.engines.run.program import Runs


@dataclass(frozen=True)
class Nonfinite:
    """How a graph treats NaN and infinity in requests; by default as OpenVINO does.

    Attributes:
        kept: this graph keeps them.
        elsewhere: compiles a graph that keeps them; called at the first request that contains any,
            if this graph may lose them. Raises LoadFailed.
    """

    kept: bool = False
    elsewhere: Callable[[], Runs] | None = None


MOVES = named(
    "Assign BatchToSpace Broadcast Concat Constant Convert ConvertLike DepthToSpace Gather "
    "GatherElements GatherND Identity If Loop Pad Parameter ReadValue Reshape Result Reverse Roll "
    "ScatterUpdate "
    "Select ShapeOf ShuffleChannels Slice SpaceToBatch SpaceToDepth Split Squeeze StridedSlice "
    "TensorIterator Tile Transpose Unsqueeze VariadicSplit"
)
"""Operations that pass NaN on unchanged. Loops and branches do what their bodies do."""
COMPUTES = named(
    "Add AvgPool BatchNormInference Convolution ConvolutionBackpropData CumSum Divide Einsum Equal "
    "Greater GreaterEqual GroupConvolution GroupConvolutionBackpropData IsFinite IsInf IsNaN Less "
    "LessEqual MatMul MVN Multiply Negative NormalizeL2 NotEqual Power ReduceL1 ReduceL2 "
    "ReduceMean ReduceProd ReduceSum SquaredDifference Subtract"
)
"""Operations that compute with NaN as IEEE 754 requires."""


def loses_nonfinite(model: ov.Model) -> bool:
    """Tell whether a graph has float inputs and an operation that may lose NaN."""
    takes_floats = any(port.get_element_type().is_real() for port in model.inputs)
    return takes_floats and any(map(_may_lose, all_operations(model)))


def _refuse_nonfinite(node: ov.Node, _: Visit) -> Iterator[Flag]:
    """Give a flag that is raised if an operation gets NaN or infinity and may lose it."""
    if _may_lose(node) and not _is_changed(node):
        yield _given(node)


def _may_lose(node: ov.Node) -> bool:
    kind = node.get_type_name()
    if kind in ("Convert", "ConvertLike"):
        return _is_real(node.input_value(0)) and node.get_output_element_type(0) == ov.Type.boolean
    return kind not in MOVES and kind not in COMPUTES and bool(_floats(node))


def _floats(node: ov.Node) -> list[ov.Output]:
    """List the inputs that are floats and not constants."""
    return [
        each
        for each in node.input_values()
        if _is_real(each) and each.get_node().get_type_name() != "Constant"
    ]


def _is_real(output: ov.Output) -> bool:
    return bool(output.get_element_type().is_real())


def _is_changed(node: ov.Node) -> bool:
    # The rules append operations that broadcast as numpy does.
    aligned = node.get_attributes().get("auto_broadcast", "numpy") != "pdpd"
    return aligned and node.get_type_name() in _KEPT


def _given(node: ov.Node) -> Flag:
    cause = f"{title(node)} is given NaN or infinity, which OpenVINO may lose: send finite numbers"
    odd = [_any(_is_odd(each)) for each in _floats(node)]
    flat = [op.reshape(each, int64([1]), False) for each in odd]
    return Flag.where(cause, op.concat(flat, 0) if len(flat) > 1 else flat[0])


def _any(holds: ov.Node) -> ov.Node:
    flat = op.reshape(holds, int64([-1]), False)
    return op.reduce_logical_or(flat, int64([0]), True)


def _is_nan(values: Operand) -> ov.Node:
    return op.is_nan(op.convert(values, "f32"))


def _is_odd(values: Operand) -> ov.Node:
    """Give for each number whether it is NaN or positive infinity."""
    return op.logical_not(op.less(op.convert(values, "f32"), float32(np.inf)))


def _kept(keep: Callable[[ov.Node], None]) -> Ask:
    def change(node: ov.Node, _: Visit) -> None:
        if _may_lose(node) and _is_changed(node):
            keep(node)

    return change


def _keep_own(node: ov.Node) -> None:
    """Make each result NaN whose operand is NaN."""
    given = node.input_value(0)
    put_behind(node.output(0), lambda y: op.select(_is_nan(given), given, y))


def _keep_both(node: ov.Node) -> None:
    """Replace each result that has a NaN operand by the operands' sum, which is NaN."""
    one, other = node.input_values()
    either = op.logical_or(_is_nan(one), _is_nan(other))
    put_behind(node.output(0), lambda y: op.select(either, op.add(one, other), y))


def _keep_of_axes(node: ov.Node) -> None:
    """Make each reduction NaN that includes a NaN."""
    given, axes = node.input_values()
    kept = node.get_attributes()["keep_dims"]
    odd = op.reduce_logical_or(_is_nan(given), axes, kept)
    put_behind(node.output(0), lambda y: op.select(odd, _nan_like(y), y))


def _keep_of_row(node: ov.Node) -> None:
    """Make a row of a softmax NaN if it contains NaN or infinity: infinity less itself is NaN."""
    given = node.input_value(0)
    axis = int64([node.get_attributes()["axis"]])
    odd = op.reduce_logical_or(_is_odd(given), axis, True)
    put_behind(node.output(0), lambda y: op.select(odd, _nan_like(y), y))


def _nan_like(output: ov.Output) -> ov.Node:
    return op.convert(float32(np.nan), output.get_element_type())


def _unlike_zero(node: ov.Node) -> None:
    """Convert NaN to true, like every number that is not 0."""
    given = node.input_value(0)
    zero = op.convert(float32(0), given.get_element_type())
    replace(node.output(0), op.not_equal(given, zero).output(0))


_OWN = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceiling Clamp Cos Cosh Elu Erf Exp FakeQuantize Floor "
    "Gelu HSigmoid HSwish HardSigmoid Log Mish PRelu Relu Round Selu Sigmoid Sign Sin Sinh "
    "SoftPlus SoftSign Sqrt Swish Tan Tanh"
)
"""Operations that compute each result from one number."""

KEEPING: Sequence[Rule[Ask]] = (
    Rule("nan_is_lost", _OWN, _kept(_keep_own)),
    Rule("nan_is_false", "Convert ConvertLike", _kept(_unlike_zero)),
    Rule("nan_is_lost", "LogSoftmax Softmax", _kept(_keep_of_row)),
    Rule("nan_is_lost", "Maximum Minimum", _kept(_keep_both)),
    Rule("nan_is_lost", "ReduceMax ReduceMin", _kept(_keep_of_axes)),
)
"""Rules that make operations keep NaN and infinity as their definitions require."""
_KEPT = named(" ".join(rule.kinds for rule in KEEPING))

REFUSED: Sequence[Rule[Ask]] = (Rule("nan_is_lost", "", _refuse_nonfinite),)
"""Applied to a graph that `KEEPING` has changed."""
