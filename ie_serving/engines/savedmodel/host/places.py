"""Checks axes, indices and sizes as TensorFlow does, and makes the tensors of such sizes.

numpy counts negative indices from the end, cuts values that are too long and repeats those that are
too short, where TensorFlow refuses a request.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.engines.savedmodel.host.allowance import make_room


def empty_value(dtype: np.dtype[Any]) -> Array:
    """Give the default value that fills a tensor: zero, or the empty string."""
    return np.array(b"" if dtype == np.object_ else 0, dtype)


def sizes_of(values: Array) -> list[int]:
    """Read a vector of sizes."""
    sizes: list[int] = np.ravel(values).tolist()
    return sizes


def axis_of(axis: Array | int, rank: int) -> int:
    """Give an axis counted from the front. Raises: InvalidRequest, for one that there is not."""
    at = int(axis)
    if not -rank <= at < rank:
        raise InvalidRequest(f"axis {at} is out of bounds: a tensor of rank {rank}")
    return at % rank


def in_range(indices: Array, size: int) -> None:
    """Refuse indices beyond a dimension."""
    wrong = np.flatnonzero((indices < 0) | (indices >= size))
    if wrong.size:
        value = int(indices.ravel()[wrong[0]])
        raise InvalidRequest(f"indices[{wrong[0]}] = {value} is not in [0, {size})")


def in_bounds(places: Array, shape: Sequence[int]) -> None:
    """Refuse places, one in a row, beyond the first dimensions of a shape."""
    depth = places.shape[-1]
    if depth > len(shape):
        raise InvalidRequest(f"indices of {depth} dimensions for a shape of {len(shape)}")
    wrong = ((places < 0) | (places >= np.array(shape[:depth], np.int64))).any(-1)
    outside = np.flatnonzero(wrong)
    if outside.size:
        place = places.reshape(-1, depth)[outside[0]].tolist()
        raise InvalidRequest(
            f"indices[{outside[0]}] = {place} is out of bounds: need 0 <= index < {list(shape)}"
        )


def filled(shape: Sequence[int], value: Array) -> Array:
    """Make a tensor of one value. Raises: InvalidRequest, where a size is negative or too much."""
    if any(size < 0 for size in shape):
        raise InvalidRequest(f"sizes must not be negative, but are {list(shape)}")
    make_room(shape, value.dtype)
    made = np.empty(shape, value.dtype)
    made[...] = value  # `np.full` would cut zero bytes off the end of a string
    return made
