"""Decodes the encoded images of one input of one request into one array."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.image_form import AXES, COLOURED, NO_LIMIT, ImageForm
from ie_serving.core.values.tensors import Array, TensorSpec
from ie_serving.wire.image.decode import decode
from ie_serving.wire.image.resize import resized

Work = Callable[[], None]


class ImageBatch:
    """Images being decoded into an array. Made and read on the event loop, decoded in threads.

    Where the images decide the size, the first image does, as in OpenVINO Model Server: within
    bounds the others are resized to its size; without bounds they must have its size, since neither
    the model nor the request tells which size is meant.

    Attributes:
        abandoned: the result is no longer wanted; no further image is begun.

    Args of the constructor:
        spec: of the input; it has an image form.
        strings: one file each; a scalar is a batch of one.

    Raises:
        InvalidTensor: no list of images, or more or fewer than the input takes.
    """

    def __init__(self, spec: TensorSpec, strings: Array) -> None:
        assert spec.image is not None  # the layer makes no batch for other inputs
        self.abandoned = False
        self._spec = spec
        self._form: ImageForm = spec.image
        self._images = _listed(spec, strings)
        self._array: Array | None = None
        self._failures: dict[int, ServingError] = {}
        self._first = (0, 0)
        if not self._form.is_open:
            self._make(*self._form.nearest(0, 0))

    def steps(self, most: int) -> Sequence[Sequence[Work]]:
        """Give the work in steps: steps run one after the other, the work of a step in parallel.

        Where images decide the size, the first image is a separate step, since its size is needed
        by the others. The work raises nothing; `array` does.

        Args:
            most: pieces of work in a step.
        """
        count = len(self._images)
        alone = 1 if self._form.is_open else 0
        pieces = min(most, count - alone)
        rest = [
            partial(self._put_all, range(start, count, pieces))
            for start in range(alone, alone + pieces)
        ]
        return [[partial(self._put_all, range(alone))], rest] if alone else [rest]

    def array(self) -> Array:
        """Give the array, of the input's layout and dtype; once.

        Raises:
            InvalidTensor: an image is broken, too large or of another size than the first one; the
                text names the first such.
            QueueFull, RequestTooLarge: the budget of bytes has no room.
        """
        # A thread that has ended its work may know `self` a little longer, and with it the array.
        array, self._array = self._array, None
        if self._failures:
            raise self._failures.pop(min(self._failures))
        assert array is not None
        return array

    def _put_all(self, indices: range) -> None:
        for index in indices:
            # Only the first failure is reported: images after it need not be decoded.
            if self.abandoned or min(self._failures, default=index) < index:
                return
            try:
                self._put(index, decode(self._images[index], self._form.channels))
            except ServingError as error:
                self._failures[index] = type(error)(f"{self._place(index)} ", *error.args)

    def _place(self, index: int) -> str:
        last = len(self._images) - 1
        which = f"image {index} (of 0 to {last})" if last else "the image"
        return f'input "{self._spec.name}": {which}'

    def _put(self, index: int, pixels: Array) -> None:
        size = pixels.shape[:2]
        if self._array is None:
            self._first = size
            self._make(*self._form.nearest(*size))
        self._check_like_first(size)
        assert self._array is not None
        rows = self._array.transpose([self._form.layout.index(axis) for axis in AXES])
        image = resized(pixels, *rows.shape[1:3])
        if self._form.colours == "BGR" and self._form.channels == COLOURED:
            image = image[..., ::-1]
        # Rounded, since a cast to integers cuts: 254.9 would become 254.
        if rows.dtype.kind != "f" and image.dtype.kind == "f":
            image = np.rint(image)
        rows[index] = image

    def _make(self, height: int, width: int) -> None:
        sizes = {"N": len(self._images), "H": height, "W": width, "C": self._form.channels}
        shape = [sizes[axis] for axis in self._form.layout]
        self._array = BUDGET.empty(shape, self._spec.dtype.numpy)

    def _check_like_first(self, size: tuple[int, ...]) -> None:
        for axis, own, first in zip("HW", size, self._first, strict=True):
            if own != first and self._form.is_unbounded(axis):
                raise InvalidTensor(
                    f"has {size[0]} rows of {size[1]} pixels, the first one {self._first[0]} of"
                    f" {self._first[1]}; the model takes any size, but one in a request: send them"
                    " in requests of their own, or resize them"
                )


def _listed(spec: TensorSpec, strings: Array) -> Array:
    if strings.ndim > 1:
        raise InvalidTensor(
            f'input "{spec.name}" has images of shape {strings.shape}: send a list of'
            " them, of shape (n)"
        )
    assert spec.image is not None
    low, high = spec.image.range_of("N")
    if not max(low, 1) <= strings.size <= high:
        raise InvalidTensor(
            f"Input batch size is incorrect. Obtained batch size {strings.size}, required batch"
            f" size {_counted(max(low, 1), high)}: one image each for input {spec}"
        )
    return strings.reshape(-1)


def _counted(low: int, high: int) -> str:
    """Say how many images there may be."""
    if low == high:
        return str(low)
    return f"{low}..{high}" if high < NO_LIMIT else f"{low} or more"
