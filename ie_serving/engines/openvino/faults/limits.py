"""Values that OpenVINO's CPU plugin computes places of memory from, and does not check.

Measured with OpenVINO 2026.4: each of them ended the process, or gave what another request had
left. What models compute (regions of interest, lengths) is bounded in the graph. What they hold
themselves (axes, blocks, sizes of frames) is not worth that: a model whose requests choose it is
not served.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.errors import LoadFailed
from ie_serving.engines.openvino.faults.sizes import is_among, replace_where_not
from ie_serving.engines.openvino.graphs.constants import float32, int32, int64, value_of
from ie_serving.engines.openvino.graphs.flags import Flag, title

FARTHEST = 16
"""How far a region may reach, in sizes of its image; models clip them, so that twice is rare. With
`sampling_ratio` 0 the plugin takes as many samples as a region is large."""

FARTHEST_OFFSET = float(1 << 24)
"""Of a pixel that `DeformableConvolution` takes; beyond it a float32 has no fractions."""

GREATEST = float(np.finfo(np.float32).max)

Row = Callable[[ov.Node], ov.Node]
"""From an operation to limits, float32, which are broadcast to the input."""


@dataclass(frozen=True)
class _Limits:
    """What one input of an operation may be, both ends included."""

    number: int
    low: Row
    high: Row


def refuse_unchecked(nodes: Sequence[ov.Node], sources: Collection[str]) -> None:
    """Refuse a model whose requests choose what the plugin does not check.

    Args:
        nodes: the operations, bodies apart.
        sources: see `sizes.from_values`.

    Raises:
        LoadFailed: naming the operation.
    """
    for node in nodes:
        numbers = _HELD_BY_MODEL.get(node.get_type_name(), ())
        if any(is_among(sources, node, number) for number in numbers):
            raise LoadFailed(
                f"{title(node)} computes with axes, sizes or labels that are values of a request,"
                " which OpenVINO's CPU plugin does not check: make them constants of the model"
            )
        if node.get_type_name() == "RegionYolo" and not _has_its_channels(node):
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


def guard_limits(nodes: Sequence[ov.Node], sources: Collection[str]) -> Iterator[Flag]:
    """Bound regions, places in a batch, lengths; give a flag for each operation that uses them.

    Args:
        nodes: the operations, bodies apart.
        sources: see `sizes.from_values`.
    """
    for node in nodes:
        number = _LENGTHS.get(node.get_type_name())
        if number is not None and not _are_the_sequences_own(node, number, sources):
            yield _as_long(node, number)
        for limits in _LIMITED.get(node.get_type_name(), ()):
            if node.input_value(limits.number).get_node().get_type_name() != "Constant":
                yield _bounded(node, limits)
        if node.get_type_name() == "Multinomial":
            yield _weighed(node)
        if node.get_type_name() == "TopK" and is_among(sources, node, 1):
            yield _chosen(node)
        if node.get_type_name() == "VariadicSplit" and not _is_known(node):
            yield _divided(node)


def _bounded(node: ov.Node, limits: _Limits) -> Flag:
    values = op.convert(node.input_value(limits.number), "f32")
    low = limits.low(node)
    # Written so that NaN is outside.
    fits = op.logical_and(op.greater_equal(values, low), op.less_equal(values, limits.high(node)))
    replace_where_not(node, limits.number, fits, op.broadcast(low, op.shape_of(values)))
    cause = (
        f"{title(node)} is given a value out of range in its input {limits.number}: regions lie in"
        " a batch and near its images, lengths within what they count, axes among dimensions"
    )
    return Flag.unless(cause, fits)


def _are_the_sequences_own(node: ov.Node, number: int, sources: Collection[str]) -> bool:
    """Tell whether the lengths of a recurrent layer need no look.

    Those made of a shape are what exports without lengths write. Those that the model holds are
    effective where all sizes are known.
    """
    if node.input_value(number).get_node().get_type_name() == "Constant":
        return bool(node.get_input_partial_shape(0).is_static)
    return not is_among(sources, node, number)


def _as_long(node: ov.Node, number: int) -> Flag:
    """Bound the lengths of a recurrent layer; in open shapes, where they are ignored, to all."""
    lengths = op.convert(node.input_value(number), "f32")
    longest = _size(1)(node)
    is_open = node.get_input_partial_shape(0).is_dynamic
    least = longest if is_open else float32([0])
    fits = op.logical_and(op.greater_equal(lengths, least), op.less_equal(lengths, longest))
    replace_where_not(node, number, fits, op.broadcast(longest, op.shape_of(lengths)))
    cause = "beyond its sequence: send lengths from 0 to that of the sequence"
    if is_open:
        cause = (
            "unlike that of its sequence, which OpenVINO's CPU plugin ignores in open shapes: send"
            ' rows of one length, or give all sizes of the inputs by "shape"'
        )
    return Flag.unless(f"{title(node)} is given lengths {cause}", fits)


def _weighed(node: ov.Node) -> Flag:
    """Let a `Multinomial` draw from rows that it can draw from; else it leaves what was there."""
    weights = op.convert(node.input_value(0), "f32")
    best = op.reduce_max(weights, int64([-1]), True)
    # A row may have weights of 0. Their logarithms are minus infinity, or the least float32.
    least, none = (-np.inf, -GREATEST) if node.get_attributes()["log_probs"] else (0.0, 0.0)
    each = op.logical_and(
        op.greater_equal(weights, float32(least)), op.less_equal(weights, float32(GREATEST))
    )
    fits = op.logical_and(each, op.greater(best, float32(none)))
    replace_where_not(node, 0, fits, int32(1))
    return Flag.unless(f"{title(node)} is given a row without weights to draw by", fits)


def _chosen(node: ov.Node) -> Flag:
    """Flag a `TopK` of more values than its axis has: of an empty axis it leaves what was there."""
    asked = op.convert(node.input_value(1), "f32")
    size = _size(int(node.get_attributes()["axis"]))(node)
    fits = op.logical_and(
        op.less_equal(asked, op.squeeze(size)), op.greater_equal(asked, float32(1))
    )
    replace_where_not(node, 1, fits, int32(1))
    return Flag.unless(
        f"{title(node)} is asked for more values than there are, or for less than 1", fits
    )


def _is_known(node: ov.Node) -> bool:
    """Tell whether the lengths of all parts of a `VariadicSplit` are known at load."""
    axis = value_of(node.input_value(1).get_node())
    shapes = [node.get_output_partial_shape(i) for i in range(node.get_output_size())]
    if axis is None or any(shape.rank.is_dynamic for shape in shapes):
        return False
    return all(shape[int(axis.item()) % len(shape)].is_static for shape in shapes)


def _divided(node: ov.Node) -> Flag:
    """Flag parts that are longer than the whole: a rest of -1 counts as "not known".

    Lengths that the model holds stay as they are: what reads the parts may need their sizes.
    """
    lengths = op.convert(node.input_value(2), "f32")
    axis = op.reshape(node.input_value(1), int64([1]), False)
    size = op.convert(op.gather(op.shape_of(node.input_value(0)), axis, int64(0)), "f32")
    asked = op.reduce_sum(op.maximum(lengths, float32(0)), int64([0]), True)
    least = op.reduce_min(lengths, int64([0]), True)
    fits = op.logical_and(op.less_equal(asked, size), op.greater_equal(least, float32(-1)))
    if value_of(node.input_value(2).get_node()) is None:
        replace_where_not(node, 2, fits, int64([-1, *[0] * (node.get_output_size() - 1)]))
    return Flag.unless(f"{title(node)} is asked for parts that are longer than the whole", fits)


def _is(value: float) -> Row:
    return lambda _: float32([value])


def _size(place: int, less: int = 0) -> Row:
    """Give a size of the first input, less a number."""

    def row(node: ov.Node) -> ov.Node:
        sizes = op.convert(op.shape_of(node.input_value(0)), "f32")
        return op.subtract(op.gather(sizes, int64([place]), int64(0)), float32([less]))

    return row


def _reach(node: ov.Node) -> ov.Node:
    """Give how far regions may reach: beyond that, in pixels of the picture, none is meant."""
    scale = float(node.get_attributes().get("spatial_scale", 1.0)) or 1.0
    longest = op.add(_size(2)(node), _size(3)(node))
    return op.multiply(longest, float32([FARTHEST / abs(scale)]))


def _backwards(node: ov.Node) -> ov.Node:
    return op.negative(_reach(node))


def _rank(node: ov.Node) -> ov.Node:
    """Give how many dimensions the first input has, as a number: axes may be one, or a row."""
    return op.squeeze(op.convert(op.shape_of(op.shape_of(node.input_value(0))), "f32"))


def _with_batch(first: Row, others: Row) -> Row:
    """Give the limits of regions whose first column is the place in the batch."""
    return lambda node: op.concat([first(node), *(others(node) for _ in range(4))], 0)


_REGIONS = (_Limits(1, _backwards, _reach), _Limits(2, _is(0), _size(0, less=1)))
_ROWS_OF_REGIONS = (
    _Limits(1, _with_batch(_is(0), _backwards), _with_batch(_size(0, less=1), _reach)),
)

_AXIS = (
    _Limits(
        3,
        lambda node: op.negative(_rank(node)),
        lambda node: op.subtract(_rank(node), float32(1)),
    ),
)

_LENGTHS: Mapping[str, int] = MappingProxyType(
    {"GRUSequence": 2, "LSTMSequence": 3, "RNNSequence": 2}
)
"""By recurrent layer: the input that holds the lengths of its sequences."""

_LIMITED: Mapping[str, tuple[_Limits, ...]] = MappingProxyType(
    {
        "CTCGreedyDecoderSeqLen": (_Limits(1, _is(0), _size(1)),),
        "DeformableConvolution": (_Limits(1, _is(-FARTHEST_OFFSET), _is(FARTHEST_OFFSET)),),
        "GatherTree": (_Limits(2, _is(1), _size(0)),),
        "PSROIPooling": _ROWS_OF_REGIONS,
        "ROIAlign": _REGIONS,
        "ROIAlignRotated": _REGIONS,
        "ROIPooling": _ROWS_OF_REGIONS,
        "ScatterElementsUpdate": _AXIS,
        "ScatterUpdate": _AXIS,
    }
)
"""By operation: the inputs that are bounded."""

_HELD_BY_MODEL: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "AdaptiveAvgPool": (1,),
        "AdaptiveMaxPool": (1,),
        "BatchToSpace": (1, 2, 3),
        "Broadcast": (2,),
        "Col2Im": (1, 2),
        "CTCLoss": (0, 1, 2, 3, 4),
        "DFT": (1,),
        "DeformablePSROIPooling": (1, 2),
        "IDFT": (1,),
        "IRDFT": (1,),
        "ISTFT": (2, 3, 4),
        "PriorBox": (0, 1),
        "PriorBoxClustered": (0, 1),
        "RDFT": (1,),
        "Roll": (2,),
        "STFT": (2, 3),
        "SegmentMax": (1, 2),
        "Slice": (4,),
        "SliceScatter": (4,),
        "SpaceToBatch": (1, 2, 3),
        "StringTensorPack": (0, 1),
    }
)
"""By operation: the inputs that a request may not choose."""
