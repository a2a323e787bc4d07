"""Keeps NaN and infinities where OpenVINO's CPU plugin would lose them.

Those of a request are NaN and positive infinity. The plugin's maximum instruction returns the
second operand if either is NaN, so `Relu` turns NaN into 0; its clipping of exponents makes `Exp`
turn NaN into infinity. Which operations are affected depends on the instruction set of the CPU. A
graph with a check at each of them takes longer, and few requests contain NaN. So that graph is
compiled beside the usual one when the first request comes that needs it (`engines/run/detour.py`).

A request is refused if NaN or infinity reaches an operation that neither keeps it nor has a rule.

The infinities that a graph computes itself become finite in the plugin, too. Its `ReduceMax`,
`ReduceMin` and `MaxPool` begin with the greatest finite number, so that no result is infinite; and
it converts a constant of a type that it does not compute in with the infinities clipped. A mask of
attention has both: a row that is masked as a whole is recognized by comparing its greatest number
with -infinity. `IsInf` that is fused with the operation before it is false.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.engines.openvino.faults.known_operations import named
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int64
from ie_serving.engines.openvino.graphs.rules import (
    Ask,
    Rule,
    Visit,
    put_behind,
    replace,
    replace_node,
)
from ie_serving.engines.openvino.graphs.walk import Flag, all_operations, title
from ie_serving.engines.run.program import RunnableSignature


@dataclass(frozen=True)
class Nonfinite:
    """How a graph treats NaN and infinity in requests; by default as OpenVINO does.

    Attributes:
        kept: this graph keeps them.
        elsewhere: compiles a graph that keeps them; called at the first request that contains any,
            if this graph may lose them. Raises LoadFailed.
    """

    kept: bool = False
    elsewhere: Callable[[], RunnableSignature] | None = None


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
        yield _input_flag(node)


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


def _input_flag(node: ov.Node) -> Flag:
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


def _keeping(keep: Callable[[ov.Node], None]) -> Ask:
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


OWN = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceiling Clamp Cos Cosh Elu Erf Exp FakeQuantize Floor "
    "Gelu HSigmoid HSwish HardSigmoid Log Mish PRelu Relu Round Selu Sigmoid Sign Sin Sinh "
    "SoftPlus SoftSign Sqrt Swish Tan Tanh"
)
"""Operations that compute each result from one number."""

KEEPING: Sequence[Rule[Ask]] = (
    Rule("nan_is_lost", OWN, _keeping(_keep_own)),
    Rule("nan_is_false", "Convert ConvertLike", _keeping(_unlike_zero)),
    Rule("nan_is_lost", "LogSoftmax Softmax", _keeping(_keep_of_row)),
    Rule("nan_is_lost", "Maximum Minimum", _keeping(_keep_both)),
    Rule("nan_is_lost", "ReduceMax ReduceMin", _keeping(_keep_of_axes)),
)
"""Rules that make operations keep NaN and infinity as their definitions require."""
_KEPT = named(" ".join(rule.kinds for rule in KEEPING))

REFUSED: Sequence[Rule[Ask]] = (Rule("nan_is_lost", "", _refuse_nonfinite),)
"""Applied to a graph that `KEEPING` has changed."""

_CLIPPED = (ov.Type.bf16, ov.Type.f64)
"""Types whose constants the plugin converts to f32, BF16 only on CPUs without AVX-512."""
_INFINITE_BF16 = 0x7F80
_UNFOLDED = "DisableConstantFolding_0"
"""Runtime attribute: OpenVINO then leaves an operation on constants to the plugin."""
_SOURCES = frozenset({"Log", "Parameter", "Select"})
"""Operations whose results a `MaxPool` may get as infinities; a network of images has a `Relu`."""
_MOVES = frozenset({"Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def _hold_constant(node: ov.Node, _: Visit) -> None:
    """Replace a constant with infinities by a conversion of its f32 numbers."""
    kind = node.get_output_element_type(0)
    if kind in _CLIPPED and _is_infinite(node):
        values = float32(node.get_data(dtype=np.float32))
        replace(node.output(0), _unfolded(op.convert(values, kind)).output(0))


def _hold_conversion(node: ov.Node, _: Visit) -> None:
    """Leave the conversion of a constant with infinities to the plugin, which keeps them."""
    values, kind = node.input_value(0).get_node(), node.get_output_element_type(0)
    if kind in _CLIPPED and values.get_type_name() == "Constant" and _is_infinite(values):
        _unfolded(node)


def _is_infinite(node: ov.Node) -> bool:
    kind = node.get_output_element_type(0)
    if kind != ov.Type.bf16:
        return bool(kind.is_real() and np.isinf(node.data).any())
    bits = node.data.view(np.uint16)  # numpy has no BF16
    return bool(((bits & 0x7FFF) == _INFINITE_BF16).any())


def _unfolded(node: ov.Node) -> ov.Node:
    node.get_rt_info()[_UNFOLDED] = ""
    return node


def _compare_with_infinity(node: ov.Node, _: Visit) -> None:
    """Tell infinities by a comparison."""
    given, told = node.input_value(0), node.get_attributes()
    signs = [sign for sign in ("negative", "positive") if told[f"detect_{sign}"]]
    ends = {"negative": -np.inf, "positive": np.inf}
    same = [
        op.equal(given, _unfolded(op.convert(float32(ends[sign]), given.get_element_type())))
        for sign in signs
    ]
    if same:
        replace_node(node, same[0] if len(same) == 1 else op.logical_or(*same))


def _reach_infinity(node: ov.Node, _: Visit) -> None:
    """Halve the data and double the result, which turns the least finite float into infinity."""
    data, output = node.input_value(0), node.output(0)
    kind = data.get_element_type()
    if not kind.is_real() or _is_of_softmax(data, output):
        return
    half, two = (op.convert(float32(number), kind) for number in (0.5, 2))
    node.input(0).replace_source_output(op.multiply(data, half).output(0))
    put_behind(output, lambda reduced: op.multiply(reduced, two))


def _reach_infinity_in_windows(node: ov.Node, here: Visit) -> None:
    source = node.input_value(0).get_node()
    while source.get_type_name() in _MOVES:
        source = source.input_value(0).get_node()
    if source.get_type_name() in _SOURCES:
        _reach_infinity(node, here)


def _is_of_softmax(data: ov.Output, greatest: ov.Output) -> bool:
    """Tell whether a maximum is only subtracted from its own data: a softmax, which gets fused."""
    readers = list(greatest.get_target_inputs())
    if len(readers) != 1 or readers[0].get_node().get_type_name() != "Subtract":
        return False
    lowered = readers[0].get_node().input_value(0)
    return bool(lowered == data)


RULES: Sequence[Rule[Ask]] = (
    Rule("infinite_constants_are_finite", "Constant", _hold_constant),
    Rule("infinite_constants_are_finite", "Convert", _hold_conversion),
    Rule("infinities_behind_operations_are_not_seen", "IsInf", _compare_with_infinity),
    Rule("the_greatest_of_infinities_is_finite", "ReduceMax ReduceMin", _reach_infinity),
    Rule("the_greatest_of_infinities_is_finite", "MaxPool", _reach_infinity_in_windows),
)
