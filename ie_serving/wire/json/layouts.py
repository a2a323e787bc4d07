"""Caches the shapes of bodies by layout: the brackets and commas of a body, without its numbers.

Most clients send arrays of one shape again and again. Finding a *layout* takes one pass over the
bytes and one look-up in a dictionary, where measuring needs simdjson's proxy of every list.

Why a layout determines the shape. It is cached only where it is that of one regular array, with at
most commas around it, and no dimension of the array is 0. Take another body with the same layout,
in which simdjson has found an array of numbers, as the value of an object or as all of the body.
If text follows such a value, its layout begins with a comma. So the array is the whole layout,
except for the commas around; or a list within it that others follow, and then it has fewer
elements. An empty list has the layout of a list of one; then there are fewer elements, too.
So an array with as many elements as the shape is of that shape. The caller has to check that
number: `buffers.py` does, since numpy makes no array of a buffer that is too small.
"""

from collections.abc import Sequence
from typing import Final

LONGEST: Final = 16 * 1024
"""Bytes up to which a body's layout is looked up; lists take little of a larger body's time."""
MOST: Final = 64
"""Layouts that are remembered, of at most `LONGEST` bytes each, so about 1 MB in all. For one more
all are forgotten: clients choose them."""

ELSE: Final = bytes(set(range(256)) - set(b"[],"))
"""The bytes that a layout leaves out."""
SHAPES: Final[dict[bytes, Sequence[int]]] = {}
"""By layout, the shape that a body's array has if it holds as many numbers. It is looked up without
a call, for every small request."""


def remember(layout: bytes, shape: Sequence[int]) -> None:
    """Cache a measured shape, where the layout determines it."""
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
