"""Kernels that resize images, between their decoding and a batch.

Source: resize_bilinear_op.cc and resize_nearest_neighbor_op.cc of TensorFlow.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.attributes import Attributes
from ie_serving.engines.savedmodel.host.host_kernel import Compute, HostKernel, Output, in_thread


def _bilinear(attributes: Attributes) -> Compute:
    aligned, centred = attributes.flag("align_corners"), attributes.flag("half_pixel_centers")

    def compute(images: Array, size: Array) -> Array:
        height, width = sizes(images, size)
        count, _, held_width, channels = images.shape
        # Rows are resized first: with few of them wide ones weigh more than the result.
        make_room((count, height, max(width, held_width), channels), np.float32)
        above, below, down = _between(images.shape[1], height, aligned, centred)
        left, right, across = _between(images.shape[2], width, aligned, centred)
        down, across = down[:, np.newaxis, np.newaxis], across[:, np.newaxis]
        rows = []
        for row in (above, below):
            lines = images[:, row].astype(np.float32)
            rows.append(lines[:, :, left] + (lines[:, :, right] - lines[:, :, left]) * across)
        resized: Array = rows[0] + (rows[1] - rows[0]) * down
        return resized

    return compute


def _between(held: int, wanted: int, aligned: bool, centred: bool) -> tuple[Array, Array, Array]:
    """Give for each new place its two neighbours, and how far it is from the first: 0 to 1."""
    at = located(held, wanted, aligned, centred)
    floor = np.floor(at)
    lower = np.maximum(floor, 0).astype(np.int64)
    upper = np.minimum(np.ceil(at), held - 1).astype(np.int64)
    return lower, upper, at - floor


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
