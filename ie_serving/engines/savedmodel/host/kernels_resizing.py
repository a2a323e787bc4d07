"""Kernels that resize images, between their decoding and a batch.

Sources: resize_bilinear_op.cc, resize_nearest_neighbor_op.cc, resize_bicubic_op.cc,
scale_and_translate_op.cc and sampling_kernels.h of TensorFlow.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
)

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
        wide = _mixed(
            _columns_at(flat, across.first), _columns_at(flat, across.second), across.share
        )
        rows = [wide.take(at, 1) for at in down.positions]
        mixed = _mixed(rows[0], rows[1], down.share[:, None])
        return mixed.reshape(count, height, width, channels)

    return compute


class _Neighbours(NamedTuple):
    """The two neighbours of each new position along an axis; of columns, those of each channel.

    Attributes:
        first: the one before, or the position itself.
        second: the one behind.
        share: distance of the new position from the first: 0 to 1.
        used: positions that are a neighbour of any.
        positions: positions of the first and the second ones among these.
    """

    first: Array
    second: Array
    share: Array
    used: Array
    positions: Array


def _columns_at(lines: Array, at: Array) -> Array:
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
    used, positions = np.unique(np.stack([first, second]), return_inverse=True)
    share = np.repeat(at - floor, channels)
    return _Neighbours(first, second, share, used, positions.reshape(2, -1))


_between_again = lru_cache(maxsize=64)(_between)


def located(held: int, wanted: int, aligned: bool, centred: bool) -> Array:
    """Give for each new position where it lies between the pixels."""
    if aligned and wanted > 1:
        scale = np.float32((held - 1) / (wanted - 1))
    else:
        scale = np.float32(held) / np.float32(max(wanted, 1))
    at = np.arange(wanted, dtype=np.float32)
    half = np.float32(0.5)
    positions: Array = (at + half) * scale - half if centred else at * scale
    return positions


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

    def positions(held: int, wanted: int) -> Array:
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
        rows = images[:, positions(held_height, height)]
        resized: Array = rows[:, :, positions(held_width, width)]
        return resized

    return compute


KERNELS: Final[Mapping[str, HostKernel]] = {
    "ResizeBilinear": in_thread(HostKernel(_bilinear, (Output("", DataType.FP32),))),
    "ResizeNearestNeighbor": in_thread(HostKernel(_nearest)),
}

Weight = Callable[[Array], Array]
"""Gives the weights of pixels by their distances."""

_STEPS = 1 << 10
"""Distances between two pixels for which TensorFlow computes bicubic weights."""
_LEAST_SUM = np.float32(1000) * np.finfo(np.float32).tiny
"""Weights with a smaller sum are left as zeros."""


def _bicubic(attributes: Attributes) -> Compute:
    aligned, centred = attributes.flag("align_corners"), attributes.flag("half_pixel_centers")

    def taken(held: int, wanted: int) -> tuple[Array, Array]:
        """Give the four pixels of each new position, and their weights."""
        make_room((8, wanted), np.int64)
        at = located(held, wanted, aligned, centred)
        floor = np.floor(at)
        step = np.rint((at - floor) * _STEPS).astype(np.int64)
        near, far = _cubic(-0.5 if centred else -0.75)
        weights = np.stack([far[step], near[step], near[_STEPS - step], far[_STEPS - step]])
        wished = floor.astype(np.int64) + np.arange(-1, 3)[:, np.newaxis]
        pixels = np.clip(wished, 0, held - 1)
        if centred:  # pixels outside of the image do not count, else those at the edge do instead
            weights = np.where(pixels == wished, weights, np.float32(0))
            weights = weights * (np.float32(1) / _sum(weights))
        return pixels, weights

    def compute(images: Array, size: Array) -> Array:
        height, width = sizes(images, size)
        rows = _sampled(images.astype(np.float32), 1, *taken(images.shape[1], height))
        return _sampled(rows, 2, *taken(images.shape[2], width))

    return compute


@cache
def _cubic(a: float) -> tuple[Array, Array]:
    """Give the weights of a neighbour and of the pixel behind it, by the step between the two."""
    near = np.arange(_STEPS + 1) / _STEPS
    far = near + 1
    of_near = ((a + 2) * near - (a + 3)) * near * near + 1
    of_far = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return of_near.astype(np.float32), of_far.astype(np.float32)


def _sum(weights: Array) -> Array:
    """Add up the first axis from its beginning: numpy's sum takes another order."""
    total: Array = np.add.accumulate(weights)[-1]
    return total


def _sampled(images: Array, axis: int, pixels: Array, weights: Array) -> Array:
    """Replace an axis by weighted sums of it; pixel and weight of each summand come in a row."""
    shape = list(images.shape)
    shape[axis] = pixels.shape[1]
    # A sum, and one summand with its product.
    make_room((3, *shape), np.float32)
    made = np.zeros(shape, np.float32)
    along = (-1, *[1] * (images.ndim - 1 - axis))
    for pixel, weight in zip(pixels, weights, strict=True):
        made += images.take(pixel, axis) * weight.reshape(along)
    return made


def _translated(attributes: Attributes) -> Compute:
    kind = attributes.only("kernel_type", tuple(_WEIGHTS), b"lanczos3")
    radius, weight = _WEIGHTS[kind]
    antialias = attributes.flag("antialias", True)

    def compute(images: Array, size: Array, scales: Array, translations: Array) -> Array:
        height, width = sizes(images, size)
        if not (scales > 0).all():
            raise InvalidRequest("Scale must be greater than zero.")

        def taken(axis: int, wanted: int) -> tuple[Array, Array]:
            make_room((8, wanted), np.int64)
            # The map leads from new positions to pixels, for which both are inverted.
            with np.errstate(all="ignore"):  # extreme values lead out of the image
                step = np.float32(1.0 / float(scales[axis]))
                centre = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * step
                centre += -step * translations[axis]
                widened = max(step, np.float32(1)) if antialias else np.float32(1)
                reach = radius * widened
            return _spans(centre, images.shape[1 + axis], reach, widened, weight)

        rows = _sampled(images.astype(np.float32), 1, *taken(0, height))
        return _sampled(rows, 2, *taken(1, width))

    return compute


def _spans(
    centre: Array, held: int, reach: np.float32, widened: np.float32, weight: Weight
) -> tuple[Array, Array]:
    """Give the pixels within `reach` of each centre, and their weights.

    A centre outside of the image has none.
    """
    most = int(min(2 * np.ceil(reach) + 1, held))
    make_room((3, most, len(centre)), np.int64)
    half = np.float32(0.5)
    within = (centre >= 0) & (centre <= held)
    centre = np.where(within, centre, np.float32(0))
    first = np.clip(np.ceil(centre - reach - half), 0, held - 1).astype(np.int64)
    last = np.clip(np.floor(centre + reach - half), 0, held - 1).astype(np.int64)
    pixels = first + np.arange(most)[:, np.newaxis]
    distances = np.abs((pixels.astype(np.float32) + half - centre) * (np.float32(1) / widened))
    weights = np.where(
        (pixels <= last) & within, weight(distances).astype(np.float32), np.float32(0)
    )
    total = _sum(weights)
    summed = np.abs(total) >= _LEAST_SUM
    parts = np.divide(np.float32(1), total, out=np.zeros_like(total), where=summed)
    return np.minimum(pixels, held - 1), weights * parts


def _lanczos(radius: float) -> tuple[np.float32, Weight]:
    pi = np.float32(np.pi)

    def weight(x: Array) -> Array:
        x = np.maximum(x, np.float32(1e-3))  # where the limit of 1 is reached
        waves = radius * np.sin(pi * x) * np.sin(pi * x / radius) / (pi * pi * x * x)
        return np.where(x > radius, 0, np.where(x <= np.float32(1e-3), 1, waves))

    return np.float32(radius), weight


def _piecewise(near: Weight, far: Weight) -> tuple[np.float32, Weight]:
    """Give a kernel of two polynomials: up to the next pixel, and behind it."""
    return np.float32(2), lambda x: np.where(x >= 2, 0, np.where(x >= 1, far(x), near(x)))


_WEIGHTS: Final[Mapping[bytes, tuple[np.float32, Weight]]] = {
    b"lanczos1": _lanczos(1),
    b"lanczos3": _lanczos(3),
    b"lanczos5": _lanczos(5),
    b"gaussian": (
        np.float32(1.5),
        lambda x: np.where(x >= 1.5, 0, np.exp(-x.astype(np.float64) * x / 0.5)),
    ),
    b"box": (np.float32(1), lambda x: np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0))),
    b"triangle": (np.float32(1), lambda x: np.where(x < 1, 1 - x, 0)),
    b"keyscubic": _piecewise(
        lambda x: ((1.5 * x - 2.5) * x) * x + 1,
        lambda x: ((-0.5 * x + 2.5) * x - 4) * x + 2,
    ),
    b"mitchellcubic": _piecewise(
        lambda x: (((7 / 6) * x - 2) * x) * x + 8 / 9,
        lambda x: (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9,
    ),
}
"""Reach of each kernel, in pixels, and its weights."""

_FLOATS = (Output("", DataType.FP32),)

SAMPLING_KERNELS: Final[Mapping[str, HostKernel]] = {
    "ResizeBicubic": in_thread(HostKernel(_bicubic, _FLOATS)),
    "ScaleAndTranslate": in_thread(HostKernel(_translated, _FLOATS)),
}
