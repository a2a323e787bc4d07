"""Random rows for the trial and the warm-up of a signature."""

from collections.abc import Iterator

import numpy as np

from ie_serving.core.values.tensors import Array, Arrays, DataType, Signature, TensorSpec

OPEN_SIZES = (16, 64, 224, 1)
"""Sizes that open dimensions are tried with, one for all of them, until the model takes them."""

# Fixed, so that a model is judged alike at each start.
_SEED = 7
_LARGEST = {DataType.UINT8: 255, DataType.INT8: 127}
"""Integers of these types go from 0 to these values, others only 0 and 1: they may be indices."""


def has_open_rows(signature: Signature) -> bool:
    """Tell whether the shape of a single row is open in some input."""
    return any(-1 in (spec.shape or ())[1:] for spec in signature.inputs.values())


def candidates(signature: Signature, count: int) -> Iterator[Arrays]:
    """Yield `count` rows for each input; where a row's shape is open, in one size after another.

    Args:
        signature: all of whose inputs have the batch as their first dimension.
        count: of the rows.
    """
    for size in OPEN_SIZES if has_open_rows(signature) else OPEN_SIZES[:1]:
        random = np.random.default_rng(_SEED)
        yield {name: _rows(spec, count, size, random) for name, spec in signature.inputs.items()}


def requests(signature: Signature) -> Iterator[Arrays]:
    """Yield requests for any signature, of one row where it may be, in one size after another."""
    for size in OPEN_SIZES:
        random = np.random.default_rng(_SEED)
        yield {
            name: _values(spec, _request(spec, size), random)
            for name, spec in signature.inputs.items()
        }


def _request(spec: TensorSpec, size: int) -> tuple[int, ...]:
    shape = (-1, -1) if spec.shape is None else spec.shape
    least = spec.bounds[0][0] if spec.bounds else 1
    first = (max(least, 1) if dim == -1 else dim for dim in shape[:1])
    return (*first, *_sizes(spec, shape[1:], size))


def _rows(spec: TensorSpec, count: int, size: int, random: "np.random.Generator") -> Array:
    assert spec.shape is not None  # an open rank has no first dimension
    return _values(spec, (count, *_sizes(spec, spec.shape[1:], size)), random)


def _values(spec: TensorSpec, shape: tuple[int, ...], random: "np.random.Generator") -> Array:
    dtype = spec.dtype.numpy
    if spec.dtype is DataType.STRING:
        # Numbers as texts: models that parse their strings read them, others take any.
        words = np.empty(shape, np.object_)
        words.flat[:] = [b"%d" % number for number in random.integers(0, 100, words.size)]
        return words
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, _LARGEST.get(spec.dtype, 1), shape, endpoint=True).astype(dtype)


def _sizes(spec: TensorSpec, row: tuple[int, ...], size: int) -> Iterator[int]:
    """Give the shape of one row; open dimensions have `size`, or the nearest allowed value."""
    bounds = spec.bounds[1:] if spec.bounds else ((1, size),) * len(row)
    for dim, (low, high) in zip(row, bounds, strict=True):
        yield min(max(size, low), high) if dim == -1 else dim
