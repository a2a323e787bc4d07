"""Steps that decode pictures, resize them, convert them to tensors, draw on them and encode them.

Steps take encoded pictures or pixels, and give pixels, PNG or JPEG. Pixels are rows x columns x
channels, 1 or 3 of them, in the order red, green, blue.
"""

from typing import Any

import numpy as np

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs, TensorSpec, tensor
from ie_serving.wire.image import decode, encoded, resized
from ie_serving.wire.image.draw import PALETTE, drawn

STRETCH, CROP, PAD = "stretch", "crop", "pad"
"""Ways to fit a picture to another shape: stretched, cut to the middle, or with black edges."""

COLOURS = ("RGB", "BGR", "GREY")

MOST_PICTURES = 256
"""Most pictures of one tensor; more are refused, since each may take a second to decode."""
CHANNELS = (1, 3)
MOST_BOXES = 1024
"""Most boxes that are cut out or drawn; more are refused."""
PIXELS = "pixels"
"""Format of a picture that is not encoded."""


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
    if dtype == "float" or is_plain:
        return ""
    return 'mean and scale are for "dtype": "float"; leave them out'


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


def pictures(image: Array, channels: int = 3) -> list[Array]:
    """Give the pictures of an input, each as pixels.

    Args:
        image: one encoded picture or a list, as bytes; or pixels of one, or of several of one size.
        channels: channels of decoded pictures; pixels keep theirs.

    Raises:
        InvalidTensor: not a picture, or too many.
        QueueFull, RequestTooLarge: the budget of bytes has no room for them.
    """
    several = _encoded(image) if image.dtype.kind == "O" else _images_of(image)
    if len(several) > MOST_PICTURES:
        raise InvalidTensor(f"image: {len(several)} pictures; at most {MOST_PICTURES} are taken")
    if image.dtype.kind != "O":
        return several
    return [_decoded(data, at, channels) for at, data in enumerate(several)]


def _encoded(image: Array) -> list[Any]:
    if image.ndim > 1:
        raise InvalidTensor(
            f"image has shape {list(image.shape)}: expected one encoded picture, or a list of them"
        )
    return list(image.reshape(-1))


def _images_of(image: Array) -> list[Array]:
    if image.ndim not in (3, 4) or image.shape[-1] not in CHANNELS or not image.size:
        raise InvalidTensor(
            f"image has shape {list(image.shape)}: expected pixels of rows x columns x 3 or 1"
        )
    return list(image if image.ndim == 4 else image[np.newaxis])


def _decoded(data: bytes, at: int, channels: int) -> Array:
    try:
        return decode(data, channels)
    except InvalidTensor as error:
        raise InvalidTensor(f"image {at} {error}") from None


def only(image: Array, channels: int = 3) -> Array:
    """Give the one picture of an input. Raises: InvalidTensor, QueueFull, RequestTooLarge."""
    several = pictures(image, channels)
    if len(several) != 1:
        raise InvalidTensor(f"image: {len(several)} pictures; expected one")
    return several[0]


def sized(pixels: Array, height: int, width: int) -> Array:
    """Resize a picture, keeping its dtype. Raises: InvalidTensor."""
    if not pixels.size:
        raise InvalidTensor(
            f"a picture of {list(pixels.shape[:2])} pixels cannot be resized"
            ": send a picture of at least 1 x 1 pixel"
        )
    found = resized(pixels, height, width)
    if found.dtype == pixels.dtype:
        return found
    return (found.round() if pixels.dtype.kind == "u" else found).astype(pixels.dtype)


def room(
    count: int, height: int, width: int, channels: int, dtype: "np.dtype[np.generic]"
) -> Array:
    """Allocate an array for pictures in the byte budget. Raises: QueueFull, RequestTooLarge."""
    return BUDGET.empty((count, height, width, channels), dtype)


def crop(image: Array, boxes: Array, *, height: int, width: int, margin: float) -> Arrays:
    """Cut boxes out of a picture, all in one size; see `registry.TABLE`."""
    pixels = only(image)
    rectangles = rectangles_of(pixels, boxes, margin)
    found = room(len(rectangles), height, width, pixels.shape[2], pixels.dtype)
    for at, (left, top, right, bottom) in enumerate(rectangles):
        found[at] = sized(pixels[top:bottom, left:right], height, width)
    return {"items": found, "count": np.array(len(rectangles), np.int64)}


def crop_specs(inputs: Specs, *, height: int, width: int, **_: object) -> Specs:
    """Give the specs of `crop`'s outputs."""
    items = pixels_spec("items", inputs["image"], -1, height, width)
    return {"items": items, "count": tensor("count", DataType.INT64)}


def draw(
    image: Array,
    boxes: Array,
    labels: Array | None = None,
    scores: Array | None = None,
    *,
    format: str,
    line: int,
) -> Arrays:
    """Draw boxes with their labels and scores; see `registry.TABLE`."""
    pixels = only(image)
    if pixels.dtype != np.uint8:
        raise InvalidTensor(
            f"image is {pixels.dtype}; expected uint8: give the picture as decoded, not as scaled"
        )
    rectangles = rectangles_of(pixels, boxes, 0.0)
    for each in (labels, scores):
        if each is not None and each.size != len(rectangles):
            raise InvalidTensor(
                f"{each.size} labels or scores came for {len(rectangles)} boxes; expected as many"
                " of each: give outputs of one step"
            )
    texts = [_text(at, labels, scores) for at in range(len(rectangles))]
    colours = _colours(labels, len(rectangles))
    found = drawn(pixels, rectangles, texts, colours, line)
    if format == PIXELS:
        return {"image": found}
    return {"image": np.array(encoded(found, format), np.object_)}


def draw_specs(inputs: Specs, *, format: str, **_: object) -> Specs:
    """Give the specs of `draw`'s outputs."""
    if format == PIXELS:
        return {"image": tensor("image", DataType.UINT8, -1, -1, 3)}
    return {"image": tensor("image", DataType.STRING)}


def rectangles_of(pixels: Array, boxes: Array, margin: float) -> list[tuple[int, int, int, int]]:
    """Give the pixels of each box: left, top, right, bottom; each has one pixel at least.

    Args:
        pixels: pixels of the picture.
        boxes: float [n, 4], as shares of the picture.
        margin: added to each box, as a share of its sides.

    Raises:
        InvalidTensor: too many boxes, or coordinates that are not numbers.
    """
    flat = boxes.reshape(-1, 4) if boxes.ndim != 2 else boxes
    if len(flat) > MOST_BOXES:
        raise InvalidTensor(f"boxes: {len(flat)} came; at most {MOST_BOXES} are taken")
    if not np.isfinite(flat).all():
        raise InvalidTensor("boxes hold NaN or infinity; expected shares of the picture, 0 to 1")
    rows, columns = pixels.shape[:2]
    extent = np.array((columns, rows, columns, rows))
    sides = flat[:, 2:] - flat[:, :2]
    wider = flat + margin * np.concatenate((-sides, sides), axis=1)
    rectangles = (wider.clip(0, 1) * extent).round().astype(np.int64)
    rectangles[:, :2] = np.minimum(rectangles[:, :2], extent[:2] - 1)
    rectangles[:, 2:] = np.maximum(rectangles[:, 2:], rectangles[:, :2] + 1)
    return [(left, top, right, bottom) for left, top, right, bottom in rectangles.tolist()]


def _text(at: int, labels: Array | None, scores: Array | None) -> str:
    label = labels.reshape(-1)[at].decode("utf-8", "replace") if labels is not None else ""
    score = f"{float(scores.reshape(-1)[at]):.2f}" if scores is not None else ""
    return f"{label} {score}".strip()


def _colours(labels: Array | None, count: int) -> list[tuple[int, int, int]]:
    """Give each box a colour, the same for equal labels."""
    if labels is None:
        return [PALETTE[0]] * count
    order = {label: at for at, label in enumerate(sorted({*labels.reshape(-1)}))}
    return [PALETTE[order[label] % len(PALETTE)] for label in labels.reshape(-1)]
