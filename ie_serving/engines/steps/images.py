"""Steps that prepare pictures for models: decode, resize, and convert to tensors."""

import numpy as np

from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec
from ie_serving.engines.steps.declaration import tensor
from ie_serving.engines.steps.pictures import only, pictures, room, sized

STRETCH, CROP, PAD = "stretch", "crop", "pad"
"""How a picture is fitted to another shape: stretched, cut to the middle, or with black edges."""

COLOURS = ("RGB", "BGR", "GREY")


def decode_image(image: Array, *, colors: str) -> Arrays:
    """Decode one picture; see `registry.TABLE`."""
    pixels = _coloured(only(image, _channels(colors)), colors)
    height, width = pixels.shape[:2]
    return {"pixels": pixels, "height": np.int64(height), "width": np.int64(width)}


def resize(image: Array, *, height: int, width: int, fit: str) -> Arrays:
    """Resize one picture; see `registry.TABLE`."""
    return {"pixels": fitted(only(image), height, width, fit)}


def resize_specs(inputs: Specs, *, height: int, width: int, **_: object) -> Specs:
    """Give the specs of `resize`'s outputs."""
    return {"pixels": pixels_spec("pixels", inputs["image"], height, width)}


def pixels_spec(name: str, image: TensorSpec, *shape: int) -> TensorSpec:
    """Declare the pixels of a picture: 8 bits for an encoded one, else its dtype."""
    if image.dtype is DataType.STRING:
        return tensor(name, DataType.UINT8, *shape, 3)
    return tensor(name, image.dtype, *shape, (image.shape or (-1,))[-1])


def image_to_tensor(
    image: Array,
    *,
    height: int,
    width: int,
    layout: str,
    colors: str,
    dtype: str,
    fit: str,
    mean: tuple[float, ...],
    scale: tuple[float, ...],
) -> Arrays:
    """Convert pictures to a model's input; see `registry.TABLE`."""
    channels = _channels(colors)
    several = pictures(image, channels)
    wanted = np.dtype(np.uint8 if dtype == "uint8" else np.float32)
    batch = room(len(several), height, width, channels, wanted)
    for at, pixels in enumerate(several):
        same = fitted(_coloured(pixels, colors), height, width, fit)
        batch[at] = same.clip(0, 255) if dtype == "uint8" and same.dtype != np.uint8 else same
    if dtype != "uint8":
        _normalise(batch, mean, scale)
    return {"tensor": _laid_out(batch, layout)}


def tensor_specs(
    inputs: Specs, *, height: int, width: int, layout: str, colors: str, dtype: str, **_: object
) -> Specs:
    """Give the specs of `image_to_tensor`'s outputs."""
    sizes = {"N": _count(inputs["image"]), "H": height, "W": width, "C": _channels(colors)}
    shape = tuple(sizes[axis] for axis in layout)
    found = tensor("tensor", DataType.UINT8 if dtype == "uint8" else DataType.FP32, *shape)
    return {found.name: found}


def _count(image: TensorSpec) -> int:
    """Give the number of pictures of an input, as far as its shape is known."""
    if image.shape is None:
        return -1
    if image.dtype is DataType.STRING:
        return image.shape[0] if image.shape else 1
    return image.shape[0] if len(image.shape) == 4 else 1


def wrong_together(*, dtype: str, mean: object, scale: object, **_: object) -> str:
    """Give a fault if an integer dtype has a mean or scale; else an empty text."""
    is_plain = (mean, scale) == ((0.0,), (1.0,))
    return "" if dtype == "float" or is_plain else 'mean and scale are for "dtype": "float"'


def fitted(pixels: Array, height: int, width: int, fit: str) -> Array:
    """Fit a picture to a size by `STRETCH`, `CROP` or `PAD`."""
    if fit == CROP:
        return sized(_middle(pixels, height, width), height, width)
    if fit == PAD:
        return _padded(pixels, height, width)
    return sized(pixels, height, width)


def _middle(pixels: Array, height: int, width: int) -> Array:
    """Cut out the largest part in the middle with the aspect ratio of `height` x `width`."""
    rows, columns = pixels.shape[:2]
    high = max(1, min(rows, round(columns * height / width)))
    wide = max(1, min(columns, round(rows * width / height)))
    top, left = (rows - high) // 2, (columns - wide) // 2
    return pixels[top : top + high, left : left + wide]


def _padded(pixels: Array, height: int, width: int) -> Array:
    rows, columns = pixels.shape[:2]
    share = min(height / rows, width / columns)
    high, wide = max(1, round(rows * share)), max(1, round(columns * share))
    found: Array = room(1, height, width, pixels.shape[2], pixels.dtype)[0]
    found[:] = 0
    top, left = (height - high) // 2, (width - wide) // 2
    found[top : top + high, left : left + wide] = sized(pixels, high, wide)
    return found


def _channels(colors: str) -> int:
    return 1 if colors == "GREY" else 3


def _coloured(pixels: Array, colors: str) -> Array:
    """Convert pixels to the wanted channels."""
    channels = _channels(colors)
    if pixels.shape[2] > channels:
        # ITU-R 601, as in Pillow.
        grey = pixels @ np.array((0.299, 0.587, 0.114), np.float32)
        return np.asarray(grey[..., np.newaxis].astype(pixels.dtype))
    if pixels.shape[2] < channels:
        return np.broadcast_to(pixels, (*pixels.shape[:2], channels))
    return np.asarray(pixels[..., ::-1]) if colors == "BGR" else pixels


def _normalise(batch: Array, mean: tuple[float, ...], scale: tuple[float, ...]) -> None:
    """Subtract `mean` and divide by `scale`, for each channel, in place."""
    if any(mean):
        batch -= np.array(mean, np.float32)
    if any(each != 1 for each in scale):
        batch /= np.array(scale, np.float32)


def _laid_out(batch: Array, layout: str) -> Array:
    axes = tuple("NHWC".index(axis) for axis in layout)
    return np.ascontiguousarray(batch.transpose(axes))
