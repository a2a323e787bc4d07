"""Operations that OpenVINO's CPU plugin runs wrongly as they stand, changed before the compile.

Each fault was measured with OpenVINO 2026.4; `docs/reference/openvino-faults.md` lists them, and
`tests/unit/engines/openvino/test_mend.py` shows each:

- What an `If` of open shape gives is lost where the memory of an operation beside it grows before
  it is read: the answer is made of freed memory. An output that is also a result keeps its memory,
  unless the plugin computes its type in another one: then a conversion stands between the two.
- `Identity` of strings copies them byte by byte, so that two own one memory: the process ends. A
  `Reshape` to the shape that they have copies them right.
- `ShapeOf` of a number that `Gather` takes out of an open row ends the process that compiles it.
- `SparseFillEmptyRows` gives its flags of empty rows in a form that the operations behind it
  refuse: "unsupported src_prc: boolean".
- `StridedSlice` with an ellipsis between other entries writes beyond its memory where its masks are
  shorter than its beginnings, as the front end for TensorFlow leaves them: other values change, or
  the process ends.
- `Greater` and `GreaterEqual` are true of NaN on CPUs with AVX-512; `Less` of the same numbers the
  other way round is not.
- `NonMaxSuppression` leaves out a box that overlaps by the threshold itself, and not only by more.
- `Pad` fills with 0 where its number is computed and all sizes are known; in open sizes with the
  number of an earlier request.
- `Broadcast` to no dimensions ends the process at the compile, as does a `Gather` of which it is
  known that it gives nothing. The first becomes what it is given, the second a constant.
- `GatherND` by places of no coordinates gives what lies anywhere in memory.
- `ReduceMean` of 8 bits ends its sums at their greatest number where all sizes are known.
- `FakeQuantize` in channels of an open number takes other steps than it is told.
- `ReduceMax` begins with the least finite float, so that the greatest of negative infinities alone,
  or of nothing, is that; `ReduceMin` likewise. Halves of floats leave room for it below them.
- `Tile` with computed repeats writes only a part of its output where its sizes and repeats are more
  than six dimensions, those that lie together counted as one: the rest holds another request's
  numbers. Two axes a step are five dimensions at most.
- `TopK` names other places than the first of equal values; TensorFlow and ONNX name the first, as
  it does itself where it is told to be stable. That takes longer by far, so it is told where the
  values or the elements are few.
- `AvgPool` of operation set 16 without dilations ends the process that compiles it.
- `Unique` gives zeros unless something reads the place of each element among the unique ones. Along
  another axis than the first it compares other numbers, and gives what is not its own memory.

And once the sizes of the inputs are what they will be:

- `Gather` with dimensions of a batch that are all 1 reads beyond its memory: other values come, or
  the process ends. Without those dimensions in its indices it gathers the same.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import openvino as ov
import openvino.opset15 as op

from ie_serving.core.errors import LoadFailed
from ie_serving.core.tensors import Array
from ie_serving.engines.openvino.graphs.bodies import add_result, bodies
from ie_serving.engines.openvino.graphs.constants import float32, int32, int64, value_of
from ie_serving.engines.openvino.graphs.flags import title
from ie_serving.engines.openvino.graphs.walk import operations

_COMPUTED_AS: Mapping[str, str] = {
    "boolean": "u8",
    **dict.fromkeys(("f16", "f64"), "f32"),
    **dict.fromkeys(("i16", "u16", "u32", "i64", "u64"), "i32"),
}
"""Types that the plugin computes in others, and converts back where they are outputs."""
_FLAGS = 2
"""Number of the output of SparseFillEmptyRows that tells which rows were empty."""
_PLACES = 2
"""Number of the output of Unique that tells where each element is among the unique ones."""

_STABLE_VALUES = 10
"""Values up to which a `TopK` is stable whatever the size: 5 of 1,001 take 160 us instead of 105,
but 300 of 8,400 would take 30 ms instead of 0.6."""
_STABLE_SIZE = 256
"""Elements in a row up to which a `TopK` is stable whatever the number of values."""
_THRESHOLD, _FILLING = 3, 3
"""Inputs: of NonMaxSuppression, by how much boxes may overlap; of Pad, what it fills with."""
_HALF_STEP = 2.0**-24 * 1.001
"""A float32 plus this part of it, rounded, is the next float32."""
_LEAST = 1.1754944e-38
"""Least float32 that the plugin does not take for 0."""

_RIGHT_AXES = 3
"""Axes up to which a `Tile` is right: a size and a repeat for each make six dimensions."""
_TILED_AXES = 2
"""Axes that one `Tile` may repeat among any number of others."""


def mend(model: ov.Model) -> None:
    """Change the operations that would give wrong answers, those of bodies too."""
    for node in operations(model):
        for body in bodies(node):
            mend(body)
        change = _CHANGES.get(node.get_type_name())
        if change is not None:
            change(model, node)


def mend_known_sizes(model: ov.Model) -> None:
    """Change those that are wrong for the sizes that the graph has, those of bodies too."""
    for node in operations(model):
        for body in bodies(node):
            mend_known_sizes(body)
        change = _BY_SIZES.get(node.get_type_name())
        if change is not None:
            change(node)


def _gather(node: ov.Node) -> None:
    shape = node.get_output_partial_shape(0)
    if shape.rank.is_static and any(size == 0 for size in shape):
        _give_nothing(node)
    else:
        _gather_without_batch(node)


def _give_nothing(node: ov.Node) -> None:
    """Give what a `Gather` gives of which a size is 0, without any division by it."""
    data, places, axis = node.input_values()
    at, rank = value_of(axis.get_node()), data.get_partial_shape().rank
    if at is None or rank.is_dynamic or node.get_attributes().get("batch_dims", 0):
        return
    where, count = int(at.item()) % rank.get_length(), rank.get_length()
    sizes, one = op.shape_of(data), int64([1])
    before = op.slice(sizes, int64([0]), int64([where]), one)
    behind = op.slice(sizes, int64([where + 1]), int64([count]), one)
    shape = op.concat([before, op.shape_of(places), behind], 0)
    zero = op.constant(ov.Tensor(np.zeros((), data.get_element_type().to_dtype())))
    replace(node.output(0), op.broadcast(zero, shape).output(0))


def _gather_without_batch(node: ov.Node) -> None:
    rank = node.get_input_partial_shape(1).rank
    batch = node.get_attributes().get("batch_dims", 0)
    if not batch or rank.is_dynamic:
        return
    if batch < 0:
        batch += rank.get_length()
    sizes = [node.get_input_partial_shape(1)[axis] for axis in range(batch)]
    if any(size.is_dynamic or size.get_length() != 1 for size in sizes):
        return
    data, places, axis = node.input_values()
    row = op.squeeze(places, int64(list(range(batch))))
    gathered = op.gather(data, row, axis)
    gathered.set_friendly_name(node.get_friendly_name())
    replace(node.output(0), gathered.output(0))


def replace(old: ov.Output, made: ov.Output) -> None:
    """Let all that read `old` read `made`, which takes its names."""
    readers, names = list(old.get_target_inputs()), old.get_names()
    old.set_names(set())
    made.set_names(names)
    for reader in readers:
        reader.replace_source_output(made)


def _keep_outputs(model: ov.Model, node: ov.Node) -> None:
    """Let the outputs of an `If` be results, which share their memory with nothing."""
    # One that only the operations behind it read can be lost; a result keeps its memory.
    for output in node.outputs():
        if output.get_partial_shape().is_dynamic:
            if computed := _COMPUTED_AS.get(output.get_element_type().get_type_name()):
                _convert_inside(node, output, computed)
            add_result(model, node.output(output.get_index()))


def _convert_inside(node: ov.Node, output: ov.Output, computed: str) -> None:
    """Convert an output of an `If` to another type inside of its branches, and back behind it."""
    kind, readers = output.get_element_type(), list(output.get_target_inputs())
    for number, body in enumerate(bodies(node)):
        (place,) = [
            each.body_value_index
            for each in node.get_output_descriptions(number)
            if each.output_index == output.get_index()
        ]
        given = body.get_results()[place].input(0)
        given.replace_source_output(op.convert(given.get_source_output(), computed).output(0))
        body.validate_nodes_and_infer_types()
    node.validate_and_infer_types()
    widened = op.convert(node.output(output.get_index()), kind).output(0)
    for reader in readers:
        reader.replace_source_output(widened)


def _copy_strings(_: ov.Model, node: ov.Node) -> None:
    given, taken = node.input_value(0), node.output(0)
    if taken.get_element_type() != ov.Type.string:
        return
    copied = op.reshape(given, op.shape_of(given), special_zero=False).output(0)
    replace(taken, copied)


def _know_no_sizes(_: ov.Model, node: ov.Node) -> None:
    """Replace the shape of a number, which has no dimensions, by what it is."""
    rank = node.get_input_partial_shape(0).rank
    if rank.is_static and rank.get_length() == 0:
        empty = op.convert(int64([]), node.get_output_element_type(0)).output(0)
        for reader in list(node.output(0).get_target_inputs()):
            reader.replace_source_output(empty)


def _fill_masks(_: ov.Model, node: ov.Node) -> None:
    """Let each mask have an entry for each beginning; those that lack mean 0."""
    count = node.get_input_partial_shape(1)[0]
    masks = node.get_attributes()
    if count.is_dynamic or not any(masks["ellipsis_mask"]):
        return
    for name, mask in masks.items():
        node.set_attribute(name, [*mask, *[0] * (count.get_length() - len(mask))])


def _convert_flags(_: ov.Model, node: ov.Node) -> None:
    flags = node.output(_FLAGS)
    readers = list(flags.get_target_inputs())
    if not readers:
        return
    converted = op.not_equal(op.convert(flags, "i32"), int32(0)).output(0)
    for reader in readers:
        reader.replace_source_output(converted)


def _tile_in_steps(_: ov.Model, node: ov.Node) -> None:
    """Tile a few axes at a time; each step leaves the others as they are."""
    data, repeats = node.input_values()
    rank, count = data.get_partial_shape().rank, repeats.get_partial_shape()[0]
    if rank.is_dynamic or count.is_dynamic or value_of(repeats.get_node()) is not None:
        return
    axes = max(rank.get_length(), count.get_length())
    leading = axes - count.get_length()
    repeated = [leading + place for place in _not_known_as_one(repeats)]
    if axes <= _RIGHT_AXES or len(repeated) <= _TILED_AXES:
        return
    filled = op.concat([int64([1] * leading), op.convert(repeats, "i64")], 0)
    for at in range(0, len(repeated), _TILED_AXES):
        step = repeated[at : at + _TILED_AXES]
        mask = op.constant(np.array([axis in step for axis in range(axes)]))
        data = op.tile(data, op.select(mask, filled, int64(1))).output(0)
    data.get_node().set_friendly_name(node.get_friendly_name())
    replace(node.output(0), data)


def _not_known_as_one(row: ov.Output) -> list[int]:
    """List the places in a row of integers that may hold another number than 1."""
    node = row.get_node()
    ones: list[bool] = []
    for piece in node.input_values() if node.get_type_name() == "Concat" else [row]:
        value = _constant_behind(piece)
        size = piece.get_partial_shape()[0].get_length()
        ones += [False] * size if value is None else [number == 1 for number in value.ravel()]
    return [place for place, is_one in enumerate(ones) if not is_one]


def _constant_behind(output: ov.Output) -> Array | None:
    """Give the value of a constant that was converted or has another rank; else None."""
    node = output.get_node()
    while node.get_type_name() in ("Convert", "Reshape", "Unsqueeze"):
        node = node.input_value(0).get_node()
    return value_of(node)


def _name_the_first(_: ov.Model, node: ov.Node) -> None:
    count = value_of(node.input_value(1).get_node())
    shape = node.get_input_partial_shape(0)
    size = shape[node.get_attributes()["axis"]] if shape.rank.is_static else ov.Dimension()
    few = count is not None and count.item() <= _STABLE_VALUES
    short = size.is_static and size.get_length() <= _STABLE_SIZE
    # Those of older operation sets cannot be told.
    if (few or short) and "stable" in node.get_attributes():
        node.set_attribute("stable", True)
        node.set_attribute("sort", "value")  # what is stable is sorted


def _reach_infinity(_: ov.Model, node: ov.Node) -> None:
    """Reduce halves, and double the result: the least finite float becomes infinite by it."""
    data, output = node.input_value(0), node.output(0)
    readers = list(output.get_target_inputs())
    kind = data.get_element_type()
    # Infinities of BF16 are the plugin's greatest numbers already, and compared with as such.
    if not kind.is_real() or kind == ov.Type.bf16 or _is_of_softmax(data, readers):
        return
    half, two = (op.convert(float32(number), kind) for number in (0.5, 2))
    node.input(0).replace_source_output(op.multiply(data, half).output(0))
    doubled = op.multiply(output, two).output(0)
    for reader in readers:
        reader.replace_source_output(doubled)
    names = output.get_names()
    output.set_names(set())
    doubled.set_names(names)


def _widen_mean(_: ov.Model, node: ov.Node) -> None:
    """Compute the mean of 8 bits with 32, which hold its sums."""
    data, axes = node.input_values()
    kind = data.get_element_type()
    if kind not in (ov.Type.i8, ov.Type.u8):
        return
    keeps = node.get_attributes()["keep_dims"]
    mean = op.reduce_mean(op.convert(data, "i32"), axes, keeps)
    mean.set_friendly_name(node.get_friendly_name())
    replace(node.output(0), op.convert(mean, kind).output(0))


def _is_of_softmax(data: ov.Output, readers: Sequence[ov.Input]) -> bool:
    """Tell whether the same numbers are lowered by their greatest alone, which is fused as is."""
    if len(readers) != 1 or readers[0].get_node().get_type_name() != "Subtract":
        return False
    lowered = readers[0].get_node().input_value(0)
    return bool(lowered == data)


def _suppress_only_above(_: ov.Model, node: ov.Node) -> None:
    """Raise the threshold to the next float."""
    if node.get_input_size() <= _THRESHOLD:
        return
    threshold = node.input_value(_THRESHOLD)
    known = value_of(threshold.get_node())
    if known is not None:
        raised = float32(np.nextafter(known.astype(np.float32), np.float32(np.inf)))
    else:
        given = op.convert(threshold, "f32")
        raised = op.maximum(op.add(given, op.multiply(given, float32(_HALF_STEP))), float32(_LEAST))
    node.input(_THRESHOLD).replace_source_output(raised.output(0))


def _fill_behind(node: ov.Node) -> None:
    """Fill with 0, and take the computed number where nothing was taken from the data."""
    if node.get_input_size() <= _FILLING or node.get_attributes()["pad_mode"] != "constant":
        return
    data, begin, end, number = node.input_values()
    if value_of(number.get_node()) is not None:
        return
    zero = op.convert(float32(0), data.get_element_type())
    filled = op.pad(data, begin, end, "constant", zero)
    is_data = _mask_of_data(data, begin, end)
    chosen = op.select(is_data, filled, op.convert_like(number, data))
    chosen.set_friendly_name(node.get_friendly_name())
    replace(node.output(0), chosen.output(0))


def _turn_around(
    compare: Callable[[ov.Output, ov.Output], ov.Node],
) -> Callable[[ov.Model, ov.Node], None]:
    """Compare floats the other way round."""

    def change(_: ov.Model, node: ov.Node) -> None:
        one, other = node.input_values()
        if one.get_element_type().is_real() and node.get_attributes()["auto_broadcast"] == "numpy":
            turned = compare(other, one)
            turned.set_friendly_name(node.get_friendly_name())
            replace(node.output(0), turned.output(0))

    return change


def _say_dilations(_: ov.Model, node: ov.Node) -> None:
    """Say that windows have no gaps, where nothing is said."""
    attributes = node.get_attributes()
    if attributes.get("dilations") == []:
        node.set_attribute("dilations", [1] * len(attributes["kernel"]))


def _find_unique(model: ov.Model, node: ov.Node) -> None:
    """Look along the first axis, and let something read the places."""
    _find_along_first(node)
    _read_places(model, node)


def _find_along_first(node: ov.Node) -> None:
    if node.get_input_size() <= 1:
        return
    axis, rank = value_of(node.input_value(1).get_node()), node.get_input_partial_shape(0).rank
    if axis is None or rank.is_dynamic:
        raise LoadFailed(f"{title(node)} has an axis or a rank that is not known at load")
    place = int(axis.item()) % rank.get_length()
    if place == 0:
        return
    # Slices keep the order of their own axes, and so their order among each other.
    order = [place, *(each for each in range(rank.get_length()) if each != place)]
    turned = op.transpose(node.input_value(0), int64(order)).output(0)
    output = node.output(0)
    readers, names = list(output.get_target_inputs()), output.get_names()
    back = op.transpose(output, int64(np.argsort(order))).output(0)
    node.input(0).replace_source_output(turned)
    node.input(1).replace_source_output(int64(0).output(0))
    node.validate_and_infer_types()
    back.get_node().validate_and_infer_types()
    output.set_names(set())
    back.set_names(names)
    for reader in readers:
        reader.replace_source_output(back)


def _broadcast_to_nothing(node: ov.Node) -> None:
    """Give a number as it is where there are no dimensions to broadcast it to."""
    data, count = node.input_value(0), node.get_input_partial_shape(1)
    if count.is_static and count.to_shape()[0] == 0 and data.get_partial_shape().rank == 0:
        replace(node.output(0), data)


def _gather_by_no_coordinates(node: ov.Node) -> None:
    """Give all of the data for each place."""
    data, places = node.input_values()
    shape = places.get_partial_shape()
    if shape.rank.is_dynamic or node.get_attributes().get("batch_dims", 0):
        return
    rank = shape.rank.get_length()
    if shape[rank - 1] != 0:
        return
    count = op.slice(op.shape_of(places), int64([0]), int64([rank - 1]), int64([1]))
    replace(node.output(0), op.broadcast(data, op.concat([count, op.shape_of(data)], 0)).output(0))


def _quantize_in_steps(node: ov.Node) -> None:
    """Compute the same by other operations, where the number of channels is open."""
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
    made = op.add(op.multiply(step, op.subtract(greatest, least)), least)
    made.set_friendly_name(node.get_friendly_name())
    replace(node.output(0), made.output(0))


def _has_open_channels(shape: ov.PartialShape, ends: Sequence[int]) -> bool:
    """Tell whether values of `ends` belong to dimensions of an open size."""
    pairs = zip(reversed(list(shape)), reversed(ends), strict=False)
    return any(size.is_dynamic and end > 1 for size, end in pairs)


_BY_SIZES: Mapping[str, Callable[[ov.Node], None]] = MappingProxyType(
    {
        "Broadcast": _broadcast_to_nothing,
        "FakeQuantize": _quantize_in_steps,
        "Gather": _gather,
        "GatherND": _gather_by_no_coordinates,
        "Pad": _fill_behind,
    }
)


def _mask_of_data(data: ov.Output, begin: ov.Output, end: ov.Output) -> ov.Node:
    """Tell which elements of a padded tensor are of the data."""
    shape = data.get_partial_shape()
    before, after = (value_of(each.get_node()) for each in (begin, end))
    # A constant: the plugin lets others write where it has computed one of constants alone.
    if shape.is_static and before is not None and after is not None:
        mask: Array = np.array(True)
        for size, first, last in zip(shape.to_shape(), before, after, strict=True):
            places = np.arange(-first, size + last)
            mask = np.logical_and.outer(mask, (places >= 0) & (places < size))
        return op.constant(mask)
    none = op.constant(np.uint8(0))
    ones = op.broadcast(op.constant(np.uint8(1)), op.shape_of(data))
    return op.not_equal(op.pad(ones, begin, end, "constant", none), none)


def _read_places(model: ov.Model, node: ov.Node) -> None:
    places = node.output(_PLACES)
    if not places.get_target_inputs():
        add_result(model, places)


_CHANGES: Mapping[str, Callable[[ov.Model, ov.Node], None]] = MappingProxyType(
    {
        "AvgPool": _say_dilations,
        "Greater": _turn_around(op.less),
        "GreaterEqual": _turn_around(op.less_equal),
        "Identity": _copy_strings,
        "If": _keep_outputs,
        "NonMaxSuppression": _suppress_only_above,
        "ReduceMax": _reach_infinity,
        "ReduceMean": _widen_mean,
        "ReduceMin": _reach_infinity,
        "ShapeOf": _know_no_sizes,
        "SparseFillEmptyRows": _convert_flags,
        "StridedSlice": _fill_masks,
        "Tile": _tile_in_steps,
        "TopK": _name_the_first,
        "Unique": _find_unique,
    }
)
