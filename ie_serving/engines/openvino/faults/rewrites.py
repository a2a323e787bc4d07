"""Replaces, before the compile, operations that OpenVINO's CPU plugin computes wrongly.

`READ` changes the graph as it was read, `SIZED` changes it once the sizes of its inputs are final.
Each rule names a canary that describes the fault; `docs/reference/openvino-faults.md` has their
texts. Measured with OpenVINO 2026.4 (`tests/unit/engines/openvino/faults/test_rewrites.py`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.graphs.constants import (
    constant_behind,
    float32,
    int32,
    int64,
    is_constant,
    known_input,
)
from ie_serving.engines.openvino.graphs.rules import (
    Ask,
    Rule,
    Visit,
    is_among,
    put_behind,
    replace,
    replace_node,
)
from ie_serving.engines.openvino.graphs.walk import (
    add_result,
    bodies,
    operations,
    rank_of,
    title,
)

_COMPUTED_AS: Mapping[str, str] = {
    "boolean": "u8",
    **dict.fromkeys(("f16", "f64"), "f32"),
    **dict.fromkeys(("i16", "u16", "u32", "i64", "u64"), "i32"),
}
"""Type in which the plugin computes a type; it converts outputs back."""
_FLAGS = 2
"""Number of the output of SparseFillEmptyRows with the flags of empty rows."""
_INDICES = 2
"""Number of the output of Unique with the index of each element among the unique ones."""

_STABLE_VALUES = 10
"""Number of values up to which a `TopK` is made stable for any row length: 5 of 1,001 take 160 us
instead of 105 us, but 300 of 8,400 would take 30 ms instead of 0.6 ms."""
_STABLE_SIZE = 256
"""Row length up to which a `TopK` is made stable for any number of values."""
_THRESHOLD, _FILLING = 3, 3
"""Inputs: of NonMaxSuppression, the overlap threshold; of Pad, the padding value."""
_HALF_STEP = 2.0**-24 * 1.001
"""A float32 times 1 plus this, rounded, is the next float32."""
_LEAST = 1.1754944e-38
"""Least float32 that the plugin does not flush to 0."""

_BROADCAST = frozenset({"Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"})
_RIGHT_AXES = 3
"""Rank up to which a `Tile` is right: a size and a repeat for each axis make six dimensions."""
_TILED_AXES = 2
"""Number of axes that one `Tile` of any rank may repeat."""


def _gather(node: ov.Node, _: Visit) -> None:
    shape = node.get_output_partial_shape(0)
    if shape.rank.is_static and any(size == 0 for size in shape):
        _give_nothing(node)
    else:
        _gather_without_batch(node)


def _give_nothing(node: ov.Node) -> None:
    """Replace a `Gather` with a size of 0, by which the plugin would divide."""
    data, indices, _ = node.input_values()
    at, rank = known_input(node, 2), rank_of(data.get_partial_shape())
    if at is None or rank is None or node.get_attributes().get("batch_dims", 0):
        return
    where, sizes, one = int(at.item()) % rank, op.shape_of(data), int64([1])
    before = op.slice(sizes, int64([0]), int64([where]), one)
    behind = op.slice(sizes, int64([where + 1]), int64([rank]), one)
    shape = op.concat([before, op.shape_of(indices), behind], 0)
    zero = op.constant(ov.Tensor(np.zeros((), data.get_element_type().to_dtype())))
    replace(node.output(0), op.broadcast(zero, shape).output(0))


def _gather_without_batch(node: ov.Node) -> None:
    """Drop the batch dimensions of a `Gather` if all are 1; the result is the same."""
    shape = node.get_input_partial_shape(1)
    batch = node.get_attributes().get("batch_dims", 0)
    if not batch or shape.rank.is_dynamic:
        return
    axes = list(range(batch % len(shape) if batch < 0 else batch))
    if all(shape[axis].is_static and shape[axis].get_length() == 1 for axis in axes):
        data, indices, axis = node.input_values()
        replace_node(node, op.gather(data, op.squeeze(indices, int64(axes)), axis))


def _keep_outputs(node: ov.Node, here: Visit) -> None:
    """Add the outputs of an `If` as results of the graph, which share no memory.

    Not if the plugin computes the type in another one: then it converts between the two.
    """
    for output in node.outputs():
        if output.get_partial_shape().is_dynamic:
            if computed := _COMPUTED_AS.get(output.get_element_type().get_type_name()):
                _convert_inside(node, output, computed)
            add_result(here.model, node.output(output.get_index()))


def _keep_ranks(node: ov.Node, _: Visit) -> None:
    """Refuse an `If` that gives a number or a row by values, where that makes a difference."""
    if constant_behind(node.input_value(0)) is not None:
        return
    for output in node.outputs():
        if {0, 1} <= _ranks(node, output) and not all(map(_widens, output.get_target_inputs())):
            raise LoadFailed(
                f"{title(node)} has branches of ranks 0 and 1, and OpenVINO returns rank 1: export"
                " branches of equal ranks"
            )


def refuse_ranks(model: ov.Model, sources: Collection[str]) -> None:
    """Refuse an `If` whose branches give other ranks by values, which the plugin does not name.

    One that chooses by sizes is left: these may be known when the graph is compiled.

    Args:
        model: the graph.
        sources: names of operations whose outputs follow from values; see `Visit`.

    Raises: LoadFailed.
    """
    for node in operations(model):
        if node.get_type_name() != "If" or not is_among(sources, node, 0):
            continue
        for output in node.outputs():
            ranks = _ranks(node, output)
            known = sorted(rank for rank in ranks if rank is not None)
            if len(known) > 1 and len(known) == len(ranks) and known != [0, 1]:
                told = " and ".join(map(str, known))
                raise LoadFailed(
                    f"{title(node)} has branches of ranks {told}, and OpenVINO computes one rank"
                    " alone: export branches of equal ranks"
                )


def _ranks(node: ov.Node, output: ov.Output) -> set[int | None]:
    """Give the ranks of an output of an `If`, by branch."""
    results = [_result(node, output, number) for number in range(len(bodies(node)))]
    return {rank_of(result.get_partial_shape()) for result in results}


def _widens(reader: ov.Input) -> bool:
    """Tell whether an operation gives the same of a number as of a row of one."""
    node = reader.get_node()
    ranks = [rank_of(each.get_partial_shape()) or 0 for each in node.input_values()]
    beside = max((rank for at, rank in enumerate(ranks) if at != reader.get_index()), default=0)
    return node.get_type_name() == "Reshape" or (node.get_type_name() in _BROADCAST and beside > 0)


def _result(node: ov.Node, output: ov.Output, number: int) -> ov.Input:
    """Give what a branch gives for an output of an `If`."""
    (index,) = [
        each.body_value_index
        for each in node.get_output_descriptions(number)
        if each.output_index == output.get_index()
    ]
    return bodies(node)[number].get_results()[index].input(0)


def _convert_inside(node: ov.Node, output: ov.Output, computed: str) -> None:
    """Convert an output of an `If` to another type inside its branches, and back after it."""
    kind, readers = output.get_element_type(), list(output.get_target_inputs())
    for number, body in enumerate(bodies(node)):
        given = _result(node, output, number)
        given.replace_source_output(op.convert(given.get_source_output(), computed).output(0))
        body.validate_nodes_and_infer_types()
    node.validate_and_infer_types()
    widened = op.convert(node.output(output.get_index()), kind).output(0)
    for reader in readers:
        reader.replace_source_output(widened)


def _multiply_nothing(node: ov.Node, _: Visit) -> None:
    """Give zeros for a product over no elements."""
    shape, result = node.get_input_partial_shape(0), node.get_output_partial_shape(0)
    if rank_of(shape) and result.is_static:
        summed = list(shape)[-2 if node.get_attributes()["transpose_a"] and len(shape) > 1 else -1]
        if summed == 0:
            zeros = np.zeros(result.to_shape(), node.get_element_type().to_dtype())
            replace(node.output(0), op.constant(zeros).output(0))


def _hold_weights(node: ov.Node, _: Visit) -> None:
    """Keep 8-bit weights in floats where they are scaled or shifted by what a request computes."""
    weights, other = node.input_value(0).get_node(), node.input_value(1)
    if weights.get_type_name() == "Subtract":
        weights = weights.input_value(0).get_node()
    if weights.get_type_name() == "Convert" and not is_constant(other):
        held = weights.input_value(0)
        if held.get_node().get_type_name() == "Constant" and held.get_element_type().bitwidth <= 8:
            values = float32(held.get_node().get_data(dtype=np.float32))
            made = op.convert(values, weights.get_output_element_type(0))
            replace(weights.output(0), made.output(0))


def _copy_strings(node: ov.Node, _: Visit) -> None:
    """Replace by a Reshape to the same shape, which does not copy strings byte by byte."""
    given, taken = node.input_value(0), node.output(0)
    if taken.get_element_type() == ov.Type.string:
        replace(taken, op.reshape(given, op.shape_of(given), special_zero=False).output(0))


def _know_no_sizes(node: ov.Node, _: Visit) -> None:
    """Replace the shape of a scalar by an empty constant."""
    if rank_of(node.get_input_partial_shape(0)) == 0:
        empty = op.convert(int64([]), node.get_output_element_type(0))
        replace(node.output(0), empty.output(0))


def _give_all_frequencies(node: ov.Node, _: Visit) -> None:
    """Add zeros for frequencies that the requested size needs and the input lacks."""
    data, axes, rank = (
        node.input_value(0),
        known_input(node, 1),
        rank_of(node.get_input_partial_shape(0)),
    )
    if node.get_input_size() < 3 or axes is None or rank is None:
        return
    sizes = op.convert(node.input_value(2), "i64")
    # The last dimension holds the two parts of a complex number and does not count as an axis.
    dimensions = int64(np.where(axes < 0, axes + rank - 1, axes))
    has = op.gather(op.shape_of(data), dimensions, int64(0))
    # The last axis holds one half of the spectrum; size -1 requests as many as there are.
    is_last = op.constant(np.arange(axes.size) == axes.size - 1)
    one_side = op.add(op.divide(sizes, int64(2)), int64(1))
    lacks = op.maximum(op.subtract(op.select(is_last, one_side, sizes), has), int64(0))
    none = int64([0] * rank)
    zeros = op.scatter_update(none, dimensions, lacks, int64(0))
    nothing = op.convert(float32(0.0), data.get_element_type())
    node.input(0).replace_source_output(op.pad(data, none, zeros, "constant", nothing).output(0))


def _fill_masks(node: ov.Node, _: Visit) -> None:
    """Extend each mask with 0 to one entry for each begin.

    An ellipsis alone slices nothing, and ends the process.
    """
    count = node.get_input_partial_shape(1)[0]
    masks = node.get_attributes()
    if count.is_dynamic or not any(masks["ellipsis_mask"]):
        return
    if count.get_length() == 1:
        data = node.input_value(0)
        replace_node(node, op.convert(data, data.get_element_type()))
        return
    for name, mask in masks.items():
        node.set_attribute(name, [*mask, *[0] * (count.get_length() - len(mask))])


def _convert_flags(node: ov.Node, _: Visit) -> None:
    """Compare the flags of empty rows with 0: operations that read them refuse their form."""
    flags = node.output(_FLAGS)
    if flags.get_target_inputs():
        put_behind(flags, lambda found: op.not_equal(op.convert(found, "i32"), int32(0)))


def _tile_in_steps(node: ov.Node, _: Visit) -> None:
    """Split a `Tile` into several that repeat a few axes each."""
    data, repeats = node.input_values()
    rank, count = rank_of(data.get_partial_shape()), repeats.get_partial_shape()[0]
    if rank is None or count.is_dynamic or known_input(node, 1) is not None:
        return
    axes = max(rank, count.get_length())
    leading = axes - count.get_length()
    repeated = [leading + index for index in _not_known_as_one(repeats)]
    if axes <= _RIGHT_AXES or len(repeated) <= _TILED_AXES:
        return
    filled = op.concat([int64([1] * leading), op.convert(repeats, "i64")], 0)
    for at in range(0, len(repeated), _TILED_AXES):
        step = repeated[at : at + _TILED_AXES]
        mask = op.constant(np.array([axis in step for axis in range(axes)]))
        data = op.tile(data, op.select(mask, filled, int64(1))).output(0)
    replace_node(node, data.get_node())


def _not_known_as_one(row: ov.Output) -> list[int]:
    """List the indices of a row of integers whose value is not known to be 1."""
    node = row.get_node()
    ones: list[bool] = []
    for piece in node.input_values() if node.get_type_name() == "Concat" else [row]:
        value = constant_behind(piece)
        size = piece.get_partial_shape()[0].get_length()
        ones += [False] * size if value is None else [number == 1 for number in value.ravel()]
    return [index for index, is_one in enumerate(ones) if not is_one]


def _name_the_first(node: ov.Node, _: Visit) -> None:
    """Make a `TopK` stable, so that the first of equal values wins, where that costs little."""
    count = known_input(node, 1)
    shape = node.get_input_partial_shape(0)
    size = shape[node.get_attributes()["axis"]] if shape.rank.is_static else ov.Dimension()
    few = count is not None and count.item() <= _STABLE_VALUES
    short = size.is_static and size.get_length() <= _STABLE_SIZE
    # A TopK of an older operation set has no such attribute.
    if (few or short) and "stable" in node.get_attributes():
        node.set_attribute("stable", True)
        node.set_attribute("sort", "value")  # a stable TopK has to be sorted


def _widen_mean(node: ov.Node, _: Visit) -> None:
    """Compute the mean of 8-bit integers in 32 bits, which hold its sums."""
    data, axes = node.input_values()
    kind = data.get_element_type()
    if kind not in (ov.Type.i8, ov.Type.u8):
        return
    keeps = node.get_attributes()["keep_dims"]
    mean = op.reduce_mean(op.convert(data, "i32"), axes, keeps)
    mean.set_friendly_name(node.get_friendly_name())
    replace(node.output(0), op.convert(mean, kind).output(0))


def _suppress_only_above(node: ov.Node, _: Visit) -> None:
    """Raise the threshold to the next float32, so that an overlap equal to it does not suppress."""
    if node.get_input_size() <= _THRESHOLD:
        return
    threshold, known = node.input_value(_THRESHOLD), known_input(node, _THRESHOLD)
    if known is not None:
        raised = float32(np.nextafter(known.astype(np.float32), np.float32(np.inf)))
    else:
        given = op.convert(threshold, "f32")
        raised = op.maximum(op.add(given, op.multiply(given, float32(_HALF_STEP))), float32(_LEAST))
    node.input(_THRESHOLD).replace_source_output(raised.output(0))


def _fill_behind(node: ov.Node, _: Visit) -> None:
    """Pad with 0, then select the computed padding value outside the data."""
    if node.get_input_size() <= _FILLING or node.get_attributes()["pad_mode"] != "constant":
        return
    if known_input(node, _FILLING) is not None:
        return
    data, begin, end, number = node.input_values()
    zero = op.convert(float32(0), data.get_element_type())
    filled = op.pad(data, begin, end, "constant", zero)
    is_data = _mask_of_data(node)
    replace_node(node, op.select(is_data, filled, op.convert_like(number, data)))


def _turn_around(compare: Callable[[ov.Output, ov.Output], ov.Node]) -> Ask:
    """Compare floats with the operands swapped."""

    def change(node: ov.Node, _: Visit) -> None:
        one, other = node.input_values()
        if one.get_element_type().is_real() and node.get_attributes()["auto_broadcast"] == "numpy":
            replace_node(node, compare(other, one))

    return change


def _say_dilations(node: ov.Node, _: Visit) -> None:
    """Set dilations that are not given to 1."""
    attributes = node.get_attributes()
    if attributes.get("dilations") == []:
        node.set_attribute("dilations", [1] * len(attributes["kernel"]))


def _find_along_first(node: ov.Node, _: Visit) -> None:
    """Look for unique slices along the first axis."""
    if node.get_input_size() <= 1:
        return
    axis, rank = known_input(node, 1), rank_of(node.get_input_partial_shape(0))
    if axis is None or rank is None:
        raise LoadFailed(
            f"{title(node)} has an axis or a rank that is not known at load:"
            " export the model with a constant axis, and an input of known rank"
        )
    index = int(axis.item()) % rank
    if index == 0:
        return
    # The other axes keep their order, and so the slices keep theirs.
    order = [index, *(each for each in range(rank) if each != index)]
    turned = op.transpose(node.input_value(0), int64(order)).output(0)
    node.input(0).replace_source_output(turned)
    node.input(1).replace_source_output(int64(0).output(0))
    node.validate_and_infer_types()
    put_behind(node.output(0), lambda found: op.transpose(found, int64(np.argsort(order))))


def _read_indices(node: ov.Node, here: Visit) -> None:
    """Add a reader of the index of each element among the unique ones."""
    indices = node.output(_INDICES)
    if not indices.get_target_inputs():
        add_result(here.model, indices)


def _broadcast_to_nothing(node: ov.Node, _: Visit) -> None:
    """Skip the broadcast of a scalar to the shape of a scalar."""
    data, count = node.input_value(0), node.get_input_partial_shape(1)
    if count.is_static and count.to_shape()[0] == 0 and data.get_partial_shape().rank == 0:
        replace(node.output(0), data)


def _gather_by_no_coordinates(node: ov.Node, _: Visit) -> None:
    """Give all data for each index, as a `GatherND` with empty coordinates does."""
    data, indices = node.input_values()
    shape = indices.get_partial_shape()
    rank = rank_of(shape)
    if rank is None or shape[rank - 1] != 0 or node.get_attributes().get("batch_dims", 0):
        return
    count = op.slice(op.shape_of(indices), int64([0]), int64([rank - 1]), int64([1]))
    replace(node.output(0), op.broadcast(data, op.concat([count, op.shape_of(data)], 0)).output(0))


def _quantize_in_steps(node: ov.Node, _: Visit) -> None:
    """Quantize by elementary operations if the number of channels is open."""
    data, low, high, least, greatest = node.input_values()
    shape = data.get_partial_shape()
    if shape.rank.is_dynamic or not any(
        ends.get_partial_shape().is_dynamic or _has_open_channels(shape, ends.get_shape())
        for ends in (low, high, least, greatest)
    ):
        return
    kind = data.get_element_type()
    steps = op.convert(float32(node.get_attributes()["levels"] - 1), kind)
    within = op.minimum(op.maximum(data, low), high)
    share = op.divide(op.multiply(op.subtract(within, low), steps), op.subtract(high, low))
    step = op.divide(op.round(share, "half_to_even"), steps)
    replace_node(node, op.add(op.multiply(step, op.subtract(greatest, least)), least))


def _has_open_channels(shape: ov.PartialShape, ends: Sequence[int]) -> bool:
    """Tell whether values of `ends` belong to dimensions of an open size."""
    pairs = zip(reversed(list(shape)), reversed(ends), strict=False)
    return any(size.is_dynamic and end > 1 for size, end in pairs)


def _mask_of_data(node: ov.Node) -> ov.Node:
    """Give true for the elements of a padded tensor that are data, false for padding."""
    shape, before, after = (
        node.get_input_partial_shape(0),
        known_input(node, 1),
        known_input(node, 2),
    )
    # A constant: the plugin reuses the memory of a mask that it computes.
    if shape.is_static and before is not None and after is not None:
        mask: Array = np.array(True)
        for size, first, last in zip(shape.to_shape(), before, after, strict=True):
            indices = np.arange(-first, size + last)
            mask = np.logical_and.outer(mask, (indices >= 0) & (indices < size))
        return op.constant(mask)
    none = op.constant(np.uint8(0))
    ones = op.broadcast(op.constant(np.uint8(1)), op.shape_of(node.input_value(0)))
    padded = op.pad(ones, node.input_value(1), node.input_value(2), "constant", none)
    return op.not_equal(padded, none)


READ: Sequence[Rule[Ask]] = (
    Rule("an_average_without_dilations_ends_the_process", "AvgPool", _say_dilations),
    Rule("nan_is_greater", "Greater", _turn_around(op.less)),
    Rule("nan_is_greater", "GreaterEqual", _turn_around(op.less_equal)),
    Rule("strings_are_freed_twice", "Identity", _copy_strings),
    Rule("frequencies_that_lack_are_read_elsewhere", "IRDFT", _give_all_frequencies),
    Rule("a_number_of_a_branch_is_a_row", "If", _keep_ranks),
    Rule("what_a_branch_gives_is_overwritten", "If", _keep_outputs),
    Rule("a_box_at_the_threshold_is_left_out", "NonMaxSuppression", _suppress_only_above),
    Rule("means_of_8_bits", "ReduceMean", _widen_mean),
    Rule("the_size_of_a_number_ends_the_process", "ShapeOf", _know_no_sizes),
    Rule("weights_stay_scaled", "Multiply Subtract", _hold_weights),
    Rule("flags_of_empty_rows_are_not_taken", "SparseFillEmptyRows", _convert_flags),
    Rule("an_ellipsis_with_short_masks_writes_elsewhere", "StridedSlice", _fill_masks),
    Rule("a_tile_is_written_in_part", "Tile", _tile_in_steps),
    Rule("equal_values_lose_their_order", "TopK", _name_the_first),
    Rule("unique_slices_are_compared_wrongly", "Unique", _find_along_first),
    Rule("unique_values_are_zeros", "Unique", _read_indices),
)
SIZED: Sequence[Rule[Ask]] = (
    Rule("a_broadcast_to_no_dimensions_ends_the_process", "Broadcast", _broadcast_to_nothing),
    Rule("open_channels_take_other_steps", "FakeQuantize", _quantize_in_steps),
    Rule(
        "a_gather_of_nothing_ends_the_process a_gather_in_a_batch_of_one_reads_elsewhere",
        "Gather",
        _gather,
    ),
    Rule("an_operation_that_sees_nothing_is_skipped", "MatMul", _multiply_nothing),
    Rule("places_of_no_coordinates_read_elsewhere", "GatherND", _gather_by_no_coordinates),
    Rule(
        "a_computed_number_is_not_padded_with padding_is_that_of_the_first_request",
        "Pad",
        _fill_behind,
    ),
)
