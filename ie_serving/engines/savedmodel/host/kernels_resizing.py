"""Kernels that resize images, between their decoding and a batch.

Source: resize_bilinear_op.cc and resize_nearest_neighbor_op.cc of TensorFlow.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.host_kernel import Compute, HostKernel, Output, in_thread

MOST_KEPT: Final = 4096
"""Places along an axis whose neighbours are kept for the next picture: 0.2 MB."""


def _bilinear(attributes: Attributes) -> Compute:
    aligned, centred = attributes.flag("align_corners"), attributes.flag("half_pixel_centers")

    def compute(images: Array, size: Array) -> Array:
        height, width = sizes(images, size)
        count, _, held_width, channels = images.shape
        # Rows are resized first: with few of them wide ones weigh more than the result.
        make_room((count, height, max(width, held_width), channels), np.float32)
        down = _neighbours(images.shape[1], height, aligned, centred)
        across = _neighbours(images.shape[2], width, aligned, centred, channels)
        # Each row that is used once or twice is made narrower or wider once.
        lines = images if len(down.used) == images.shape[1] else images[:, down.used]
        flat = lines.reshape(*lines.shape[:2], held_width * channels)
        wide = _mixed(_taken(flat, across.first), _taken(flat, across.second), across.share)
        rows = [wide.take(at, 1) for at in down.places]
        mixed = _mixed(rows[0], rows[1], down.share[:, None])
        return mixed.reshape(count, height, width, channels)

    return compute


class _Neighbours(NamedTuple):
    """The two neighbours of each new place along an axis; of columns, those of each channel.

    Attributes:
        first: the one before, or the place itself.
        second: the one behind.
        share: how far the new place is from the first: 0 to 1.
        used: those that are a neighbour of any.
        places: of the first and the second ones among these.
    """

    first: Array
    second: Array
    share: Array
    used: Array
    places: Array


def _taken(lines: Array, at: Array) -> Array:
    """Give columns of lines as floats; each channel of a pixel is a column."""
    return lines.take(at, 2).astype(np.float32, copy=False)


def _mixed(one: Array, other: Array, share: Array) -> Array:
    """Go from `one` so far to `other`, in the order of TensorFlow's arithmetic; takes `other`."""
    other -= one
    other *= share
    other += one
    return other


def _neighbours(
    held: int, wanted: int, aligned: bool, centred: bool, channels: int = 1
) -> _Neighbours:
    """Find the neighbours, of common sizes but once: that takes as long as to resize a picture."""
    find = _between_again if wanted * channels <= MOST_KEPT else _between
    return find(held, wanted, aligned, centred, channels)


def _between(held: int, wanted: int, aligned: bool, centred: bool, channels: int) -> _Neighbours:
    at = located(held, wanted, aligned, centred)
    floor = np.floor(at)
    lower = np.maximum(floor, 0).astype(np.int64)
    upper = np.minimum(np.ceil(at), held - 1).astype(np.int64)
    first, second = (
        (each[:, None] * channels + np.arange(channels)).ravel() for each in (lower, upper)
    )
    used, places = np.unique(np.stack([first, second]), return_inverse=True)
    share = np.repeat(at - floor, channels)
    return _Neighbours(first, second, share, used, places.reshape(2, -1))


_between_again = lru_cache(maxsize=64)(_between)


def located(held: int, wanted: int, aligned: bool, centred: bool) -> Array:
    """Give for each new place where it lies between the pixels."""
    if aligned and wanted > 1:
        scale = np.float32((held - 1) / (wanted - 1))
    else:
        scale = np.float32(held) / np.float32(max(wanted, 1))
    at = np.arange(wanted, dtype=np.float32)
    half = np.float32(0.5)
    places: Array = (at + half) * scale - half if centred else at * scale
    return places


def sizes(images: Array, size: Array) -> tuple[int, int]:
    """Read height and width of the new images. Raises: InvalidRequest."""
    height, width = (int(each) for each in size)
    if height < 1 or width < 1:
        raise InvalidRequest(f"output dimensions must be positive, but are {height}, {width}")
    if not images.shape[1] or not images.shape[2]:
        raise InvalidRequest("input image must be of non-zero size")
    return height, width


def _nearest(attributes: Attributes) -> Compute:
    aligned, centred = attributes.flag("align_corners"), attributes.flag("half_pixel_centers")

    def places(held: int, wanted: int) -> Array:
        if aligned and wanted > 1:
            scale = np.float32((held - 1) / (wanted - 1))
        else:
            scale = np.float32(held) / np.float32(wanted)
        at = np.arange(wanted, dtype=np.float32)
        at = (at + np.float32(0.5)) * scale if centred else at * scale
        # C's round goes away from zero, numpy's to the even number.
        at = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
        clipped: Array = np.clip(at.astype(np.int64), 0, held - 1)
        return clipped

    def compute(images: Array, size: Array) -> Array:
        height, width = sizes(images, size)
        count, held_height, held_width, channels = images.shape
        make_room((count, height, max(width, held_width), channels), images.dtype)
        rows = images[:, places(held_height, height)]
        resized: Array = rows[:, :, places(held_width, width)]
        return resized

    return compute


KERNELS: Final[Mapping[str, HostKernel]] = {
    "ResizeBilinear": in_thread(HostKernel(_bilinear, (Output("", DataType.FP32),))),
    "ResizeNearestNeighbor": in_thread(HostKernel(_nearest)),
}
