"""Small images, encoded by Pillow."""

import io
from typing import Any

import numpy as np
from PIL import Image

from ie_serving.core.values.tensors import Array

ORIENTATION = 0x0112


def noise(height: int, width: int, channels: int = 3, seed: int = 1) -> Array:
    """Pixels that compress badly: every mistake of place or order shows."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def smooth(height: int, width: int) -> Array:
    """Colours that change slowly, so that JPEG keeps them nearly as they are."""
    down = np.linspace(0, 200, height)[:, np.newaxis]
    along = np.linspace(0, 200, width)[np.newaxis]
    planes = [down + 0 * along, along + 0 * down, (down + along) / 2]
    return np.stack(planes, -1).astype(np.uint8)


def encoded(pixels: Array, form: str = "PNG", *, orientation: int = 1, **options: Any) -> bytes:
    """A file of these pixels, with an orientation where it is not upright."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    return saved(Image.fromarray(pixels), form, orientation=orientation, **options)


def saved(image: Any, form: str = "PNG", *, orientation: int = 1, **options: Any) -> bytes:
    if orientation != 1:
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        options["exif"] = exif.tobytes()
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of a few bytes that announces that many pixels."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + header + body + chunk(b"IEND", b"")
