"""Pixels of 8 bits -> an encoded picture, by Pillow."""

import io
from typing import Final

from ie_serving.core.values.errors import NotSupported
from ie_serving.core.values.tensors import Array

FORMATS: Final = {"png": "PNG", "jpeg": "JPEG"}
"""Pillow's formats by their words here."""


def encoded(pixels: Array, form: str) -> bytes:
    """Encode one picture.

    Args:
        pixels: uint8, rows x columns x channels, 3 or 1.
        form: a key of `FORMATS`.

    Raises:
        NotSupported: Pillow is not installed.
    """
    try:
        from PIL import Image  # here: most servers never encode a picture
    except ImportError as error:
        raise NotSupported("a picture cannot be encoded: Pillow is not installed here") from error
    plain = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    file = io.BytesIO()
    Image.fromarray(plain).save(file, FORMATS[form])
    return file.getvalue()
