"""Draws boxes and their texts on a picture, by Pillow."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ie_serving.core.values.errors import NotSupported
from ie_serving.core.values.tensors import Array

Colour = tuple[int, int, int]
Rectangle = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; the last two are the first that are outside."""

PALETTE: Final[tuple[Colour, ...]] = (
    (230, 25, 75),
    (60, 180, 75),
    (0, 130, 200),
    (245, 130, 48),
    (145, 30, 180),
    (70, 240, 240),
    (240, 50, 230),
    (210, 245, 60),
)
"""Colours that differ on most pictures."""

LONGEST_TEXT: Final = 60
"""Characters of a box's text that are drawn."""


def drawn(
    pixels: Array,
    rectangles: Sequence[Rectangle],
    texts: Sequence[str],
    colours: Sequence[Colour],
    line: int,
) -> Array:
    """Give a copy of a picture with boxes.

    Args:
        pixels: uint8, rows x columns x channels, 3 or 1.
        rectangles: positions of the boxes.
        texts: one for each box, which may be empty.
        colours: one for each box.
        line: width of a box's line in pixels.

    Returns:
        uint8, rows x columns x 3.

    Raises:
        NotSupported: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw  # here: most servers never draw
    except ImportError as error:
        raise NotSupported(
            "boxes cannot be drawn, since Pillow is not installed here: pip install '.[images]'"
        ) from error
    picture = Image.fromarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)).copy())
    canvas = ImageDraw.Draw(picture)
    for (left, top, right, bottom), text, colour in zip(rectangles, texts, colours, strict=True):
        canvas.rectangle((left, top, right - 1, bottom - 1), outline=colour, width=line)
        if text:
            _write(canvas, (left, top), text, colour)
    return np.asarray(picture)


def _write(canvas: object, at: tuple[int, int], text: str, colour: Colour) -> None:
    """Write a text on a ground of the box's colour."""
    # Pillow's own small font has Latin letters only, and raises at others.
    shown = text[:LONGEST_TEXT].encode("latin-1", "replace").decode("latin-1")
    area = canvas.textbbox(at, shown)  # type: ignore[attr-defined]
    canvas.rectangle(area, fill=colour)  # type: ignore[attr-defined]
    canvas.text(at, shown, fill=(255, 255, 255))  # type: ignore[attr-defined]


def colour_of(given: str) -> Colour:
    """Read a colour: a name of HTML, `#rrggbb` or `rgb(r, g, b)`.

    Raises:
        ValueError: it is none.
        NotSupported: Pillow is not installed.
    """
    try:
        from PIL import ImageColor
    except ImportError as error:
        raise NotSupported(
            "boxes cannot be drawn, since Pillow is not installed here: pip install '.[images]'"
        ) from error
    red, green, blue = ImageColor.getrgb(given)[:3]
    return red, green, blue
