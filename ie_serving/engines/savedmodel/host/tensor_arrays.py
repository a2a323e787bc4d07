"""Rewrite: turns TensorArrays of TensorFlow 1 into lists of tensors, as `tf.map_fn` uses today.

A TensorArray is a handle to an array in the session, and a *flow*, a dummy number that each
operation takes and gives, which fixes their order. A list is a value: it replaces the flow, and the
handle is removed.

| operation | in its place |
|---|---|
| `TensorArrayV3` | `TensorListReserve` |
| `TensorArrayReadV3` | `TensorListGetItem` |
| `TensorArrayWriteV3` | `TensorListSetItem` |
| `TensorArrayScatterV3` | `TensorListScatterIntoExistingList` |
| `TensorArrayGatherV3` | `TensorListGather` |
| `TensorArraySizeV3` | `TensorListLength` |
| `TensorArrayConcatV3` | `TensorListConcatV2` |
| `TensorArraySplitV3` | `TensorListSplit`, which also reads the list before, for its length |
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.constants import held, tensor_proto
from ie_serving.engines.savedmodel.file import VARIANT
from ie_serving.engines.savedmodel.frames import name_of, noted_shape
from ie_serving.engines.savedmodel.host.nodes import GraphNodes, data_inputs, set_inputs
from ie_serving.engines.savedmodel.host.tensor_list import LISTS
from ie_serving.wire.protobuf.messages import Proto

_INT32 = DataType.INT32.number
_CARRY = frozenset({"Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"})
"""Operations that hand on what they read."""


@dataclass(frozen=True)
class _Array:
    """A TensorArrayV3.

    Attributes:
        name: name of the node.
        size: reference to the number of its elements.
        grows: whether writing makes it longer.
        sized: whether an operation reads its size.
    """

    name: str
    size: str
    grows: bool
    sized: bool


def lists_for_arrays(nodes: GraphNodes, read: Collection[Proto]) -> None:
    """Rewrite every TensorArray.

    Args:
        nodes: nodes of the graph.
        read: nodes that the signature needs; they are changed.

    Raises:
        LoadFailed: an operation has no counterpart.
    """
    found = [node for node in read if node.op.startswith("TensorArray")]
    arrays = _arrays(nodes, found)
    # Last come those that are looked at for the others.
    for node in sorted(found, key=lambda each: _LAST.get(each.op, 0)):
        _REWRITES[node.op](nodes, node, arrays[node.name])
    names = {array.name for array in arrays.values()}
    for node in read:
        set_inputs(node, (_without_number(each, names) for each in node.input))
    _retype(read, {node.name for node in found if node.op in LISTS})


def _arrays(nodes: GraphNodes, found: Collection[Proto]) -> dict[str, _Array]:
    """Find the TensorArray of each operation, by the operation's name."""
    of: dict[str, Proto] = {}
    for node in found:
        if node.op not in _REWRITES:
            raise LoadFailed(
                f"{node.op} {node.name!r} has no counterpart for lists: export the model without it"
            )
        of[node.name] = _array(nodes, node)
    sized = {of[node.name].name for node in found if node.op == "TensorArraySizeV3"}
    return {
        name: _Array(each.name, str(each.input[0]), each.attr["dynamic_size"].b, each.name in sized)
        for name, each in of.items()
    }


def _array(nodes: GraphNodes, node: Proto) -> Proto:
    """Find the TensorArrayV3 whose handle a node reads."""
    while node.op != "TensorArrayV3":
        if node.op not in _CARRY and not node.op.startswith("TensorArray"):
            raise LoadFailed(f"{node.op} {node.name!r} is no TensorArray: export the model again")
        node = nodes.of(node.input[0])
    return node


def _without_number(reference: str, arrays: Collection[str]) -> str:
    """Let a reference to the flow of a TensorArrayV3, its output 1, mean its only output."""
    name, _, number = reference.partition(":")
    return name if number == "1" and name in arrays else reference


def _retype(read: Iterable[Proto], lists: set[str]) -> None:
    """Note where a list is handed on."""
    readers: dict[str, list[Proto]] = {}
    for node in read:
        if node.op in _CARRY:
            for each in data_inputs(node):
                readers.setdefault(name_of(each), []).append(node)
    waiting = list(lists)
    while waiting:
        for node in readers.get(waiting.pop(), ()):
            if node.attr["T"].type != VARIANT:
                node.attr["T"].type = VARIANT
                waiting.append(node.name)


def _become(node: Proto, op: str, inputs: Iterable[str], dtype: int) -> None:
    node.op = op
    set_inputs(node, inputs)
    node.attr["element_dtype"].type = dtype


def _element_shape(nodes: GraphNodes, node: Proto) -> str:
    """Add a Const of the shape that elements have; returns its name."""
    return _shape_constant(nodes, node, _noted_shape(node), ())


def _shape_constant(
    nodes: GraphNodes, node: Proto, shape: Proto | None, before: tuple[int, ...]
) -> str:
    sizes: int | list[int] = -1
    if shape is not None and not shape.unknown_rank:
        sizes = [*before, *(dim.size for dim in shape.dim)]
    value: Array = np.array(sizes, np.int32)
    added = nodes.add(f"{node.name}/ie_serving_element_shape", "Const")
    added.attr["dtype"].type = _INT32
    added.attr["value"].tensor.CopyFrom(tensor_proto(value))
    return str(added.name)


def _noted_shape(node: Proto) -> Proto | None:
    """Give the shape that a node notes for its elements."""
    if "element_shape" in node.attr:
        return node.attr["element_shape"].shape
    # OpenVINO takes an unknown rank for rank 0, so the exporter's noted shape is used as well.
    return noted_shape(node) if node.op == "TensorArrayReadV3" else None


def _reserve(nodes: GraphNodes, node: Proto, _: _Array) -> None:
    shape, dtype = _element_shape(nodes, node), node.attr["dtype"].type
    _become(node, "TensorListReserve", [shape, node.input[0]], dtype)
    node.attr["shape_type"].type = _INT32


def _get(nodes: GraphNodes, node: Proto, _: _Array) -> None:
    index, flow = node.input[1:3]
    shape, dtype = _element_shape(nodes, node), node.attr["dtype"].type
    _become(node, "TensorListGetItem", [flow, index, shape], dtype)


def _set(nodes: GraphNodes, node: Proto, array: _Array) -> None:
    index, value, flow = node.input[1:4]
    _become(node, "TensorListSetItem", [flow, index, value], node.attr["T"].type)
    node.attr["resize_if_index_out_of_bounds"].b = array.grows


def _scatter(nodes: GraphNodes, node: Proto, array: _Array) -> None:
    indices, value, flow = node.input[1:4]
    if flow == f"{array.name}:1" and not array.sized and _counts(nodes, indices) is not None:
        # All rows of a tensor, from the first on: there must be as many indices as rows.
        shape = _element_shape(nodes, node)
        _become(node, "TensorListFromTensor", [value, shape], node.attr["T"].type)
        node.attr["shape_type"].type = _INT32
        return
    op = "TensorListScatterIntoExistingList"
    _become(node, op, [flow, value, indices], node.attr["T"].type)


def _gather(nodes: GraphNodes, node: Proto, array: _Array) -> None:
    indices, flow = node.input[1:3]
    shape, dtype = _element_shape(nodes, node), node.attr["dtype"].type
    if _is_whole(nodes, _counts(nodes, indices), array):
        _become(node, "TensorListStack", [flow, shape], dtype)
        node.attr["num_elements"].i = -1
        return
    _become(node, "TensorListGather", [flow, indices, shape], dtype)


def _counts(nodes: GraphNodes, indices: str) -> str | None:
    """Give the end of indices that count up from 0; None for other indices."""
    node = nodes.of(indices)
    if node.op != "Range":
        return None
    start, limit, step = node.input[:3]
    plain = [_is_number(nodes.of(start), 0), _is_number(nodes.of(step), 1)]
    return str(limit) if all(plain) else None


def _is_number(node: Proto, number: int) -> bool:
    value = held(node) if node.op == "Const" else None
    return value is not None and value.shape == () and value.item() == number


def _is_whole(nodes: GraphNodes, limit: str | None, array: _Array) -> bool:
    """Tell whether indices up to `limit` are all of an array's."""
    if limit is None:
        return False
    asked = nodes.of(limit)
    if asked.op == "TensorArraySizeV3":
        return bool(_array(nodes, asked).name == array.name)
    return limit == array.size and not array.grows


def _length(nodes: GraphNodes, node: Proto, _: _Array) -> None:
    node.op = "TensorListLength"
    set_inputs(node, [node.input[1]])


def _concat(nodes: GraphNodes, node: Proto, _: _Array) -> None:
    flow, dtype = node.input[1], node.attr["dtype"].type
    shape = _shape_constant(nodes, node, node.attr["element_shape_except0"].shape, (-1,))
    sizes = nodes.add(f"{node.name}/ie_serving_no_sizes", "Const")
    sizes.attr["dtype"].type = DataType.INT64.number
    sizes.attr["value"].tensor.CopyFrom(tensor_proto(np.empty(0, np.int64)))
    _become(node, "TensorListConcatV2", [flow, shape, sizes.name], dtype)
    node.attr["shape_type"].type = _INT32


def _split(nodes: GraphNodes, node: Proto, array: _Array) -> None:
    value, lengths, flow = node.input[1:4]
    shape = _shape_constant(nodes, node, None, ())
    _become(node, "TensorListSplit", [value, shape, lengths, flow], node.attr["T"].type)
    node.attr["shape_type"].type = _INT32
    node.attr["resize_if_index_out_of_bounds"].b = array.grows


_LAST: Final[Mapping[str, int]] = {"TensorArraySizeV3": 1, "TensorArrayV3": 2}

_REWRITES: Final[Mapping[str, Callable[[GraphNodes, Proto, _Array], None]]] = {
    "TensorArrayConcatV3": _concat,
    "TensorArrayGatherV3": _gather,
    "TensorArrayReadV3": _get,
    "TensorArrayScatterV3": _scatter,
    "TensorArraySizeV3": _length,
    "TensorArraySplitV3": _split,
    "TensorArrayV3": _reserve,
    "TensorArrayWriteV3": _set,
}
