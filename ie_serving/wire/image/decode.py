"""Decodes JPEG, PNG and WebP to upright pixels of 8 bits, by Pillow.

All modes become plain: palettes are looked up, alpha is dropped, 16 bits are cut to the upper 8,
CMYK becomes RGB, colours become grey (ITU-R 601) and grey becomes colours where the model needs
that. EXIF orientation is applied, colour profiles are not; an animation gives its first frame.

The bytes are untrusted. The announced sizes are checked before memory of that size is allocated,
and every exception of Pillow while it reads them is the request's fault.
"""

import io
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from ie_serving.core.runtime.budget import BUDGET, Lease, kept
from ie_serving.core.values.errors import InvalidTensor, NotSupported
from ie_serving.core.values.image_form import GREY
from ie_serving.core.values.tensors import Array
from ie_serving.wire.image.segments import check_pieces

FORMATS: Final = ("JPEG", "PNG", "WEBP")
KINDS: Final = "JPEG, PNG or WebP"

MOST_PIXELS: Final = 1 << 26
"""Pixels of one image, 67 million: cameras make up to 50 million. A PNG of 70 KB can announce as
many; to decode them takes a thread about a second."""

MOST_WEBP_PIXELS: Final = 1 << 24
"""Most pixels of a WebP: Pillow copies them in one piece and holds the interpreter for 15 ms."""

PIECE: Final = 1 << 18
"""Bytes that are copied at a time with the interpreter held, for less than a millisecond."""

MOST_SCANS: Final = 100
MOST_SCANNED: Final = 1 << 30
"""Most passes over the picture in one JPEG, and pixels of all passes together; encoders make 10
passes. Each costs time for every pixel, here about 2 s for all, and takes some 30 bytes of the
file, so a megabyte could cost minutes."""

BYTES_A_PIXEL: Final = {"WEBP": 20}
MOST_BYTES_A_PIXEL: Final = 12
"""Bytes of memory for each pixel while decoding. Measured are 7, for WebP 16: Pillow has 4, the
copy 3, the library of WebP two canvases and a copy; conversion to RGB takes 4 more."""

SIXTEEN_BITS: Final = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
"""Pillow's modes of grey with 16 bits, which it would cut off at 255."""

ORIENTATION: Final = 0x0112
"""Tag of EXIF. Source: EXIF 2.32, 4.6.4."""

UPRIGHT: Final[Mapping[int, Callable[[Array], Array]]] = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: pixels[::-1].swapaxes(0, 1),
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
    8: lambda pixels: pixels[:, ::-1].swapaxes(0, 1),
}
"""Functions that turn a picture upright, by its orientation; 1 is upright. All give views."""


def decode(data: bytes, channels: int) -> Array:
    """Decode one image.

    Args:
        data: the whole file.
        channels: 3 for red, green and blue, in this order; 1 for grey.

    Returns:
        Read-only uint8, rows x columns x channels, counted in the budget while it is referred to.

    Raises:
        InvalidTensor: no such image, a damaged one, or one that is too large; the text continues
            after "image N".
        QueueFull, RequestTooLarge: the budget of bytes has no room for it.
        NotSupported: Pillow is not installed.
    """
    library = _pillow()
    if not data:
        raise InvalidTensor(f"is empty: send a whole {KINDS}")
    check_pieces(data)
    with _opened(library, data) as image:
        lease = _room(image, data)
        try:
            pixels = _pixels(image, channels)
            turn = UPRIGHT.get(_orientation(image))
        except MemoryError:
            raise
        except Exception as error:  # its readers raise whatever the bytes make them raise
            raise InvalidTensor(
                f"is a damaged {image.format} ({error}): send the whole file"
            ) from error
    held = kept(pixels, lease)
    return turn(held) if turn else held


@cache
def _pillow() -> ModuleType:
    try:
        from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: F401
    except ImportError as error:
        raise NotSupported(
            "cannot be decoded, since Pillow is not installed here: pip install"
            " '.[images]' on the server, or send numbers"
        ) from error
    Image.MAX_IMAGE_PIXELS = None  # `_room` limits images, with advice in its error
    warnings.filterwarnings("ignore", module=r"PIL\.")  # of clients' files, not ours to repair
    module: ModuleType = Image
    return module


def _opened(library: ModuleType, data: bytes) -> Any:  # noqa: ANN401  (an image of Pillow)
    """Read the header."""
    try:
        return library.open(io.BytesIO(data), formats=FORMATS)
    except MemoryError:
        raise
    except Exception as error:
        raise InvalidTensor(
            f"is no {KINDS}, or its header is damaged: send the bytes of the whole file"
        ) from error


def _room(image: Any, data: bytes) -> Lease:  # noqa: ANN401
    """Lease the memory for decoding. Only the header has been read."""
    width, height = image.size
    most = MOST_WEBP_PIXELS if image.format == "WEBP" else MOST_PIXELS
    if width * height > most:
        raise InvalidTensor(
            f"has {width} x {height} pixels; at most {most} are decoded: send a smaller one"
        )
    scans = data.count(b"\xff\xda") if image.format in ("JPEG", "MPO") else 0
    if scans > min(MOST_SCANS, MOST_SCANNED // (width * height or 1)):
        raise InvalidTensor(
            f"is a JPEG of {scans} scans of {width} x {height} pixels; at most {MOST_SCANS} scans"
            f" and {MOST_SCANNED} pixels of all are decoded: encode it again"
        )
    return BUDGET.lease(width * height * BYTES_A_PIXEL.get(image.format, MOST_BYTES_A_PIXEL))


def _pixels(image: Any, channels: int) -> Array:  # noqa: ANN401
    if image.mode in SIXTEEN_BITS:
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.broadcast_to(grey[..., np.newaxis], (*grey.shape, channels))
    mode = "L" if channels == GREY else "RGB"
    return _copied(image if image.mode == mode else image.convert(mode), channels)


def _copied(image: Any, channels: int) -> Array:  # noqa: ANN401
    pixels = np.empty((image.height, image.width, channels), np.uint8)
    rows = max(1, PIECE // (image.width * channels))
    for top in range(0, image.height, rows):
        piece = pixels[top : top + rows]
        band = image.crop((0, top, image.width, top + len(piece)))
        piece[:] = np.asarray(band).reshape(piece.shape)
    return pixels


# Cameras often write broken EXIF: the picture is decoded without it.
def _orientation(image: Any) -> int:  # noqa: ANN401
    if "exif" not in image.info:
        return 1
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:
        return 1
