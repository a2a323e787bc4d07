"""Kernels that move elements and compute none: any dtype, strings among them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ie_serving.core.errors import InvalidRequest
from ie_serving.core.tensors import Array, DataType
from ie_serving.engines.openvino.savedmodel.host.attributes import Attributes
from ie_serving.engines.openvino.savedmodel.host.kernel import (
    FLAG,
    INTEGER,
    LONG,
    Compute,
    Kernel,
    Output,
    plain,
)


def empty_value(dtype: np.dtype[Any]) -> object:
    """Give what fills a tensor that says nothing else: zero, or the empty string."""
    return b"" if dtype == np.object_ else dtype.type(0)


def _sizes(values: Array) -> list[int]:
    return [int(size) for size in np.ravel(values)]


def _pack(attributes: Attributes) -> Compute:
    axis = attributes.integer("axis")
    return lambda *arrays: np.stack(arrays, axis)


def _unpack(attributes: Attributes) -> Compute:
    axis = attributes.integer("axis")
    return lambda array: list(np.moveaxis(array, axis, 0))


def _squeeze(attributes: Attributes) -> Compute:
    dims = tuple(attributes.integers("squeeze_dims")) or None
    return lambda array: np.squeeze(array, dims)


def _shape(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("out_type", DataType.INT32).numpy
    return lambda array: np.array(array.shape, dtype)


def _size(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("out_type", DataType.INT32).numpy
    return lambda array: np.array(array.size, dtype)


def _slice(array: Array, begin: Array, size: Array) -> Array:
    taken = []
    for at, much, whole in zip(_sizes(begin), _sizes(size), array.shape, strict=True):
        end = whole if much < 0 else at + much
        if not 0 <= at <= end <= whole:
            raise InvalidRequest(f"Expected begin and size in [0, {whole}], but got {at}, {much}")
        taken.append(slice(at, end))
    return array[tuple(taken)]


def _strided_slice(attributes: Attributes) -> Compute:
    masks = [
        attributes.integer(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    ]

    def compute(array: Array, begin: Array, end: Array, strides: Array) -> Array:
        rows = zip(_sizes(begin), _sizes(end), _sizes(strides), strict=True)
        taken = tuple(_index(at, row, masks) for at, row in enumerate(rows))
        return np.asarray(array[taken], array.dtype)

    return compute


def _index(at: int, row: tuple[int, int, int], masks: Sequence[int]) -> Any:  # noqa: ANN401
    begin, end, ellipsis, new_axis, shrink = (bool(mask >> at & 1) for mask in masks)
    if ellipsis:
        return Ellipsis
    if new_axis:
        return None
    if shrink:
        return row[0]
    return slice(None if begin else row[0], None if end else row[1], row[2])


def _in_range(indices: Array, size: int) -> None:
    """Refuse indices that TensorFlow refuses; numpy counts negative ones from the end."""
    wrong = np.flatnonzero((indices < 0) | (indices >= size))
    if wrong.size:
        value = int(indices.ravel()[wrong[0]])
        raise InvalidRequest(f"indices[{wrong[0]}] = {value} is not in [0, {size})")


def _gather_v2(attributes: Attributes) -> Compute:
    batch_dims = attributes.integer("batch_dims")

    def compute(params: Array, indices: Array, axis: Array) -> Array:
        at = int(axis) + (params.ndim if axis < 0 else 0)
        dims = batch_dims + (indices.ndim if batch_dims < 0 else 0)
        _in_range(indices, params.shape[at])
        if not dims:
            return np.take(params, indices, at)
        rows = np.reshape(params, (-1, *params.shape[dims:]))
        places = np.reshape(indices, (len(rows), *indices.shape[dims:]))
        taken = [np.take(row, place, at - dims) for row, place in zip(rows, places, strict=True)]
        return np.reshape(np.stack(taken), (*params.shape[:dims], *taken[0].shape))

    return compute


def _resource_gather(attributes: Attributes) -> Compute:
    """Compute ResourceGather; a variable that is read once comes as an array."""
    gather = _gather_v2(attributes)
    axis = np.array(attributes.integer("batch_dims"))
    return lambda params, indices: gather(params, indices, axis)


def _gather(params: Array, indices: Array) -> Array:
    _in_range(indices, params.shape[0])
    return np.take(params, indices, 0)


def _gather_nd(params: Array, indices: Array) -> Array:
    for axis in range(indices.shape[-1]):
        _in_range(indices[..., axis], params.shape[axis])
    return np.asarray(params[tuple(np.moveaxis(indices, -1, 0))], params.dtype)


def _select(condition: Array, then: Array, otherwise: Array) -> Array:
    """Compute Select: a condition of rank 1 chooses rows."""
    rows = condition.reshape(condition.shape + (1,) * (then.ndim - condition.ndim))
    return np.where(rows, then, otherwise)


def _range(start: Array, limit: Array, delta: Array) -> Array:
    return np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype)


def _fill(shape: Array, value: Array) -> Array:
    return np.full(_sizes(shape), value[()], value.dtype)


def _one_hot(attributes: Attributes) -> Compute:
    axis = attributes.integer("axis", -1)

    def compute(indices: Array, depth: Array, on: Array, off: Array) -> Array:
        places = np.expand_dims(indices, axis)
        shape = [1] * places.ndim
        shape[axis] = -1
        hot = places == np.arange(int(depth)).reshape(shape)
        return np.where(hot, on, off).astype(on.dtype)

    return compute


def _pad(array: Array, paddings: Array, value: Array | None = None) -> Array:
    fill = empty_value(array.dtype) if value is None else value[()]
    widths = np.asarray(paddings)
    shape = np.array(array.shape) + widths.sum(1)
    padded = np.full(shape, fill, array.dtype)
    starts = zip(widths[:, 0], array.shape, strict=True)
    padded[tuple(slice(at, at + size) for at, size in starts)] = array
    return padded


def _split(attributes: Attributes) -> Compute:
    count = attributes.integer("num_split")
    return lambda axis, array: np.split(array, count, int(axis))


def _split_v(array: Array, sizes: Array, axis: Array) -> list[Array]:
    known = _sizes(sizes)
    at = int(axis)
    if -1 in known:
        known[known.index(-1)] = array.shape[at] - sum(known) - 1
    return np.split(array, np.cumsum(known)[:-1], at)


def _unique(attributes: Attributes) -> Compute:
    places = attributes.dtype("out_idx", DataType.INT32).numpy

    def compute(array: Array) -> list[Array]:
        first: dict[Any, int] = {}
        at = [first.setdefault(value, len(first)) for value in array.tolist()]
        return [np.array(list(first), array.dtype), np.array(at, places)]

    return compute


def _scatter_nd(indices: Array, updates: Array, shape: Array) -> Array:
    made = np.full(_sizes(shape), empty_value(updates.dtype), updates.dtype)
    places = tuple(np.moveaxis(indices, -1, 0))
    if updates.dtype == np.object_:
        made[places] = updates
    else:
        np.add.at(made, places, updates)
    return made


def _filled_like(value: int) -> Compute:
    return lambda array: np.full_like(array, value if array.dtype != np.object_ else b"")


PARAMS = Output("Tparams")

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "BroadcastTo": plain(lambda array, shape: np.broadcast_to(array, _sizes(shape))),
        "ConcatV2": plain(lambda *arrays: np.concatenate(arrays[:-1], int(arrays[-1]))),
        "ExpandDims": plain(lambda array, axis: np.expand_dims(array, int(axis))),
        "Fill": plain(_fill),
        "Gather": plain(_gather, PARAMS),
        "GatherNd": plain(_gather_nd, PARAMS),
        "GatherV2": Kernel(_gather_v2, (PARAMS,)),
        "InvertPermutation": plain(np.argsort),
        "OneHot": Kernel(_one_hot),
        "OnesLike": plain(_filled_like(1)),
        "Pack": Kernel(_pack),
        "Pad": plain(_pad),
        "PadV2": plain(_pad),
        "Range": plain(_range, Output("Tidx", DataType.INT32)),
        "Rank": plain(lambda array: np.array(array.ndim, np.int32), INTEGER),
        "ReadVariableOp": plain(lambda held: held, Output("dtype")),
        "Reshape": plain(lambda array, shape: np.reshape(array, _sizes(shape))),
        "ResourceGather": Kernel(_resource_gather, (Output("dtype"),)),
        "ReverseV2": plain(lambda array, axes: np.flip(array, tuple(_sizes(axes)))),
        "ScatterNd": plain(_scatter_nd),
        "Select": plain(_select),
        "SelectV2": plain(np.where),
        "Shape": Kernel(_shape, (Output("out_type", DataType.INT32),)),
        "Size": Kernel(_size, (Output("out_type", DataType.INT32),)),
        "Slice": plain(_slice),
        "Split": Kernel(_split),
        "SplitV": plain(_split_v),
        "Squeeze": Kernel(_squeeze),
        "StridedSlice": Kernel(_strided_slice),
        "Tile": plain(lambda array, multiples: np.tile(array, _sizes(multiples))),
        "Transpose": plain(lambda array, order: np.transpose(array, _sizes(order))),
        "Unique": Kernel(
            _unique, (Output(name="y"), Output("out_idx", DataType.INT32, name="idx"))
        ),
        "Unpack": Kernel(_unpack),
        "Where": plain(lambda array: np.argwhere(array).astype(np.int64), LONG),
        "ZerosLike": plain(_filled_like(0)),
        "IsNan": plain(np.isnan, FLAG),
    }
)
