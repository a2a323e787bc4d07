"""Pixels -> pixels of another size: bilinear, as OpenCV's `INTER_LINEAR` and so OVMS.

Each new pixel is made of the four nearest old ones, without a filter for what lies between: pixel
centres at halves, edges repeated, weights in float32. It reads only the rows and columns that it
needs, so its time follows the new size and not the old one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ie_serving.core.values.tensors import Array

Places = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""For each new row or column: the old one before it, the next one, the weight of the latter."""


def resized(pixels: Array, height: int, width: int) -> Array:
    """Give the image in another size.

    Args:
        pixels: uint8, rows x columns x channels; any memory order.
        height: rows that it is to have.
        width: columns that the image is to have.

    Returns:
        `pixels` itself where it has that size; else float32 of the same channels, not rounded.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    above, below, down = _places(pixels.shape[0], height)
    upper = _across(pixels.take(above, 0), width)
    lower = _across(pixels.take(below, 0), width)
    return _between(upper, lower, down[:, np.newaxis, np.newaxis])


def _across(rows: Array, width: int) -> Array:
    left, right, along = _places(rows.shape[1], width)
    return _between(
        rows.take(left, 1).astype(np.float32),
        rows.take(right, 1).astype(np.float32),
        along[:, np.newaxis],
    )


def _between(first: Array, second: Array, weight: Array) -> Array:
    """Mix in place: `first` where the weight is 0, `second` where it is 1."""
    second -= first
    second *= weight
    second += first
    return second


def _places(old: int, new: int) -> Places:
    at = (np.arange(new) + 0.5) * (old / new) - 0.5
    at = at.clip(0, old - 1)  # beyond the outermost centres the edge is repeated
    before = at.astype(np.intp)
    behind = np.minimum(before + 1, old - 1)
    return before, behind, (at - before).astype(np.float32)
