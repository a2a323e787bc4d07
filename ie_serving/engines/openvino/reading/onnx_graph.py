"""Corrects operations that OpenVINO's front end for ONNX converts wrongly, in the converted graph.

Each was measured with OpenVINO 2026.4; `docs/reference/openvino-faults.md` lists them.

- `BitShift` to the right becomes a division, which rounds negative numbers towards 0.
- `ConvTranspose` with `auto_pad` has no padding unless all sizes are known, and with `output_shape`
  it then has a wrong one, in groups also where they are.
- `DynamicQuantizeLinear` divides by the range of the numbers in place of their scale, and
  `QuantizeLinear` becomes a `FakeQuantize`, which rounds behind the zero point and not before it:
  halves come out one step off. Where integers are quantized in the middle of a graph by constant
  scales it stays, since the plugin makes operations on integers of it.
- `Loop` makes rounds without end where a request asks for less than none.
- `MatMulInteger` of a vector without a zero point gives a matrix of one row.
- `MaxPool` with `ceil_mode` has windows that begin behind the last element.
- `MultiHeadAttention` of onnxruntime adds its bias to keys and values that come by head as well.
- `Resize` by scales with `align_corners` takes the scale that follows from whole sizes.
- `SplitToSequence` into pieces of lengths that have an open size counts one piece.
- `Softmax` of opsets 11 and 12 is one over all axes from its own on, as if they were one.

Attributes that the front end silently drops cannot be told from the graph: models with them are
refused by their file. `OVERLOOKED` names them by operator, and operators of onnxruntime that
OpenVINO computes otherwise. Constants that the front end misreads are refused as well.
`tests/unit/engines/openvino/reading/test_onnx_unread.py` compares the table with the attributes
that the front end reads: a release that reads more fails a test there.
"""

import re
from collections.abc import Collection, Container, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.onnx_file import MAIN_DOMAIN, Node, Value, misread, nodes, opsets, results
from ie_serving.engines.openvino.faults.chosen_axes import hold_axes
from ie_serving.engines.openvino.graphs.constants import Operand, float32, int64, value_of
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Rules, Visit, replace_node, visit
from ie_serving.engines.openvino.graphs.walk import operations

_SIGNED = ("i8", "i16", "i32", "i64")
_FLATTENING = (11, 12)
"""Opsets whose `Softmax` the front end reads as that of opset 13, which has one axis."""


def mend_onnx(model: ov.Model, file: Path) -> None:
    """Correct wrongly converted operations, in bodies too.

    Raises:
        LoadFailed: naming the operator that cannot be corrected.
    """
    hold_axes(model)
    rules = list(RULES)
    if opsets(file).get(MAIN_DOMAIN) in _FLATTENING:
        rules.append(Rule("onnx_is_converted_otherwise", "Softmax", _flatten))
    shifts, scales = set[str](), set[str]()
    for node in nodes(file):
        if node.kind == "BitShift":
            shifts.add(node.outputs[0])
        elif node.kind == "DynamicQuantizeLinear":
            scales.add(node.outputs[1])
        elif node.kind == "SplitToSequence" and node.has(1):
            _refuse_unknown_pieces(model, node)
    if shifts or scales:
        faults = "onnx_is_converted_otherwise halves_are_quantized_one_step_off"
        rules.append(Rule(faults, "Divide", partial(_divide, shifts, scales)))
    visit(model, Rules(rules))


def _divide(shifts: Set[str], scales: Set[str], node: ov.Node, _: Visit) -> None:
    names = node.output(0).get_names()
    if not shifts.isdisjoint(names):
        _shift(node)
    if not scales.isdisjoint(names):
        _quantize_by(node.output(0))


def _shift(node: ov.Node) -> None:
    kind = node.get_element_type()
    if kind.get_type_name() not in _SIGNED:
        return
    shift = node.input_value(1).get_node().input_value(1)  # of the power of 2
    last, zero = (op.convert(int64(number), kind) for number in (kind.size * 8 - 1, 0))
    fits = op.logical_and(op.less_equal(zero, shift), op.less_equal(shift, last))
    shifted = op.bitwise_right_shift(node.input_value(0), op.select(fits, shift, last))
    replace_node(node, shifted)


def _quantize_by(scale: ov.Output) -> None:
    """Divide numbers by their scale, and not by their range after they were multiplied."""
    _divide_exactly(scale.get_node())
    for reader in scale.get_node().input_value(0).get_target_inputs():
        node = reader.get_node()
        if node.get_type_name() == "Divide" and reader.get_index() == 1:
            numbers = node.input_value(0).get_node()
            if numbers.get_type_name() == "Multiply":
                node.input(0).replace_source_output(numbers.input_value(0))
                node.input(1).replace_source_output(scale)
                _divide_exactly(node)


def _divide_exactly(node: ov.Node) -> ov.Node:
    """Keep the plugin from multiplying by the reciprocal: two roundings leave the wrong half."""
    node.get_rt_info()["nonconvertable_divide_0"] = True
    return node


def _round_before_zero_point(node: ov.Node, _: Visit) -> None:
    data, low, high, first, last = node.input_values()
    (*readers,) = node.output(0).get_target_inputs()
    if any(not each.get_node().get_element_type().is_integral() for each in readers):
        return
    ends = value_of(low.get_node()), value_of(high.get_node())
    made = low.get_node()
    if ends[0] is not None and ends[1] is not None:
        if not all(_is_result(each.get_node()) for each in readers):
            return
        step = (ends[1] - ends[0]) / np.float32(node.get_attributes()["levels"] - 1)
        scale: Operand = float32(step)
        zero: Operand = op.subtract(first, float32(np.rint(ends[0] / step)))
    elif made.get_type_name() == "Multiply":
        scale, zero = made.input_value(0), made.input_value(1).get_node().input_value(1)
    else:
        return
    rounded = op.round(_divide_exactly(op.divide(data, scale)), "half_to_even")
    quantized = op.minimum(op.maximum(op.add(rounded, zero), first), last)
    replace_node(node, quantized)


def _is_result(node: ov.Node) -> bool:
    readers = node.output(0).get_target_inputs()
    return all(each.get_node().get_type_name() == "Result" for each in readers)


def _refuse_unknown_pieces(model: ov.Model, split: Node) -> None:
    """Refuse a split into as many pieces as a request has lengths: the front end counts one."""
    for node in operations(model):
        for output in node.outputs():
            if split.inputs[1] in output.get_names() and output.get_partial_shape().is_dynamic:
                raise LoadFailed(
                    f'SplitToSequence "{split.outputs[0]}": OpenVINO does not count the lengths'
                    f' of an open size that "{split.inputs[1]}" gives: export it with a fixed size'
                )


def _pad_transposed(node: ov.Node, _: Visit) -> None:
    """Write out the padding by which the output is the input times the stride."""
    attributes = node.get_attributes()
    kind = attributes["auto_pad"]
    if node.get_input_size() > 2:
        is_grouped = node.get_type_name().startswith("Group")
        if is_grouped or node.get_input_partial_shape(0).is_dynamic:
            raise _refused("ConvTranspose", node, "output_shape in groups or in open sizes")
    elif kind in ("same_upper", "same_lower"):
        strides = attributes["strides"]
        kernel = node.get_input_partial_shape(1)
        sizes = [kernel[len(kernel) - len(strides) + axis] for axis in range(len(strides))]
        if any(size.is_dynamic for size in sizes):
            raise _refused("ConvTranspose", node, "auto_pad with a kernel of open size")
        more = attributes["output_padding"] or [0] * len(strides)
        total = [
            max(0, (size.get_length() - 1) * dilation + 1 + rest - stride)
            for size, dilation, rest, stride in zip(
                sizes, attributes["dilations"], more, strides, strict=True
            )
        ]
        lesser = [pads // 2 for pads in total]
        greater = [pads - half for pads, half in zip(total, lesser, strict=True)]
        begin, end = (lesser, greater) if kind == "same_upper" else (greater, lesser)
        node.set_attribute("pads_begin", begin)
        node.set_attribute("pads_end", end)
        node.set_attribute("auto_pad", "explicit")


def _leave_out_last_window(node: ov.Node, _: Visit) -> None:
    given = node.get_attributes()
    if given["rounding_type"] != "ceil":
        return
    made = op.max_pool(
        node.input_value(0),
        given["strides"],
        given["dilations"],
        given["pads_begin"],
        given["pads_end"],
        given["kernel"],
        "ceil_torch",
        given["auto_pad"],
        given["index_element_type"],
        given["axis"],
    )
    replace_node(node, made)


def _refuse_parts_of_pixels(node: ov.Node, _: Visit) -> None:
    attributes = node.get_attributes()
    if attributes["coordinate_transformation_mode"] != "align_corners":
        return
    if attributes["shape_calculation_mode"] != "scales":
        return
    scales, shape = value_of(node.input_value(1).get_node()), node.get_input_partial_shape(0)
    if scales is not None and not np.any(scales % 1):
        return
    if scales is None or shape.is_dynamic or np.any(scales * list(shape.to_shape()) % 1):
        raise _refused("Resize", node, "align_corners by scales that leave a part of a pixel")


def _flatten(node: ov.Node, _: Visit) -> None:
    data, axis = node.input_value(0), node.get_attributes()["axis"]
    rank = data.get_partial_shape().rank
    if rank.is_static and axis < 0:
        axis += rank.get_length()
    if axis < 0 or (rank.is_static and axis == rank.get_length() - 1):
        return
    flat = op.softmax(op.reshape(data, int64([0] * axis + [-1]), special_zero=True), axis)
    shaped = op.reshape(flat, op.shape_of(data), special_zero=False)
    replace_node(node, shaped)


def _count_from_0(node: ov.Node, _: Visit) -> None:
    count = node.input_value(0)  # a constant of -1 where the file has none
    if value_of(count.get_node()) is None:
        limited = op.maximum(count, op.convert(int64(0), count.get_element_type()))
        node.input(0).replace_source_output(limited.output(0))


def _add_no_bias(node: ov.Node, _: Visit) -> None:
    """Take keys and values as they are where the file has them by head: not transposed here.

    What the front end adds has no names; it splits the bias in three.
    """
    for index in (1, 2):
        added = node.input_value(index)
        if added.get_node().get_type_name() == "Add" and not added.get_names():
            data, part = added.get_node().input_values()
            (split,) = part.get_node().input_values()[:1] or [part]
            is_by_head = data.get_names() or data.get_node().get_type_name() != "Transpose"
            if is_by_head and split.get_node().get_type_name() == "VariadicSplit":
                node.input(index).replace_source_output(data)


def _keep_vector(node: ov.Node, _: Visit) -> None:
    """Subtract the zero point that the front end adds in one dimension: in two it makes a row."""
    shifted = node.input_value(0)
    if shifted.get_node().get_type_name() == "Subtract" and not shifted.get_names():
        data, zero = shifted.get_node().input_values()
        is_vector = data.get_partial_shape().rank == ov.Dimension(1)
        if is_vector and zero.get_node().get_type_name() == "Unsqueeze" and not zero.get_names():
            replace_node(shifted.get_node(), op.subtract(data, zero.get_node().input_value(0)))


def _refused(kind: str, node: ov.Node, what: str) -> LoadFailed:
    return LoadFailed(f'{kind} "{node.get_friendly_name()}": OpenVINO does not compute {what}')


RULES: Sequence[Rule[Ask]] = (
    Rule(
        "onnx_is_converted_otherwise onnx_corners_are_not_aligned",
        "ConvolutionBackpropData GroupConvolutionBackpropData",
        _pad_transposed,
    ),
    Rule("halves_are_quantized_one_step_off", "FakeQuantize", _round_before_zero_point),
    Rule("onnx_corners_are_not_aligned", "Interpolate", _refuse_parts_of_pixels),
    Rule("onnx_is_converted_otherwise", "Loop", _count_from_0),
    Rule("onnx_is_converted_otherwise", "MatMul", _keep_vector),
    Rule("onnx_is_converted_otherwise", "MaxPool", _leave_out_last_window),
    Rule(
        "operators_of_onnxruntime_are_computed_otherwise", "ScaledDotProductAttention", _add_no_bias
    ),
)

NEWEST_OPSET = 28
"""Newest version of ONNX's operators that was compared with the front end."""


@dataclass(frozen=True)
class Attribute:
    """An attribute without effect, or with a wrong one."""

    name: str
    harmless: tuple[Value, ...]
    """Values at which the outputs are right all the same. Without the attribute they are, too."""

    since: int = 1
    """Version of the domain from which on this is so."""

    beside: str | int | None = None
    """Attribute, or index of an input, without which it has its effect."""

    def refusal(self, node: Node) -> str | None:
        """Say what the front end would drop of `node`; None if nothing."""
        if node.opset < self.since or self.name not in node.attributes:
            return None
        value = node.attributes[self.name]
        if value in self.harmless or not _has(node, self.beside):
            return None
        return f"compute {self.name}={'a value of the caller' if value is None else value}"


@dataclass(frozen=True)
class UnreadInput:
    """An input that is not read."""

    name: str
    index: int
    since: int = 1
    needed: bool = True
    """False if the outputs may be wrong without the input as well."""

    def refusal(self, node: Node) -> str | None:
        """Say what the front end would drop of `node`; None if nothing."""
        if node.opset < self.since or (self.needed and not _has(node, self.index)):
            return None
        return f"read its input {self.name}"


@dataclass(frozen=True)
class RequiredInput:
    """An input that ONNX lets a file leave out, without which the front end ends the process."""

    name: str
    index: int

    def refusal(self, node: Node) -> str | None:
        """Say that it is left out; None if it is not."""
        return None if node.has(self.index) else f"take it without its input {self.name}"


@dataclass(frozen=True)
class WholeOperator:
    """An operator of onnxruntime whose outputs by OpenVINO differ, whatever its attributes."""

    name: str = "operator"

    def refusal(self, _: Node) -> str:
        """Say what OpenVINO does not do; every such node is refused."""
        return "compute it as onnxruntime does, which defines it"


def _has(node: Node, what: str | int | None) -> bool:
    if isinstance(what, int):
        return node.has(what)
    return what is None or what in node.attributes


_LAYOUT = Attribute("layout", (0,))
_NO_AXES = Attribute("noop_with_empty_axes", (0,))
_AXIS = Attribute("axis", ())
"""Attribute of comparisons and logic of opset 1, which names the axis at which a smaller operand
begins."""

MICROSOFT: Final = "com.microsoft"
_OF_INTEGERS = "Add AveragePool Concat LeakyRelu Mul ReduceMean Sigmoid Softmax Where"
"""Names, behind their `QLinear`, of operators on 8-bit integers: OpenVINO rounds halves and takes
numbers beyond the type's range otherwise than onnxruntime.
"""

OVERLOOKED: Final[
    Mapping[str, tuple[Attribute | UnreadInput | RequiredInput | WholeOperator, ...]]
] = {
    "And": (_AXIS,),
    "Attention": (
        Attribute("left_window_size", (-1,)),
        Attribute("right_window_size", (-1,)),
        # Keys before the first query are counted from the end: wrong unless the keys that are
        # no past are as many as the queries.
        Attribute("is_causal", (0,), beside=4),
    ),
    "ConvTranspose": (
        Attribute("auto_pad", ("NOTSET", "VALID", "SAME_LOWER"), beside="output_shape"),
    ),
    "DFT": (Attribute("onesided", (0,)), UnreadInput("axis", 2, since=20, needed=False)),
    "Equal": (_AXIS,),
    "GRU": (_LAYOUT,),
    "Greater": (_AXIS,),
    "LSTM": (_LAYOUT, Attribute("input_forget", (0,)), UnreadInput("P", 7)),
    "Less": (_AXIS,),
    "MaxPool": (Attribute("storage_order", (0,)),),
    "Or": (_AXIS,),
    "QuantizeLinear": (Attribute("saturate", (1,)), Attribute("precision", (0, 1))),
    "RNN": (_LAYOUT,),
    "Range": (Attribute("stash_type", (1,)),),
    "ReduceL1": (_NO_AXES,),
    "ReduceL2": (_NO_AXES,),
    "ReduceLogSum": (_NO_AXES,),
    "Resize": (
        Attribute("antialias", (0,)),
        Attribute("exclude_outside", (0,)),
        Attribute("keep_aspect_ratio_policy", ("stretch",)),
    ),
    "RoiAlign": (Attribute("mode", ("avg",)),),
    "SpaceToDepth": (Attribute("mode", ("DCR",)),),
    "Xor": (_AXIS,),
    f"{MICROSOFT}.Attention": (
        RequiredInput("bias", 2),
        Attribute("do_rotary", (0,)),
        Attribute("mask_filter_value", (-10000.0, float(np.finfo(np.float32).min))),
        Attribute("scale", (0.0,)),
    ),
    f"{MICROSOFT}.FusedGemm": (Attribute("activation", ("Relu", "LeakyRelu")),),
    f"{MICROSOFT}.FusedMatMul": (Attribute("transBatchA", (0,)), Attribute("transBatchB", (0,))),
    # OpenVINO refuses every request with a past of open size, and overwrites one of known size.
    f"{MICROSOFT}.GroupQueryAttention": (WholeOperator(),),
    f"{MICROSOFT}.MatMulNBits": (UnreadInput("g_idx", 4),),
    **{f"{MICROSOFT}.QLinear{name}": (WholeOperator(),) for name in _OF_INTEGERS.split()},
}
"""Parts of operators that OpenVINO overlooks, by operator, with its domain where that is not ONNX's
own."""

SQUEEZE: Final = "Squeeze"
_TAKES_EMPTY: Final = re.compile("Concat|ConstantOfShape")
"""Operators to which an input of no elements is the same as a 0."""
_TAKES_EMPTY_SIZES: Final = re.compile("Expand|Reduce.*|Reshape|Resize|Upsample")
"""Operators to which this is so of all inputs but the first."""


def refuse_unread(file: Path, converted: Container[str] = ()) -> Collection[str]:
    """Refuse a model that OpenVINO would compute otherwise than the file says.

    Returns:
        Names of the axes without elements that a `Squeeze` has: it is to be converted by ours.

    Args:
        file: file of the model.
        converted: operators that OpenVINO does not convert itself.

    Raises:
        LoadFailed: naming operator, node and the attribute that would be dropped.
    """
    try:
        empty, axes = set[str](), set[str]()
        for name, kind in misread(file):
            if not kind:
                empty.add(name)
                continue
            raise LoadFailed(
                f'OpenVINO misreads the numbers of "{name}", which are of type {kind} and not in'
                " raw_data: save them with onnx.numpy_helper.from_array"
            )
        imported = opsets(file).get(MAIN_DOMAIN, 1)
        if imported > NEWEST_OPSET:
            raise LoadFailed(
                f"the model is of opset {imported}; the newest known is {NEWEST_OPSET}: "
                "export it for an older one"
            )
        for node in nodes(file):
            is_empty = node.attributes.get("value") == ()
            (empty.update if is_empty else empty.difference_update)(node.outputs)
            if node.kind not in converted:  # inputs left out, and tensors of Constant, have no name
                none = empty.intersection(filter(None, node.inputs))
                if node.kind == SQUEEZE:
                    axes |= none.intersection(node.inputs[1:])
                    none -= axes
                _refuse(node, none)
        if given := empty and empty.intersection(results(file)):
            raise LoadFailed(
                f'OpenVINO does not read that the output "{min(given)}" is empty:'
                " export the model without this output"
            )
        return axes
    except ValueError:
        return ()  # no ONNX model: OpenVINO says so


def _refuse(node: Node, empty: Collection[str]) -> None:
    kind = node.kind if node.domain == MAIN_DOMAIN else f"{node.domain}.{node.kind}"
    refusals = [overlooked.refusal(node) for overlooked in OVERLOOKED.get(kind, ())]
    if _TAKES_EMPTY_SIZES.fullmatch(kind):
        empty = {*empty}.intersection(node.inputs[:1])
    if empty and not _TAKES_EMPTY.fullmatch(kind):
        refusals.append(f'read that its input "{min(empty)}" has no elements')
    if refusal := next(filter(None, refusals), ""):
        name = node.name or next(filter(None, node.outputs), "")
        raise LoadFailed(f'{kind} "{name}": OpenVINO does not {refusal}')
