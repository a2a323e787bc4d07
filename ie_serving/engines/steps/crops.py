"""Steps that cut boxes out of a picture, or draw them into it."""

import numpy as np

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, Arrays, DataType, Specs
from ie_serving.engines.steps.declaration import tensor
from ie_serving.engines.steps.images import pixels_spec
from ie_serving.engines.steps.pictures import only, room, sized
from ie_serving.wire.image.draw import PALETTE, drawn
from ie_serving.wire.image.pictures import encoded

MOST_BOXES = 1024
"""Most boxes that are cut out or drawn; more are refused."""

PIXELS = "pixels"
"""Format of a picture that is not encoded."""


def crop(image: Array, boxes: Array, *, height: int, width: int, margin: float) -> Arrays:
    """Cut boxes out of a picture, all in one size; see `registry.TABLE`."""
    pixels = only(image)
    places = places_of(pixels, boxes, margin)
    found = room(len(places), height, width, pixels.shape[2], pixels.dtype)
    for at, (left, top, right, bottom) in enumerate(places):
        found[at] = sized(pixels[top:bottom, left:right], height, width)
    return {"items": found, "count": np.array(len(places), np.int64)}


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
        raise InvalidTensor(f"image is {pixels.dtype}; boxes are drawn on pixels of uint8")
    places = places_of(pixels, boxes, 0.0)
    for each in (labels, scores):
        if each is not None and each.size != len(places):
            raise InvalidTensor(f"{each.size} labels or scores came for {len(places)} boxes")
    texts = [_text(at, labels, scores) for at in range(len(places))]
    colours = _colours(labels, len(places))
    found = drawn(pixels, places, texts, colours, line)
    if format == PIXELS:
        return {"image": found}
    return {"image": np.array(encoded(found, format), np.object_)}


def draw_specs(inputs: Specs, *, format: str, **_: object) -> Specs:
    """Give the specs of `draw`'s outputs."""
    if format == PIXELS:
        return {"image": tensor("image", DataType.UINT8, -1, -1, 3)}
    return {"image": tensor("image", DataType.STRING)}


def places_of(pixels: Array, boxes: Array, margin: float) -> list[tuple[int, int, int, int]]:
    """Give the pixels of each box: left, top, right, bottom; each has one pixel at least.

    Args:
        pixels: of the picture.
        boxes: float [n, 4], as shares of the picture.
        margin: added to each box, as a share of its sides.

    Raises:
        InvalidTensor: too many boxes, or coordinates that are not numbers.
    """
    flat = boxes.reshape(-1, 4) if boxes.ndim != 2 else boxes
    if len(flat) > MOST_BOXES:
        raise InvalidTensor(f"boxes: {len(flat)} came; at most {MOST_BOXES} are taken")
    if not np.isfinite(flat).all():
        raise InvalidTensor("boxes hold a number that is none (NaN) or infinite")
    rows, columns = pixels.shape[:2]
    extent = np.array((columns, rows, columns, rows))
    sides = flat[:, 2:] - flat[:, :2]
    wider = flat + margin * np.concatenate((-sides, sides), axis=1)
    places = (wider.clip(0, 1) * extent).round().astype(np.int64)
    places[:, :2] = np.minimum(places[:, :2], extent[:2] - 1)
    places[:, 2:] = np.maximum(places[:, 2:], places[:, :2] + 1)
    return [(left, top, right, bottom) for left, top, right, bottom in places.tolist()]


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
