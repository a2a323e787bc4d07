"""Evaluates constant values of a graph once, at load, in numpy.

It has only operations that exporters put between a constant and its use: more would be a second
engine. OpenVINO computes other numeric constants (`rewrite.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import BY_NUMBER, BY_NUMPY, Array
from ie_serving.engines.savedmodel.frames import NodeOutput, write_shape
from ie_serving.wire.protobuf.messages import Proto, TensorProto
from ie_serving.wire.tfs.tensor_proto import decode_tensor

FoldConstant = Callable[[Proto, Sequence[Array]], Any]


def _cast(node: Proto, inputs: Sequence[Array]) -> Array:
    return inputs[0].astype(BY_NUMBER[node.attr["DstT"].type].numpy)


def _pack(node: Proto, inputs: Sequence[Array]) -> Array:
    return np.stack(inputs, axis=node.attr["axis"].i)


def _concat(_: Proto, inputs: Sequence[Array]) -> Array:
    return np.concatenate(inputs[:-1], axis=int(inputs[-1]))


def _as_string(_: Proto, inputs: Sequence[Array]) -> Array:
    texts = [str(value).encode() for value in inputs[0].ravel().tolist()]
    return np.array(texts, np.object_).reshape(inputs[0].shape)


def _range(_: Proto, inputs: Sequence[Array]) -> Array:
    start, limit, delta = (each.item() for each in inputs)
    return np.arange(start, limit, delta).astype(inputs[0].dtype)


def _shape_from(values: Array) -> list[int]:
    return [int(size) for size in values.ravel()]


COMPUTES: Final[Mapping[str, FoldConstant]] = {
    "AsString": _as_string,
    "Cast": _cast,
    "ConcatV2": _concat,
    "ExpandDims": lambda _, inputs: np.expand_dims(inputs[0], int(inputs[1])),
    "Fill": lambda _, inputs: np.full(_shape_from(inputs[0]), inputs[1][()], inputs[1].dtype),
    "Pack": _pack,
    "Range": _range,
    "Reshape": lambda _, inputs: inputs[0].reshape(_shape_from(inputs[1])),
    "Tile": lambda _, inputs: np.tile(inputs[0], _shape_from(inputs[1])),
}
"""Functions that give the first output of an operation; they get the node for its attributes."""


def constant(node_output: NodeOutput) -> Array | None:
    """Evaluate what depends only on constants; None where `COMPUTES` lacks an operation."""
    origin = node_output.origin()
    node = origin.node
    if node.op == "Const":
        return held(node)
    if node.op not in COMPUTES or (node.op == "AsString" and not _plain_integers(node)):
        return None
    inputs = [constant(source) for source in origin.sources()]
    known = [array for array in inputs if array is not None]
    return _computed(node, known) if len(known) == len(inputs) else None


def _computed(node: Proto, inputs: list[Array]) -> Array | None:
    try:
        return np.asarray(COMPUTES[node.op](node, inputs))
    except (ValueError, TypeError, KeyError, IndexError):
        return None  # TensorFlow would fail when it runs; so does the conversion


def held(node: Proto) -> Array | None:
    """Decode the value of a Const; None for a dtype that the API does not carry."""
    try:
        return decode_tensor(node.attr["value"].tensor, node.name)
    except InvalidRequest:
        return None


def tensor_proto(value: Array) -> Proto:
    """Write a TensorProto of numbers. Raises: LoadFailed, for another dtype."""
    if value.dtype not in BY_NUMPY or value.dtype == np.object_:
        raise LoadFailed(
            f"a constant of {value.dtype} cannot be handed to the model:"
            " export the model with another dtype, such as float32"
        )
    proto = TensorProto(dtype=BY_NUMPY[value.dtype].number, tensor_content=value.tobytes())
    write_shape(proto.tensor_shape, value.shape)
    return proto


def _plain_integers(node: Proto) -> bool:
    """Tell whether AsString prints integers without width or fill, as Python prints them."""
    dtype = BY_NUMBER.get(node.attr["T"].type)
    width = node.attr["width"].i if "width" in node.attr else -1
    return dtype is not None and dtype.numpy.kind in "iu" and width == -1
