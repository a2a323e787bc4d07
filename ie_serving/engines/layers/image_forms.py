"""Decides which inputs take encoded images, and the arrays that the images become.

As in OpenVINO Model Server, an input of four dimensions with 3 channels, or 1, takes images. There
the channels must come last; here the configuration, the model or the sizes tell their place.
"""

from collections.abc import Mapping
from dataclasses import replace

from ie_serving.core.values.image_form import AXES, COLOURED, GREY, NO_LIMIT, Bounds, ImageForm
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec

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
        signatures: of one model.
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

    Those are any number of rows of one length, and a single row or column. Text in images has one
    height and any width.
    """
    heights, widths = form.range_of("H"), form.range_of("W")
    is_of_frames = form.is_unbounded("H") and widths[0] == widths[1]
    return is_of_frames or 1 in (heights[1], widths[1])


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


def _bounds(shape: tuple[int, ...]) -> Bounds:
    return tuple((0, NO_LIMIT) if size == -1 else (size, size) for size in shape)
