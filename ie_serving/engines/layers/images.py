"""The image layer: decodes and resizes images that clients send instead of numbers, in threads.

An input that may be images (`image_form`) takes strings too, each the bytes of a file. They
become one array of the input's own shape, and the inner model sees no difference. Requests with
numbers pass through.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.errors import InvalidTensor, ServingError
from ie_serving.core.values.image_form import (
    AXES,
    BGR,
    COLOURED,
    GREY,
    NO_LIMIT,
    ImageBounds,
    ImageForm,
)
from ie_serving.core.values.tensors import Array, Arrays, DataType, Read, Signature, TensorSpec
from ie_serving.engines.base import CompiledModel, EngineOptions
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.run.threads import thread_limit
from ie_serving.telemetry.log.logs import Event
from ie_serving.wire.image import decode, resized

log = logging.getLogger(__name__)

T = TypeVar("T")


# -- which inputs take images -------------------------------------------------------------------
# As in OpenVINO Model Server, an input of four dimensions with 3 channels, or 1, takes images.
# There the channels must come last; here the configuration, the model or the sizes tell their
# place.

TYPES = frozenset(
    {
        DataType.FP32,
        DataType.FP64,
        DataType.FP16,
        DataType.BF16,
        DataType.UINT8,
        DataType.UINT16,
        DataType.INT16,
        DataType.INT32,
    }
)
"""Element types that hold 0 to 255, into which images can be decoded."""


def with_images(signatures: Mapping[str, Signature], colours: str = "") -> Mapping[str, Signature]:
    """Add the image form to the specs of inputs; give the same mapping where no input has one.

    Args:
        signatures: signatures of one model.
        colours: order of the channels that clients send; empty for each input's own.
    """
    noted = {name: _noted(signature, colours) for name, signature in signatures.items()}
    changed = any(noted[name] is not signature for name, signature in signatures.items())
    return noted if changed else signatures


def image_form(spec: TensorSpec, colours: str = "") -> ImageForm | None:
    """Give the form that images for this input become; None where it takes none."""
    if spec.dtype not in TYPES or spec.shape is None or len(spec.shape) != len(AXES):
        return None
    layout = _layout(spec.layout, spec.shape)
    if sorted(layout) != sorted(AXES):
        return None
    form = ImageForm(layout, spec.bounds or _bounds(spec.shape), colours or spec.colours)
    if layout != spec.layout and _is_series(form):
        return None
    low, high = form.range_of("C")
    return form if any(low <= count <= high for count in (GREY, COLOURED)) else None


def _is_series(form: ImageForm) -> bool:
    """Tell whether an input is frames of audio or a row of numbers, by sizes that no image has.

    Those are any number of rows of one length, and a single row or column without colours. Text in
    images has one height and any width.
    """
    heights, widths = form.range_of("H"), form.range_of("W")
    is_of_frames = form.is_unbounded("H") and widths[0] == widths[1]
    is_line = 1 in (heights[1], widths[1]) and form.range_of("C")[1] == GREY
    return is_of_frames or is_line


def _noted(signature: Signature, colours: str) -> Signature:
    inputs = {
        name: replace(spec, image=image_form(spec, colours))
        for name, spec in signature.inputs.items()
    }
    return signature if inputs == signature.inputs else replace(signature, inputs=inputs)


def _layout(declared: str, shape: tuple[int, ...]) -> str:
    """Take a layout that names all dimensions; else guess by where 3 or 1 stands."""
    if len(declared) == len(shape) and declared.isalpha():
        return declared
    if shape[3] in (GREY, COLOURED):
        return "NHWC"
    return "NCHW" if shape[1] in (GREY, COLOURED) else ""


def _bounds(shape: tuple[int, ...]) -> ImageBounds:
    return tuple((0, NO_LIMIT) if size == -1 else (size, size) for size in shape)


ImageWork = Callable[[], None]


class ImageBatch:
    """Images being decoded into an array. Made and read on the event loop, decoded in threads.

    Where the images decide the size, the first image does, as in OpenVINO Model Server: within
    bounds the others are resized to its size; without bounds they must have its size, since neither
    the model nor the request tells which size is meant.

    Attributes:
        abandoned: the result is no longer wanted; no further image is begun.

    Args of the constructor:
        spec: spec of the input; it has an image form.
        strings: one file each; a scalar is a batch of one.

    Raises:
        InvalidTensor: no list of images, or more or fewer than the input takes.
    """

    def __init__(self, spec: TensorSpec, strings: Array) -> None:
        assert spec.image is not None  # the layer makes no batch for other inputs
        self.abandoned = False
        self._spec = spec
        self._form: ImageForm = spec.image
        self._images = _image_row(spec, strings)
        self._array: Array | None = None
        self._failures: dict[int, ServingError] = {}
        self._first = (0, 0)
        if not self._form.is_open:
            self._make(*self._form.nearest(0, 0))

    def steps(self, most: int) -> Sequence[Sequence[ImageWork]]:
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
            # The first failure alone is reported: images after it need not be decoded.
            if self.abandoned or min(self._failures, default=index) < index:
                return
            try:
                self._put(index, decode(self._images[index], self._form.channels))
            except ServingError as error:
                self._failures[index] = type(error)(f"{self._position(index)} ", *error.args)

    def _position(self, index: int) -> str:
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
        if self._form.colours == BGR and self._form.channels == COLOURED:
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


def _image_row(spec: TensorSpec, strings: Array) -> Array:
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


THREADS = thread_limit() or os.cpu_count() or 1
"""Images of all models that are decoded at a time. More would only divide the processors, and each
may hold some hundred megabytes."""

DECODING_THREADS = ThreadPoolExecutor(THREADS, "image", initializer=SPARE_CPU.settle)
"""Decode the images of all models."""


def taking_images(compiled: CompiledModel, _: Path, options: EngineOptions) -> CompiledModel:
    """Let a model take images for inputs that look like images; no layer where none does."""
    if not options.image_inputs:
        return compiled
    chosen = options.of(Preprocessing).color_format
    colours = chosen.client if chosen else ""
    plain = compiled.signatures
    signatures = with_images(plain, colours)
    if signatures is plain:
        return compiled
    advice = "" if colours else ": for a model trained with RGB set color_format to RGB"
    told = {name: _with_image_words(each, advice) for name, each in signatures.items()}
    return ImageLayer(compiled, told)


class ImageLayer(Layer):
    """Decodes the images of a request before the inner model sees it. See `CompiledModel`.

    Args of the constructor:
        inner: takes numbers.
        signatures: those of `inner`, with the form of images in the specs of inputs.
    """

    def __init__(self, inner: CompiledModel, signatures: Mapping[str, Signature]) -> None:
        super().__init__(inner, signatures)
        self._inputs = {
            signature.name: [name for name, spec in signature.inputs.items() if spec.image]
            for signature in signatures.values()
        }

    def infer(self, signature: Signature, inputs: Arrays, read: Read[T]) -> Coroutine[Any, Any, T]:
        """See `engines.base`. Raises: also as `ImageBatch`."""
        for name in self._inputs[signature.name]:
            if inputs[name].dtype.kind == "O":
                return self._infer_images(signature, inputs, read)
        return self.inner.infer(signature, inputs, read)

    async def _infer_images(self, signature: Signature, inputs: Arrays, read: Read[T]) -> T:
        # One input after the other: the images of each are divided among all threads.
        decoded = {
            name: await _decoded(ImageBatch(signature.inputs[name], inputs[name]))
            for name in self._inputs[signature.name]
            if inputs[name].dtype.kind == "O"
        }
        return await self.inner.infer(signature, {**inputs, **decoded}, read)


async def _decoded(batch: ImageBatch) -> Array:
    """Decode a batch in threads; once the request has ended, no further image is begun."""
    steps = batch.steps(THREADS)
    loop = asyncio.get_running_loop()
    try:
        for side_by_side in steps:
            running = [loop.run_in_executor(DECODING_THREADS, work) for work in side_by_side]
            await asyncio.gather(*running)
    finally:
        batch.abandoned = True
    return batch.array()


def _with_image_words(signature: Signature, advice: str) -> Signature:
    """Say in the words for `ie_serving check`, and in the log, which inputs take images.

    Args:
        signature: signature with the form of images in the specs of its inputs.
        advice: follows a form in BGR, which an engine took without being told.
    """
    forms = {name: spec.image.described() for name, spec in signature.inputs.items() if spec.image}
    for name, form in forms.items():
        log.info(Event("images taken", signature=signature.name, input=name, image=form))
    if not forms or not signature.runs_on:
        return signature
    listed = ", ".join(
        f'"{name}" ({form}{advice if BGR in form else ""})' for name, form in forms.items()
    )
    return replace(signature, runs_on=f"{signature.runs_on}; also takes images for {listed}")
