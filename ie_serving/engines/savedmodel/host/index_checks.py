"""Reads and checks the sizes, axes and indices that a request decides, as TensorFlow does.

numpy counts negative indices from the end, cuts values that are too long and repeats those that are
too short, where TensorFlow refuses a request.
"""

from collections.abc import Sequence

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array


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


def in_bounds(coordinates: Array, shape: Sequence[int]) -> None:
    """Refuse coordinates, one in a row, beyond the first dimensions of a shape."""
    depth = coordinates.shape[-1]
    if depth > len(shape):
        raise InvalidRequest(f"indices of {depth} dimensions for a shape of {len(shape)}")
    wrong = ((coordinates < 0) | (coordinates >= np.array(shape[:depth], np.int64))).any(-1)
    outside = np.flatnonzero(wrong)
    if outside.size:
        coordinate = coordinates.reshape(-1, depth)[outside[0]].tolist()
        raise InvalidRequest(
            f"indices[{outside[0]}] = {coordinate} is out of bounds: need 0 <= index <"
            f" {list(shape)}"
        )
