"""Kernels that move elements and compute none: any dtype, strings among them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import empty_value, filled, make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    FLAG,
    INTEGER,
    LONG,
    Attributes,
    Compute,
    HostKernel,
    Output,
    plain,
)
from ie_serving.engines.savedmodel.host.index_checks import axis_of, in_bounds, in_range, sizes_of


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
    for at, much, whole in zip(sizes_of(begin), sizes_of(size), array.shape, strict=True):
        end = whole if much == -1 else at + much
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
        rows = zip(sizes_of(begin), sizes_of(end), sizes_of(strides), strict=True)
        taken = tuple(_index(at, row, masks) for at, row in enumerate(rows))
        return np.asarray(array[taken], array.dtype)

    return compute


def _index(at: int, row: tuple[int, int, int], masks: Sequence[int]) -> Any:  # noqa: ANN401
    begin, end, ellipsis, new_axis, shrink = masks
    bit = 1 << at
    if ellipsis & bit:
        return Ellipsis
    if new_axis & bit:
        return None
    if shrink & bit:
        return row[0]
    return slice(None if begin & bit else row[0], None if end & bit else row[1], row[2])


def _gather_v2(attributes: Attributes) -> Compute:
    batch_dims = attributes.integer("batch_dims")

    def compute(params: Array, indices: Array, axis: Array) -> Array:
        at = axis_of(axis, params.ndim)
        dims = batch_dims + (indices.ndim if batch_dims < 0 else 0)
        in_range(indices, params.shape[at])
        if not dims:
            return np.take(params, indices, at)
        if at < dims or params.shape[:dims] != indices.shape[:dims]:
            raise InvalidRequest(
                f"params of {params.shape} and indices of {indices.shape} do not share"
                f" {dims} dimensions before axis {at}"
            )
        shape = params.shape[:at] + indices.shape[dims:] + params.shape[at + 1 :]
        make_room(shape, params.dtype)
        made = np.empty(shape, params.dtype)
        for row in np.ndindex(params.shape[:dims]):
            made[row] = np.take(params[row], indices[row], at - dims)
        return made

    return compute


def _resource_gather(attributes: Attributes) -> Compute:
    """Compute ResourceGather; a variable that is read once comes as an array."""
    gather = _gather_v2(attributes)
    axis = np.array(attributes.integer("batch_dims"))
    return lambda params, indices: gather(params, indices, axis)


def _gather(params: Array, indices: Array) -> Array:
    in_range(indices, params.shape[0])
    return np.take(params, indices, 0)


def _gather_nd(params: Array, indices: Array) -> Array:
    in_bounds(indices, params.shape)
    depth = indices.shape[-1]
    if not depth:
        return np.broadcast_to(params, (*indices.shape[:-1], *params.shape))
    return np.asarray(params[tuple(np.moveaxis(indices, -1, 0))], params.dtype)


def _reshape(array: Array, shape: Array) -> Array:
    sizes = sizes_of(shape)
    if min(sizes, default=0) < -1:
        raise InvalidRequest(f"Size must be non-negative, or -1 once, but the shape is {sizes}")
    return np.reshape(array, sizes)


def _broadcast(array: Array, shape: Array) -> Array:
    make_room(sizes_of(shape), array.dtype)
    return np.broadcast_to(array, sizes_of(shape))


def _tile(array: Array, multiples: Array) -> Array:
    times = sizes_of(multiples)
    if len(times) != array.ndim or min(times, default=0) < 0:
        raise InvalidRequest(
            f"Expected multiples of 0 or more for {array.ndim} dimensions, but got {times}"
        )
    sizes = [size * many for size, many in zip(array.shape, times, strict=True)]
    make_room(sizes, array.dtype)
    return np.tile(array, times)


def _inverted(order: Array) -> Array:
    if sorted(order.tolist()) != list(range(order.size)):
        raise InvalidRequest("the values are no permutation of their places")
    return np.argsort(order).astype(order.dtype)


def _select(condition: Array, then: Array, otherwise: Array) -> Array:
    """Compute Select: a condition of rank 1 chooses rows."""
    rows = condition.ndim == 1 and condition.shape == then.shape[:1]
    if then.shape != otherwise.shape or not (
        rows or condition.shape == then.shape or not condition.ndim
    ):
        raise InvalidRequest(
            f"'then' and 'else' must have the same size, and the condition their shape, but they"
            f" are {then.shape}, {otherwise.shape} and {condition.shape}"
        )
    wide = condition.reshape(condition.shape + (1,) * (then.ndim - condition.ndim))
    return np.where(wide, then, otherwise)


def _select_v2(condition: Array, then: Array, otherwise: Array) -> Array:
    shape = np.broadcast_shapes(condition.shape, then.shape, otherwise.shape)
    if math.prod(shape) > max(condition.size, then.size, otherwise.size):
        make_room(shape, then.dtype)
    return np.where(condition, then, otherwise)


def _range(start: Array, limit: Array, delta: Array) -> Array:
    first, end, step = start.item(), limit.item(), delta.item()
    if not step:
        raise InvalidRequest("Requires delta != 0")
    if (end - first) * step < 0:
        raise InvalidRequest(
            f"{first} to {end} in steps of {step}: the steps lead away from the end"
        )
    count = math.ceil((end - first) / step)
    make_room((count,), np.float64)
    return np.arange(first, end, step).astype(start.dtype)


def _fill(shape: Array, value: Array) -> Array:
    return filled(sizes_of(shape), value)


def _one_hot(attributes: Attributes) -> Compute:
    axis = attributes.integer("axis", -1)

    def compute(indices: Array, depth: Array, on: Array, off: Array) -> Array:
        """Give the shape of `indices` with `depth` more at `axis`; an index beyond it is off."""
        if depth < 0:
            raise InvalidRequest(f"depth must be non-negative, got: {depth}")
        make_room((*indices.shape, int(depth)), on.dtype)
        expanded = np.expand_dims(indices, axis)
        shape = [1] * expanded.ndim
        shape[axis] = -1
        hot = expanded == np.arange(int(depth)).reshape(shape)
        return np.where(hot, on, off).astype(on.dtype)

    return compute


def _pad(array: Array, paddings: Array, value: Array | None = None) -> Array:
    widths = np.asarray(paddings)
    if widths.shape != (array.ndim, 2) or widths.min(initial=0) < 0:
        raise InvalidRequest(
            f"Paddings must be non-negative, two for each of {array.ndim} dimensions"
        )
    sizes = [int(b) + size + int(e) for (b, e), size in zip(widths, array.shape, strict=True)]
    padded = filled(sizes, empty_value(array.dtype) if value is None else value)
    starts = zip(widths[:, 0], array.shape, strict=True)
    padded[tuple(slice(at, at + size) for at, size in starts)] = array
    return padded


def _split(attributes: Attributes) -> Compute:
    count = attributes.integer("num_split")
    return lambda axis, array: np.split(array, count, int(axis))


def _split_v(array: Array, sizes: Array, axis: Array) -> list[Array]:
    known = sizes_of(sizes)
    at = axis_of(axis, array.ndim)
    whole = array.shape[at]
    if known.count(-1) == 1:
        known[known.index(-1)] = whole - sum(known) - 1
    if min(known) < 0 or sum(known) != whole:
        raise InvalidRequest(
            f"Determined shape must match: split sizes {sizes_of(sizes)} of a dimension of {whole}"
        )
    return np.split(array, np.cumsum(known)[:-1], at)


def _unique(attributes: Attributes) -> Compute:
    index_dtype = attributes.dtype("out_idx", DataType.INT32).numpy

    def compute(array: Array) -> list[Array]:
        if array.ndim != 1:
            raise InvalidRequest(f"unique expects a 1D vector, but the rank is {array.ndim}")
        # `np.unique` would sort: TensorFlow keeps the order in which values come first.
        first: dict[Any, int] = {}
        at = [first.setdefault(value, len(first)) for value in array.tolist()]
        return [np.array(list(first), array.dtype), np.array(at, index_dtype)]

    return compute


def _check_updates(indices: Array, updates: Array, sizes: Sequence[int]) -> None:
    if updates.shape != (*indices.shape[:-1], *sizes[indices.shape[-1] :]):
        raise InvalidRequest(
            f"updates of {updates.shape} do not fit indices of {indices.shape} into {sizes}"
        )


def _scatter_nd(indices: Array, updates: Array, shape: Array) -> Array:
    sizes = sizes_of(shape)
    in_bounds(indices, sizes)
    _check_updates(indices, updates, sizes)
    made = filled(sizes, empty_value(updates.dtype))
    selected = tuple(np.moveaxis(indices, -1, 0))
    if updates.dtype == np.object_:
        made[selected] = updates
    else:
        np.add.at(made, selected, updates)
    return made


def _filled_like(value: int) -> Compute:
    return lambda array: np.full_like(array, value if array.dtype != np.object_ else b"")


PARAMS = Output("Tparams")

KERNELS: Final[Mapping[str, HostKernel]] = {
    "BroadcastTo": plain(_broadcast),
    "ConcatV2": plain(lambda *arrays: np.concatenate(arrays[:-1], int(arrays[-1]))),
    "ExpandDims": plain(lambda array, axis: np.expand_dims(array, int(axis))),
    "Fill": plain(_fill),
    "Gather": plain(_gather, PARAMS),
    "GatherNd": plain(_gather_nd, PARAMS),
    "GatherV2": HostKernel(_gather_v2, (PARAMS,)),
    "InvertPermutation": plain(_inverted),
    "OneHot": HostKernel(_one_hot),
    "OnesLike": plain(_filled_like(1)),
    "Pack": HostKernel(_pack),
    "Pad": plain(_pad),
    "PadV2": plain(_pad),
    "Range": plain(_range, Output("Tidx", DataType.INT32)),
    "Rank": plain(lambda array: np.array(array.ndim, np.int32), INTEGER),
    "ReadVariableOp": plain(lambda held: held, Output("dtype")),
    "Reshape": plain(_reshape),
    "ResourceGather": HostKernel(_resource_gather, (Output("dtype"),)),
    "ReverseV2": plain(lambda array, axes: np.flip(array, tuple(sizes_of(axes)))),
    "ScatterNd": plain(_scatter_nd),
    "Select": plain(_select),
    "SelectV2": plain(_select_v2),
    "Shape": HostKernel(_shape, (Output("out_type", DataType.INT32),)),
    "Size": HostKernel(_size, (Output("out_type", DataType.INT32),)),
    "Slice": plain(_slice),
    "Split": HostKernel(_split),
    "SplitV": plain(_split_v),
    "Squeeze": HostKernel(_squeeze),
    "StridedSlice": HostKernel(_strided_slice),
    "Tile": plain(_tile),
    "Transpose": plain(lambda array, order: np.transpose(array, sizes_of(order))),
    "Unique": HostKernel(
        _unique, (Output(name="y"), Output("out_idx", DataType.INT32, name="idx"))
    ),
    "Unpack": HostKernel(_unpack),
    "Where": plain(lambda array: np.argwhere(array).astype(np.int64), LONG),
    "ZerosLike": plain(_filled_like(0)),
    "IsNan": plain(np.isnan, FLAG),
}
