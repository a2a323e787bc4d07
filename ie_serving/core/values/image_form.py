"""Describes inputs that may be sent as encoded images, such as JPEG, instead of numbers."""

from dataclasses import dataclass

GREY, COLOURED = 1, 3
"""Numbers of channels that an image may be decoded to."""

RGB, BGR = "RGB", "BGR"
"""Orders of the colours of an image."""

NO_LIMIT = 1 << 31
"""A size from which a dimension counts as unbounded: more than any image has."""

AXES = "NHWC"
"""The four dimensions of a batch of images: images, rows, columns, channels."""

ImageBounds = tuple[tuple[int, int], ...]
"""Smallest and largest size of each dimension."""


@dataclass(frozen=True, slots=True)
class ImageForm:
    """The form that the images of one input are decoded to.

    Attributes:
        layout: order of the four `AXES` in the array.
        sizes: smallest and largest size of each dimension, in that order.
        colours: order of the channels of one that has three, `BGR` or `RGB`.
    """

    layout: str
    sizes: ImageBounds
    colours: str

    @property
    def channels(self) -> int:
        """3 if the input takes that many, else 1."""
        return COLOURED if _nearest(COLOURED, self.range_of("C")) == COLOURED else GREY

    @property
    def is_open(self) -> bool:
        """Whether an image's own size is used, within the bounds."""
        return any(low != high for low, high in map(self.range_of, "HW"))

    def range_of(self, axis: str) -> tuple[int, int]:
        """Return the smallest and the largest size of one of `AXES`."""
        return self.sizes[self.layout.index(axis)]

    def nearest(self, height: int, width: int) -> tuple[int, int]:
        """Return the permitted size that is nearest to an image's, in each dimension."""
        return _nearest(height, self.range_of("H")), _nearest(width, self.range_of("W"))

    def is_unbounded(self, axis: str) -> bool:
        """Return whether any size is permitted on this axis."""
        return self.range_of(axis)[1] >= NO_LIMIT

    def described(self) -> str:
        """Describe in words the array that an image becomes."""
        height, width = (_worded(self.range_of(axis)) for axis in "HW")
        colours = self.colours if self.channels == COLOURED else "grey"
        return f"{height} x {width} {colours}"


def _nearest(size: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return min(max(size, low), high)


def _worded(bounds: tuple[int, int]) -> str:
    low, high = bounds
    if low == high:
        return str(low)
    return f"{low}..{high}" if high < NO_LIMIT else "any"
