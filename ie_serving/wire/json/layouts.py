"""Shapes that bodies were measured to have, by what is left of a body without its numbers.

Most clients send arrays of one shape again and again. What is left of such a body are brackets and
commas, its *layout*: one pass over the bytes and a look into a dictionary, where measuring asks
simdjson for a proxy of every list.

Why a layout tells the shape. It is remembered only where it is that of one regular array, with at
most commas around it, and no dimension of it is 0. Take another body with the same layout, in which
simdjson has found an array of numbers, as the value of an object or as all of the body. Of what
follows such a value the layout begins with a comma, if there is anything. So the array is the whole
layout, but for the commas around; or a list within it that others follow, and then it has fewer
elements. An empty list has the layout of a list of one; then there are fewer elements, too.
So an array with as many elements as the shape has is of that shape, and whoever asks has to find
that there are: `buffers.py` does, since numpy makes no array of a buffer that is too small.
"""

from collections.abc import Sequence
from typing import Final

LONGEST: Final = 16 * 1024
"""Bytes of a body whose layout is looked for. The lists of a larger one take little of its time."""
MOST: Final = 64
"""Layouts that are remembered, of at most `LONGEST` bytes each, so about 1 MB in all. For one more
all are forgotten: clients choose them."""

ELSE: Final = bytes(set(range(256)) - set(b"[],"))
"""What a layout is without."""
SHAPES: Final[dict[bytes, Sequence[int]]] = {}
"""By layout, the shape that a body's array has if it holds as many numbers. It is looked up without
a call, for every small request."""


def remember(layout: bytes, shape: Sequence[int]) -> None:
    """Remember what was measured, where the layout tells it."""
    if 0 in shape or layout.strip(b",") != _written(shape):
        return
    if len(SHAPES) >= MOST:
        SHAPES.clear()
    SHAPES[layout] = tuple(shape)


def _written(shape: Sequence[int]) -> bytes:
    layout = b"," * (shape[-1] - 1)
    for size in shape[-2::-1]:
        layout = b",".join([b"[%b]" % layout] * size)
    return b"[%b]" % layout
