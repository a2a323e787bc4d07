"""Bounds values from which OpenVINO's CPU plugin computes addresses without a check.

Measured with OpenVINO 2026.4: each of them ended the process, or returned data of another request.
Values that models usually compute (regions of interest, lengths) are bounded in the graph. Values
that are usually constants (axes, blocks, sizes of frames) get no guard: a model whose requests
choose them is not served.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.faults.sizes import refuse_unless
from ie_serving.engines.openvino.graphs.constants import float32, int32, int64, known_input
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit, is_among
from ie_serving.engines.openvino.graphs.walk import Flag, title

FARTHEST = 16
"""Most that a region may reach, in sizes of its image; models clip regions, so that 2 is rare. With
`sampling_ratio` 0 the plugin takes a number of samples proportional to a region's size."""

FARTHEST_OFFSET = float(1 << 24)
"""Largest offset in `DeformableConvolution`, in pixels; beyond it a float32 has no fractions."""

GREATEST = float(np.finfo(np.float32).max)

RowOf = Callable[[ov.Node], ov.Node]
"""Gives the limits of an operation's input: float32, broadcast to the input."""


@dataclass(frozen=True)
class _Limits:
    """The range of one input of an operation, both ends included."""

    number: int
    low: RowOf
    high: RowOf

    def guard(self, node: ov.Node, _: Visit) -> Iterator[Flag]:
        """Bound the input, unless it is a constant of the model."""
        if node.input_value(self.number).get_node().get_type_name() == "Constant":
            return
        values = op.convert(node.input_value(self.number), "f32")
        low = self.low(node)
        # Written so that NaN is outside.
        fits = op.logical_and(op.greater_equal(values, low), op.less_equal(values, self.high(node)))
        cause = (
            f"is given a value out of range in its input {self.number}: regions lie in a batch and"
            " near its images, lengths within what they count, axes among dimensions"
        )
        least = op.broadcast(low, op.shape_of(values))
        yield refuse_unless(node, fits, cause, {self.number: least})


def _refuse_chosen(*numbers: int) -> Ask:
    """Refuse a model whose requests choose inputs that the plugin does not check."""

    def refuse(node: ov.Node, here: Visit) -> None:
        if any(is_among(here.sources, node, number) for number in numbers):
            raise LoadFailed(
                f"{title(node)} computes with axes, sizes or labels that are values of a request,"
                " which OpenVINO's CPU plugin does not check: make them constants of the model"
            )

    return refuse


def _refuse_few_channels(node: ov.Node, _: Visit) -> None:
    if not _has_its_channels(node):
        raise LoadFailed(
            f"{title(node)} may be given fewer channels than it has regions, classes and"
            " coordinates, and OpenVINO's CPU plugin would write beyond them: give the model a"
            " known number of channels"
        )


def _has_its_channels(node: ov.Node) -> bool:
    has = node.get_attributes()
    regions = has["num"] if has["do_softmax"] else len(has["mask"])
    channels = node.get_input_partial_shape(0)[1].get_min_length()
    return bool(channels >= regions * (has["classes"] + has["coords"] + 1))


def _lengths(number: int) -> Ask:
    """Bound a recurrent layer's lengths; open shapes ignore lengths, so only full ones pass."""

    def guard(node: ov.Node, here: Visit) -> Iterator[Flag]:
        is_open = node.get_input_partial_shape(0).is_dynamic
        # Exports without lengths compute them from a shape. Constant lengths take effect only if
        # all sizes are known.
        is_held = node.input_value(number).get_node().get_type_name() == "Constant"
        is_in_question = is_open if is_held else is_among(here.sources, node, number)
        if not is_in_question:
            return
        lengths = op.convert(node.input_value(number), "f32")
        longest = _size(1)(node)
        least = longest if is_open else float32([0])
        fits = op.logical_and(op.greater_equal(lengths, least), op.less_equal(lengths, longest))
        cause = "is given lengths beyond its sequence: send lengths from 0 to that of the sequence"
        if is_open:
            cause = (
                "is given lengths unlike that of its sequence, which OpenVINO's CPU plugin ignores"
                " in open shapes: send rows of one length, or give all sizes of the inputs by"
                ' "shape"'
            )
        whole = op.broadcast(longest, op.shape_of(lengths))
        yield refuse_unless(node, fits, cause, {number: whole})

    return guard


def _weighed(node: ov.Node, _: Visit) -> Iterator[Flag]:
    """Flag rows that a `Multinomial` cannot draw from, whose output it would leave unwritten."""
    weights = op.convert(node.input_value(0), "f32")
    best = op.reduce_max(weights, int64([-1]), True)
    # A row may have weights of 0. Their logarithms are minus infinity, or the least float32.
    least, none = (-np.inf, -GREATEST) if node.get_attributes()["log_probs"] else (0.0, 0.0)
    each = op.logical_and(
        op.greater_equal(weights, float32(least)), op.less_equal(weights, float32(GREATEST))
    )
    fits = op.logical_and(each, op.greater(best, float32(none)))
    yield refuse_unless(node, fits, "is given a row without weights to draw by", {0: int32(1)})


def _chosen(node: ov.Node, here: Visit) -> Iterator[Flag]:
    """Flag a `TopK` of more values than its axis has; on an empty axis it writes no output."""
    if not is_among(here.sources, node, 1):
        return
    asked = op.convert(node.input_value(1), "f32")
    size = _size(int(node.get_attributes()["axis"]))(node)
    fits = op.logical_and(
        op.less_equal(asked, op.squeeze(size)), op.greater_equal(asked, float32(1))
    )
    cause = "is asked for more values than there are, or for less than 1"
    yield refuse_unless(node, fits, cause, {1: int32(1)})


def _is_known(node: ov.Node) -> bool:
    """Tell whether the lengths of all parts of a `VariadicSplit` are known at load."""
    axis = known_input(node, 1)
    shapes = [node.get_output_partial_shape(i) for i in range(node.get_output_size())]
    if axis is None or any(shape.rank.is_dynamic for shape in shapes):
        return False
    return all(shape[int(axis.item()) % len(shape)].is_static for shape in shapes)


def _divided(node: ov.Node, _: Visit) -> Iterator[Flag]:
    """Flag parts that are longer than the whole: a rest of -1 counts as "not known".

    Lengths that are constants stay as they are: readers of the parts may need their static sizes.
    """
    if _is_known(node):
        return
    lengths = op.convert(node.input_value(2), "f32")
    axis = op.reshape(node.input_value(1), int64([1]), False)
    size = op.convert(op.gather(op.shape_of(node.input_value(0)), axis, int64(0)), "f32")
    asked = op.reduce_sum(op.maximum(lengths, float32(0)), int64([0]), True)
    least = op.reduce_min(lengths, int64([0]), True)
    fits = op.logical_and(op.less_equal(asked, size), op.greater_equal(least, float32(-1)))
    none = int64([-1, *[0] * (node.get_output_size() - 1)])
    others = {2: none} if known_input(node, 2) is None else {}
    yield refuse_unless(node, fits, "is asked for parts that are longer than the whole", others)


def _is(value: float) -> RowOf:
    return lambda _: float32([value])


def _size(index: int, less: int = 0) -> RowOf:
    """Give the size of the first input at `index`, minus `less`."""

    def row(node: ov.Node) -> ov.Node:
        sizes = op.convert(op.shape_of(node.input_value(0)), "f32")
        return op.subtract(op.gather(sizes, int64([index]), int64(0)), float32([less]))

    return row


def _reach(node: ov.Node) -> ov.Node:
    """Give how far regions may reach, in pixels of the picture."""
    scale = float(node.get_attributes().get("spatial_scale", 1.0)) or 1.0
    longest = op.add(_size(2)(node), _size(3)(node))
    return op.multiply(longest, float32([FARTHEST / abs(scale)]))


def _backwards(node: ov.Node) -> ov.Node:
    return op.negative(_reach(node))


def _rank(node: ov.Node) -> ov.Node:
    """Give the rank of the first input as a scalar: axes may be a scalar or a row."""
    return op.squeeze(op.convert(op.shape_of(op.shape_of(node.input_value(0))), "f32"))


def _with_batch(first: RowOf, others: RowOf) -> RowOf:
    """Give the limits of regions whose first column is the index in the batch."""
    return lambda node: op.concat([first(node), *(others(node) for _ in range(4))], 0)


_REGIONS = _Limits(1, _backwards, _reach)
_IN_BATCH = _Limits(2, _is(0), _size(0, less=1))
_ROWS_OF_REGIONS = _Limits(
    1, _with_batch(_is(0), _backwards), _with_batch(_size(0, less=1), _reach)
)
_AXIS = _Limits(
    3,
    lambda node: op.negative(_rank(node)),
    lambda node: op.subtract(_rank(node), float32(1)),
)
_COUNTED = _Limits(1, _is(0), _size(1))
_OFFSETS = _Limits(1, _is(-FARTHEST_OFFSET), _is(FARTHEST_OFFSET))
_LENGTHS, _OUTSIDE = "lengths_of_a_sequence_are_ignored", "regions_of_nan_end_the_process"

REFUSED: Sequence[Rule[Ask]] = (
    *(
        Rule("axes_that_nothing_checks_end_the_process", kinds, _refuse_chosen(*numbers))
        for kinds, numbers in (
            ("AdaptiveAvgPool AdaptiveMaxPool DFT IDFT IRDFT RDFT", (1,)),
            ("BatchToSpace SpaceToBatch", (1, 2, 3)),
            ("Broadcast Roll", (2,)),
            ("Col2Im DeformablePSROIPooling SegmentMax", (1, 2)),
            ("CTCLoss", (0, 1, 2, 3, 4)),
            ("ISTFT", (2, 3, 4)),
            ("PriorBox PriorBoxClustered StringTensorPack", (0, 1)),
            ("STFT", (2, 3)),
            ("Slice", (4,)),
            ("SliceScatter", (2, 3, 4, 5)),
        )
    ),
    Rule(
        "a_default_row_is_read_from_elsewhere",
        "EmbeddingBagOffsets EmbeddingBagOffsetsSum",
        _refuse_chosen(3),
    ),
    Rule("regions_without_their_channels_write_elsewhere", "RegionYolo", _refuse_few_channels),
)
"""Operations that refuse the model if a request may choose the inputs with these numbers."""

RULES: Sequence[Rule[Ask]] = (
    Rule(_LENGTHS, "GRUSequence RNNSequence", _lengths(2)),
    Rule(_LENGTHS, "LSTMSequence", _lengths(3)),
    Rule(_OUTSIDE, "CTCGreedyDecoderSeqLen", _COUNTED.guard),
    Rule("offsets_of_nan_end_the_process", "DeformableConvolution", _OFFSETS.guard),
    Rule(_OUTSIDE, "GatherTree", _Limits(2, _is(1), _size(0)).guard),
    Rule(_OUTSIDE, "PSROIPooling ROIPooling", _ROWS_OF_REGIONS.guard),
    Rule(_OUTSIDE, "ROIAlign ROIAlignRotated", _REGIONS.guard),
    Rule(_OUTSIDE, "ROIAlign ROIAlignRotated", _IN_BATCH.guard),
    Rule(
        "an_axis_out_of_range_is_lost_on_one_thread",
        "ScatterElementsUpdate ScatterUpdate",
        _AXIS.guard,
    ),
    Rule(_OUTSIDE, "Multinomial", _weighed),
    Rule("too_many_values_are_those_of_another_request", "TopK", _chosen),
    Rule("a_rest_of_minus_1_is_found", "VariadicSplit", _divided),
)
"""Operations whose inputs are bounded."""
