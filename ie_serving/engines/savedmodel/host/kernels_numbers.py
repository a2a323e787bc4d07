"""Kernels of the small arithmetic that lies between strings and tables: masks, lengths, indices."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import filled, make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    FLAG,
    INTEGER,
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
    plain,
)
from ie_serving.engines.savedmodel.host.index_checks import axis_of


def _cast(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("DstT").numpy
    return lambda array: np.asarray(array).astype(dtype)


def _between(compute: Callable[[Array, Array], Array]) -> Compute:
    """Make the computation of two tensors that are repeated to the shape of both."""

    def bounded(one: Array, other: Array) -> Array:
        shape = np.broadcast_shapes(one.shape, other.shape) if one.shape != other.shape else ()
        # A column and a row make a table of their product.
        if math.prod(shape) > max(one.size, other.size, 1):
            make_room(shape, one.dtype)
        return compute(one, other)

    return bounded


def _divided(divide: Callable[[Array, Array], Array]) -> Compute:
    def compute(over: Array, by: Array) -> Array:
        if by.dtype.kind in "iu" and not np.all(by):
            raise InvalidRequest("Integer division by zero")
        return divide(over, by)

    return compute


def _reduced(reduce: Callable[..., Array]) -> Callable[[Attributes], Compute]:
    """Make a kernel of a numpy reduction; without axes nothing is reduced."""

    def make(attributes: Attributes) -> Compute:
        keep = attributes.flag("keep_dims")

        def compute(array: Array, axes: Array) -> Array:
            reduced = reduce(array, axis=tuple(np.ravel(axes).tolist()), keepdims=keep)
            return np.asarray(reduced, array.dtype)

        return compute

    return make


def _least(array: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Give the smallest; of nothing the greatest that there is, as TensorFlow does."""
    start = np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).max
    least: Array = np.min(array, axis=axis, keepdims=keepdims, initial=start)
    return least


def _greatest(array: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    start = -np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).min
    greatest: Array = np.max(array, axis=axis, keepdims=keepdims, initial=start)
    return greatest


def _place_of(find: Callable[[Array, int], Array]) -> Callable[[Attributes], Compute]:
    def make(attributes: Attributes) -> Compute:
        dtype = attributes.dtype("output_type", DataType.INT64).numpy
        return lambda array, axis: np.asarray(find(array, axis_of(axis, array.ndim)), dtype)

    return make


def _cumulated(attributes: Attributes) -> Compute:
    exclusive, reverse = attributes.flag("exclusive"), attributes.flag("reverse")

    def compute(array: Array, axis: Array) -> Array:
        at = axis_of(axis, array.ndim)
        straight = np.flip(array, at) if reverse else array
        summed = np.cumsum(straight, at, array.dtype)
        if exclusive:
            summed = summed - straight
        return np.flip(summed, at) if reverse else summed

    return compute


def _bucketize(attributes: Attributes) -> Compute:
    boundaries = np.array(attributes.numbers("boundaries"), np.float32)
    return lambda array: np.searchsorted(boundaries, array, "right").astype(np.int32)


def _top_k(attributes: Attributes) -> Compute:
    index_dtype = attributes.dtype("index_type", DataType.INT32).numpy

    def compute(array: Array, k: Array) -> list[Array]:
        if not array.ndim or not 0 <= k <= array.shape[-1]:
            raise InvalidRequest(f"input must have at least k columns: {array.shape}, k={k}")
        # The first of equal values comes first, so the order of their negatives is stable.
        flipped = array.shape[-1] - 1 - np.argsort(array[..., ::-1], -1, kind="stable")
        at = flipped[..., ::-1][..., : int(k)]
        return [np.take_along_axis(array, at, -1), at.astype(index_dtype)]

    return compute


def _segment_sum(data: Array, segments: Array, count: Array) -> Array:
    if segments.shape != data.shape[: segments.ndim]:
        raise InvalidRequest(f"data of {data.shape} does not begin with {segments.shape}")
    made = _zeros((int(count), *data.shape[segments.ndim :]), data)
    # TensorFlow drops the rows of negative segments.
    known = segments >= 0
    np.add.at(made, segments[known], data[known])
    return made


def _dense_bincount(attributes: Attributes) -> Compute:
    binary = attributes.flag("binary_output")

    def compute(array: Array, size: Array, weights: Array) -> Array:
        if array.ndim > 2:
            raise InvalidRequest(f"Shape must be at most rank 2 but is rank {array.ndim}")
        rows = np.arange(len(array))[:, np.newaxis] if array.ndim > 1 else np.zeros((), np.int64)
        made = _zeros((len(array) if array.ndim > 1 else 1, int(size)), weights)
        _count(made, np.broadcast_to(rows, array.shape), array, weights, binary)
        return made if array.ndim > 1 else made[0]

    return compute


def _bincount(array: Array, size: Array, weights: Array) -> Array:
    """Compute Bincount, which counts over all dimensions."""
    made = _zeros((1, int(size)), weights)
    flat = array.ravel()
    _count(made, np.zeros(flat.shape, np.int64), flat, weights.ravel(), binary=False)
    return made.ravel()


def _zeros(shape: Sequence[int], like: Array) -> Array:
    return filled(shape, np.zeros((), like.dtype))


def _ragged_bincount(attributes: Attributes) -> Compute:
    binary = attributes.flag("binary_output")

    def compute(splits: Array, values: Array, size: Array, weights: Array) -> Array:
        if not splits.size or splits[0] != 0:
            raise InvalidRequest("Splits must start with 0")
        lengths = np.diff(splits)
        made = _zeros((len(lengths), int(size)), weights)
        _count(made, np.repeat(np.arange(len(lengths)), lengths), values, weights, binary)
        return made

    return compute


def _count(made: Array, rows: Array, values: Array, weights: Array, binary: bool) -> None:
    """Add the weight of each value, or 1, at its place; values beyond the size count nowhere."""
    if values.size and values.min() < 0:
        raise InvalidRequest("Input must be non-negative")
    inside = values < made.shape[1]
    indices = rows[inside], values[inside]
    if binary:
        made[indices] = 1
    else:
        # `made[indices] +=` would count an index that comes twice only once.
        np.add.at(made, indices, weights[inside] if weights.size else made.dtype.type(1))


def _bitcast(attributes: Attributes) -> Compute:
    dtype = attributes.dtype("type").numpy
    if dtype.itemsize != attributes.dtype("T").numpy.itemsize:
        raise attributes.refused("casts to a dtype of another size")
    return lambda array: np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def _matmul(attributes: Attributes) -> Compute:
    turned = attributes.flag("transpose_a"), attributes.flag("transpose_b")

    def compute(one: Array, other: Array) -> Array:
        one, other = (
            array.T if turn else array for array, turn in zip((one, other), turned, strict=True)
        )
        if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[0]:
            raise InvalidRequest(
                f"Matrix size-incompatible: In[0]: {list(one.shape)}, In[1]: {list(other.shape)}"
            )
        make_room((one.shape[0], other.shape[1]), one.dtype)
        product: Array = one @ other
        return product

    return compute


def _mean(array: Array, axis: tuple[int, ...], *, keepdims: bool) -> Array:
    with np.errstate(invalid="ignore"):
        total, sums = array.sum(axis, keepdims=keepdims), np.ones_like(array).sum(axis)
    mean: Array = total / sums.reshape(total.shape)
    return mean


def _root(array: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        root: Array = (1 / np.sqrt(array)).astype(array.dtype)
    return root


IN_LOOPS: Final = frozenset(("MatMul", "Mean", "ResizeNearestNeighbor", "Rsqrt", "Sqrt", "Square"))
"""Arithmetic that the host computes only in its own loops and branches: over images that a loop
decodes. Elsewhere OpenVINO is faster."""

KERNELS: Final[Mapping[str, HostKernel]] = {
    "Abs": plain(np.abs),
    "Add": plain(_between(np.add)),
    "AddV2": plain(_between(np.add)),
    "All": HostKernel(_reduced(np.all), (FLAG,)),
    "Any": HostKernel(_reduced(np.any), (FLAG,)),
    "ArgMax": HostKernel(_place_of(np.argmax), (Output("output_type", DataType.INT64),)),
    "ArgMin": HostKernel(_place_of(np.argmin), (Output("output_type", DataType.INT64),)),
    "Bincount": plain(_bincount),
    "Bitcast": HostKernel(_bitcast, (Output("type"),)),
    "BitwiseAnd": plain(_between(np.bitwise_and)),
    "BitwiseOr": plain(_between(np.bitwise_or)),
    "BitwiseXor": plain(_between(np.bitwise_xor)),
    "Bucketize": HostKernel(_bucketize, (INTEGER,)),
    "Cast": HostKernel(_cast, (Output("DstT"),)),
    "Cumsum": HostKernel(_cumulated),
    "DenseBincount": HostKernel(_dense_bincount, (Output("T"),)),
    "Equal": plain(_between(np.equal), FLAG),
    "Floor": plain(np.floor),
    "FloorDiv": plain(_between(_divided(np.floor_divide))),
    "FloorMod": plain(_between(_divided(np.mod))),
    "Greater": plain(_between(np.greater), FLAG),
    "GreaterEqual": plain(_between(np.greater_equal), FLAG),
    "Less": plain(_between(np.less), FLAG),
    "LeftShift": plain(_between(np.left_shift)),
    "LessEqual": plain(_between(np.less_equal), FLAG),
    "LogicalAnd": plain(_between(np.logical_and), FLAG),
    "LogicalNot": plain(np.logical_not, FLAG),
    "LogicalOr": plain(_between(np.logical_or), FLAG),
    "MatMul": in_thread(HostKernel(_matmul)),
    "Max": HostKernel(_reduced(_greatest)),
    "Maximum": plain(_between(np.maximum)),
    "Mean": HostKernel(_reduced(_mean)),
    "Min": HostKernel(_reduced(_least)),
    "Minimum": plain(_between(np.minimum)),
    "Mul": plain(_between(np.multiply)),
    "Neg": plain(np.negative),
    "NotEqual": plain(_between(np.not_equal), FLAG),
    "Prod": HostKernel(_reduced(np.prod)),
    "RaggedBincount": HostKernel(_ragged_bincount),
    "RealDiv": plain(_between(np.divide)),
    "RightShift": plain(_between(np.right_shift)),
    "Round": plain(np.round),
    "Rsqrt": plain(_root),
    "Sqrt": plain(np.sqrt),
    "Square": plain(np.square),
    "Sub": plain(_between(np.subtract)),
    "Sum": HostKernel(_reduced(np.sum)),
    "TopKV2": HostKernel(
        _top_k,
        (Output(name="values"), Output("index_type", DataType.INT32, name="indices")),
    ),
    "UnsortedSegmentSum": plain(_segment_sum),
}
