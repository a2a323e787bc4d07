"""Keeps indices that a request may choose inside the tensors that they point into.

The CPU plugin does not check them: a scatter writes outside its tensor and ends the process,
`GatherElements` and `GatherND` read memory outside theirs, `Gather` gives zeros. Measured
with OpenVINO 2026.4 (`tests/functional/test_indices.py`). A guarded graph replaces an index that is
out of range by 0 and raises a flag, which refuses the request.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import openvino as ov
import openvino.opset15 as op

from ie_serving.core.values.tensors import Array
from ie_serving.engines.openvino.graphs.constants import int32, int64, known_input, value_of
from ie_serving.engines.openvino.graphs.rules import Ask, Rule, Visit
from ie_serving.engines.openvino.graphs.walk import Flag, title

KEEPS_VALUES = frozenset(
    {"Broadcast", "Reshape", "Slice", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze"}
)
"""Operations whose outputs hold only values of their first input."""
_WITHOUT_AXES = 2
"""Inputs of a `Broadcast` by the rules of numpy, not along axes that it names."""
SMALL = frozenset({"i8", "i16", "i32", "u8", "u16"})
"""Types of indices that fit into int32; others are compared as int64."""


@dataclass(frozen=True)
class _IndexUse:
    """How an operation uses indices.

    Attributes:
        axes: the dimensions of the first input that the last dimension of the indices, or each of
            them, points into; None where they are known only when the graph runs.
        from_end: whether OpenVINO counts negative indices from the end; else they are refused.
        single: whether each index points into one dimension, not each row of them into several.
    """

    axes: Callable[[ov.Node], Sequence[int] | None]
    from_end: bool = True
    single: bool = True

    def guard(self, node: ov.Node, here: Visit) -> Iterator[Flag]:
        """Bound the indices of an operation; give a flag if they may be out of range."""
        negative = here.from_end and self.from_end and not _is_first_gather(node)
        axes = self.axes(node)
        if _surely_inside(node, axes, negative):
            return
        spread = _spread(node) if self.single else None
        valid = _bound(node, self._sizes(node, axes), negative, spread)
        low = "minus its size" if negative else "0"
        cause = (
            f"an index for {title(node)} is out of range: send indices from {low} to the size of"
            " the dimension less 1"
        )
        yield Flag.unless(cause, valid)

    def _sizes(self, node: ov.Node, axes: Sequence[int] | None) -> ov.Node:
        """Give a graph of the sizes that indices must be below: one, or one for each column."""
        shape = op.shape_of(node.input_value(0), "i64")
        zero = int64(0)
        if axes is not None:
            which = axes[0] if self.single else list(axes)
            return op.gather(shape, int64(which), zero)
        if self.single:  # the axis is computed too; its form may be () or (1,)
            return op.squeeze(op.gather(shape, node.input_value(_AXIS[node.get_type_name()]), zero))
        return _leading(node, shape)


# Gather of opsets 1 and 7 does not count from the end; it answers zeros.
def _is_first_gather(node: ov.Node) -> bool:
    info = node.get_type_info()
    return bool(info.name == "Gather" and info.version_id in ("opset1", "opset7"))


def _surely_inside(node: ov.Node, axes: Sequence[int] | None, negative: bool) -> bool:
    """Tell whether the indices are known at load and in range for all sizes of the data but 0."""
    values = _known_values(node.input_value(1).get_node())
    if values is None:
        return False
    if not values.size:
        return True
    least = _least(node.get_input_partial_shape(0), axes)
    return bool(values.min() >= (-least if negative else 0) and values.max() < least)


def _known_values(node: ov.Node) -> Array | None:
    """Give the constant whose values an output selects or moves; None if not known at load."""
    while node.get_type_name() in KEEPS_VALUES:
        node = node.input_value(0).get_node()
    return value_of(node)


def _least(shape: ov.PartialShape, axes: Sequence[int] | None) -> int:
    """Give the least size of some dimensions, at least 1: empty data has its own guard."""
    if shape.rank.is_dynamic or not axes:
        return 1
    return max(1, min(int(shape[axis].get_min_length()) for axis in axes))


def _spread(node: ov.Node) -> ov.Node | None:
    """Give the `Broadcast` by which indices are repeated, as for each number of a row; else None.

    Graph networks point to an edge's ends once for each of a hundred numbers: to look at an index
    before it is repeated takes a hundredth of the time.
    """
    made = node.input_value(1).get_node()
    is_spread = made.get_type_name() == "Broadcast" and made.get_input_size() == _WITHOUT_AXES
    return made if is_spread else None


def _bound(node: ov.Node, sizes: ov.Node, negative: bool, spread: ov.Node | None = None) -> ov.Node:
    """Replace indices out of range by 0; give a graph of booleans, true for those in range."""
    kind = _kind(node.get_input_element_type(1))
    indices = _as((spread or node).input_value(0 if spread else 1), kind)
    high = _as(sizes.output(0), kind)
    zero, one = map(_CONSTANT[kind], (0, 1))
    below = op.negative(op.add(high, one)) if negative else op.negative(one)
    # The plugin may compare integers as floats. Both comparisons are strict: a rounded index may
    # then be refused, where a size is above 2**24, but never be taken for one in range.
    valid = op.logical_and(op.greater(indices, below), op.less(indices, high))
    inside = op.select(valid, indices, zero)
    if spread is not None:  # a second one: the first may be read by what the sizes are computed of
        inside = op.broadcast(
            inside, spread.input_value(1), broadcast_spec=spread.get_attributes()["mode"]
        )
    node.input(1).replace_source_output(inside.output(0))
    return valid


def _kind(element: ov.Type) -> str:
    return "i32" if element.get_type_name() in SMALL else "i64"


_CONSTANT: Final[Mapping[str, Callable[[int], ov.Node]]] = {"i32": int32, "i64": int64}


def _as(output: ov.Output, kind: str) -> ov.Output:
    if output.get_element_type().get_type_name() == kind:
        return output
    return op.convert(output, kind).output(0)


def _leading(node: ov.Node, shape: ov.Node) -> ov.Node:
    """Give as many sizes as the last dimension of the indices has columns."""
    begin = int64([_batch_dims(node)])
    columns = op.gather(op.shape_of(node.input_value(1), "i64"), int64([-1]), int64(0))
    return op.slice(shape, begin, op.add(columns, begin), int64([1]))


def _axis_input(node: ov.Node) -> list[int] | None:
    axis = known_input(node, _AXIS[node.get_type_name()])
    return None if axis is None else [int(axis.item())]


def _axis_attribute(node: ov.Node) -> list[int]:
    return [int(node.get_attributes()["axis"])]


def _columns(node: ov.Node) -> list[int] | None:
    shape = node.get_input_partial_shape(1)
    if shape.rank.is_dynamic or shape[len(shape) - 1].is_dynamic:
        return None
    first = _batch_dims(node)
    return list(range(first, first + shape[len(shape) - 1].get_length()))


def _batch_dims(node: ov.Node) -> int:
    return int(node.get_attributes().get("batch_dims", 0))


_AXIS: Final[Mapping[str, int]] = {"Gather": 2, "ScatterUpdate": 3, "ScatterElementsUpdate": 3}
"""Number of the input that holds the axis."""

RULES: Sequence[Rule[Ask]] = tuple(
    Rule("an_index_out_of_range_is_taken", kinds, indexing.guard)
    for kinds, indexing in (
        ("Gather ScatterElementsUpdate", _IndexUse(_axis_input)),
        ("GatherElements", _IndexUse(_axis_attribute)),
        ("GatherND ScatterNDUpdate", _IndexUse(_columns, single=False)),
        ("ScatterUpdate", _IndexUse(_axis_input, from_end=False)),
    )
)
"""Operations that point with their second input into their first."""
