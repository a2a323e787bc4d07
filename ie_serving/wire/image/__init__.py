"""Decodes JPEG, PNG and WebP to upright pixels of 8 bits, encodes and resizes pixels.

All modes become plain: palettes are looked up, alpha is dropped, 16 bits are cut to the upper 8,
CMYK becomes RGB, colours become grey (ITU-R 601) and grey becomes colours where the model needs
that. EXIF orientation is applied, colour profiles are not; an animation gives its first frame.

The bytes are untrusted. The announced sizes are checked before memory of that size is allocated,
and every exception of Pillow while it reads them is the request's fault.

`check_pieces` counts the segments of a file before Pillow reads them one by one in Python. Pillow
takes some microseconds for each, with the interpreter lock held, and joins all EXIF segments again
for each further one: 4 MB of them took 40 s. Encoders write some dozen.

`resized` interpolates pixels bilinearly, as OpenCV's `INTER_LINEAR` and so OVMS do. Each new pixel
is computed from the four nearest old ones, without an antialiasing filter: pixel centres at halves,
edges repeated, weights in float32. It reads only the rows and columns that it needs, so its time
depends on the new size and not on the old one.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ie_serving.core.runtime.budget import BUDGET, Lease, kept
from ie_serving.core.values.errors import InvalidTensor, NotSupported
from ie_serving.core.values.image_form import GREY
from ie_serving.core.values.tensors import Array

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

MOST_SEGMENTS: Final = 2000
"""Segments and filling bytes in front of a JPEG's picture. A profile of 16 MB and an XMP of that
size are 256 segments each."""
MOST_CHUNKS: Final = 50_000
"""Chunks of a PNG: encoders write 8 KB each, which are 400 MB."""
MOST_BETWEEN: Final = 1 << 16
"""Bytes between a JPEG's segments that belong to none; Pillow skips them one by one."""
_JPEG: Final = b"\xff\xd8\xff"
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_FRAME: Final = 12
"""Length, type and checksum of a chunk."""
_SCAN: Final = 0xDA
"""Marker in front of the picture. Source: ITU-T T.81, table B.1."""
_BARE: Final = frozenset({0x00, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)})
"""Markers that Pillow takes without a length."""
WRITTEN_FORMATS: Final = {"png": "PNG", "jpeg": "JPEG"}
"""Pillow's formats by their words here."""
PixelPositions = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
"""Sources of each new row or column: the old one before it, the next one, the weight of the
latter."""


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
    library = pillow()
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
def pillow() -> ModuleType:
    """Import Pillow with its decoders. Raises: NotSupported."""
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


def check_pieces(data: bytes) -> None:
    """Refuse a file of very many pieces.

    Raises:
        InvalidTensor: the text goes on where "image N" stands before it.
    """
    if data.startswith(_JPEG):
        _count(_segments(data), MOST_SEGMENTS, "JPEG", "segments")
    elif data.startswith(_PNG):
        _count(_chunks(data), MOST_CHUNKS, "PNG", "chunks")


def _count(pieces: Iterator[None], most: int, form: str, words: str) -> None:
    for count, _ in enumerate(pieces):
        if count >= most:
            raise InvalidTensor(
                f"is a {form} of more than {most} {words}; no more are read: encode it again"
            )


def _segments(data: bytes) -> Iterator[None]:
    at, between = 2, 0
    while 0 <= (begin := data.find(b"\xff", at)) < len(data) - 1 and data[begin + 1] != _SCAN:
        yield None
        between += begin - at
        if between > MOST_BETWEEN:
            raise InvalidTensor(
                f"is a JPEG with more than {MOST_BETWEEN} bytes between its segments: send the"
                " whole file, and nothing else"
            )
        kind = data[begin + 1]
        if kind == 0xFF:  # filling
            at = begin + 1
        elif kind in _BARE:
            at = begin + 2
        else:
            # A length counts its own two bytes; a smaller one must not keep the loop in place.
            at = begin + 2 + max(2, int.from_bytes(data[begin + 2 : begin + 4], "big"))


def _chunks(data: bytes) -> Iterator[None]:
    at = len(_PNG)
    while at < len(data):
        yield None
        at += _PNG_FRAME + int.from_bytes(data[at : at + 4], "big")


def encoded(pixels: Array, form: str) -> bytes:
    """Encode one picture.

    Args:
        pixels: uint8, rows x columns x channels, 3 or 1.
        form: a key of `WRITTEN_FORMATS`.

    Raises:
        NotSupported: Pillow is not installed.
    """
    try:
        from PIL import Image  # here: most servers never encode a picture
    except ImportError as error:
        raise NotSupported(
            "a picture cannot be encoded, since Pillow is not installed here:"
            " pip install '.[images]'"
        ) from error
    plain = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    file = io.BytesIO()
    Image.fromarray(plain).save(file, WRITTEN_FORMATS[form])
    return file.getvalue()


def resized(pixels: Array, height: int, width: int) -> Array:
    """Give the image in another size.

    Args:
        pixels: uint8, rows x columns x channels; any memory order.
        height: rows of the result.
        width: columns of the result.

    Returns:
        `pixels` itself where it has that size; else float32 of the same channels, not rounded.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    above, below, down = _positions(pixels.shape[0], height)
    upper = _across(pixels.take(above, 0), width)
    lower = _across(pixels.take(below, 0), width)
    return _between(upper, lower, down[:, np.newaxis, np.newaxis])


def _across(rows: Array, width: int) -> Array:
    left, right, along = _positions(rows.shape[1], width)
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


def _positions(old: int, new: int) -> PixelPositions:
    at = (np.arange(new) + 0.5) * (old / new) - 0.5
    at = at.clip(0, old - 1)  # beyond the outermost centres the edge is repeated
    before = at.astype(np.intp)
    behind = np.minimum(before + 1, old - 1)
    return before, behind, (at - before).astype(np.float32)
