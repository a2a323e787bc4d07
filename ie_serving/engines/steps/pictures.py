"""Decodes and encodes pictures: steps take encoded ones or pixels, and give pixels, PNG or JPEG.

Pixels are rows x columns x channels, 1 or 3 of them, in the order red, green, blue.
"""

from typing import Any

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array
from ie_serving.wire.image.pictures import decode, resized

MOST_PICTURES = 256
"""Most pictures of one tensor; more are refused, since each may take a second to decode."""

CHANNELS = (1, 3)


def pictures(image: Array, channels: int = 3) -> list[Array]:
    """Give the pictures of an input, each as pixels.

    Args:
        image: one encoded picture or a list, as bytes; or pixels of one, or of several of one size.
        channels: of decoded pictures; pixels keep theirs.

    Raises:
        InvalidTensor: not a picture, or too many.
        QueueFull, RequestTooLarge: the budget of bytes has no room for them.
    """
    several = _encoded(image) if image.dtype.kind == "O" else _plain(image)
    if len(several) > MOST_PICTURES:
        raise InvalidTensor(f"image: {len(several)} pictures; at most {MOST_PICTURES} are taken")
    if image.dtype.kind != "O":
        return several
    return [_decoded(data, at, channels) for at, data in enumerate(several)]


def _encoded(image: Array) -> list[Any]:
    if image.ndim > 1:
        raise InvalidTensor(
            f"image has shape {list(image.shape)}: expected one encoded picture, or a list of them"
        )
    return list(image.reshape(-1))


def _plain(image: Array) -> list[Array]:
    if image.ndim not in (3, 4) or image.shape[-1] not in CHANNELS or not image.size:
        raise InvalidTensor(
            f"image has shape {list(image.shape)}: expected pixels of rows x columns x 3 or 1"
        )
    return list(image if image.ndim == 4 else image[np.newaxis])


def _decoded(data: bytes, at: int, channels: int) -> Array:
    try:
        return decode(data, channels)
    except InvalidTensor as error:
        raise InvalidTensor(f"image {at} {error}") from None


def only(image: Array, channels: int = 3) -> Array:
    """Give the one picture of an input. Raises: InvalidTensor, QueueFull, RequestTooLarge."""
    several = pictures(image, channels)
    if len(several) != 1:
        raise InvalidTensor(f"image: {len(several)} pictures; expected one")
    return several[0]


def sized(pixels: Array, height: int, width: int) -> Array:
    """Resize a picture, keeping its dtype. Raises: InvalidTensor."""
    if not pixels.size:
        raise InvalidTensor(f"a picture of {list(pixels.shape[:2])} pixels cannot be resized")
    found = resized(pixels, height, width)
    if found.dtype == pixels.dtype:
        return found
    return (found.round() if pixels.dtype.kind == "u" else found).astype(pixels.dtype)


def room(
    count: int, height: int, width: int, channels: int, dtype: "np.dtype[np.generic]"
) -> Array:
    """Allocate an array for pictures in the byte budget. Raises: QueueFull, RequestTooLarge."""
    return BUDGET.empty((count, height, width, channels), dtype)
