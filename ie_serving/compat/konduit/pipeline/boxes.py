"""Konduit's steps for boxes: made of what detectors give, chosen, cut out, drawn.

A box is `@x1`, `@y1`, `@x2`, `@y2`, or `@cx`, `@cy`, `@w`, `@h`, as shares of the picture's width
and height, with `label` and `probability`.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ie_serving.compat.konduit.data import Data, Image
from ie_serving.compat.konduit.pipeline.built_in import RunStep, kept, size_of
from ie_serving.compat.konduit.pipeline.definition import PipelineStep
from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.core.values.tensors import Array, Arrays
from ie_serving.engines.python.asking import NamedModels
from ie_serving.engines.steps import boxes
from ie_serving.engines.steps.images import only, rectangles_of, room, sized
from ie_serving.wire.image import encoded
from ie_serving.wire.image.draw import Colour, colour_of, drawn

MOST: Final = 1000
"""Boxes of one picture."""
BOXES: Final = "bounding_boxes"
"""Name of a list of boxes where a step gives none."""
DEFAULT_COLOUR: Final = "lime"
"""Colour of boxes whose label has none. Source: DrawBoundingBoxStep."""
LARGEST: Final = 16_384
"""Most pixels of a cropped side, and of the crop's distance from the picture."""
CORNERS: Final = ("@x1", "@y1", "@x2", "@y2")
CENTRE: Final = ("@cx", "@cy", "@w", "@h")


def ssd(step: PipelineStep) -> RunStep:
    """Make boxes of an SSD's output. Source: SSDToBoundingBoxStep and its runner."""
    keys = step.keys
    named = keys.get("classLabels") or []
    threshold = keys.get("threshold", 0.5)
    if not isinstance(named, list) or not isinstance(threshold, int | float):
        raise LoadFailed("expected classLabels as a list, and threshold as a number")
    taken = ("detection_boxes", "detection_scores", "detection_classes")

    def run(data: Data, _: NamedModels) -> Data:
        missing = [name for name in taken[: 3 if named else 2] if name not in data]
        if missing:
            raise InvalidRequest(
                f'"{missing[0]}" is missing; expected it among the outputs of an SSD'
            )
        corners, scores = (np.asarray(data[name]) for name in taken[:2])
        classes = np.asarray(data[taken[2]]) if named else np.zeros_like(scores)
        found = boxes.ssd_boxes(
            boxes=corners,
            scores=scores,
            classes=classes,
            threshold=float(threshold),
            overlap=1.0,  # Konduit suppresses none
            most=MOST,
            labels=("", *map(str, named)),  # its classes are counted from 1
        )
        made = _boxes(found, is_named=bool(named))
        return {**kept(keys, data, *taken[:2]), keys.get("outputName") or BOXES: made}

    return run


def _boxes(found: Arrays, *, is_named: bool) -> list[dict[str, Any]]:
    several = zip(found["boxes"].tolist(), found["scores"].tolist(), found["labels"], strict=True)
    return [
        {
            **dict(zip(("@x1", "@y1", "@x2", "@y2"), corners, strict=True)),
            "label": label.decode() if is_named else None,
            "probability": score,
        }
        for corners, score, label in several
    ]


def box_filter(step: PipelineStep) -> RunStep:
    """Keep boxes of some classes. Source: BoundingBoxFilterStep."""
    wanted = step.keys["classesToKeep"]
    if not isinstance(wanted, list):
        raise LoadFailed("classesToKeep: expected a list of labels")
    name = step.keys.get("inputName") or BOXES

    def run(data: Data, _: NamedModels) -> Data:
        given = data.get(name)
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            raise InvalidRequest(
                f'"{name}" is no list of boxes; expected one, as a step that detects gives it'
            )
        found = [each for each in given if each.get("label") in wanted]
        return {**kept(step.keys, data, name), step.keys.get("outputName") or name: found}

    return run


def yolo(step: PipelineStep) -> RunStep:
    """Make boxes of the output of a YOLO of version 2. Source: YoloToBoundingBoxStep.

    It is [1, anchors * (5 + classes), rows, columns], or the last three as rows, columns and the
    first, behind its activations: place within the cell, size in cells, certainty, classes.
    """
    keys = step.keys
    names = keys.get("classLabels") or []
    number = keys.get("numClasses") or (len(names) if isinstance(names, list) else 0)
    shares = [keys.get("threshold", 0.5), keys.get("nmsThreshold", 0.5)]
    if not isinstance(names, list) or not isinstance(number, int) or number < 1:
        raise LoadFailed("expected classLabels as a list, or numClasses from 1 on")
    if not all(isinstance(each, int | float) and 0 <= each <= 1 for each in shares):
        raise LoadFailed("threshold and nmsThreshold: expected shares from 0 to 1")

    def run(data: Data, _: NamedModels) -> Data:
        rows = _cells(_array_of(data, keys.get("input")), number, nchw=keys.get("nchw", True))
        sure = rows[rows[:, 4] >= shares[0]]
        half = sure[:, 2:4] / 2
        left, top = (sure[:, :2] - half).T
        right, bottom = (sure[:, :2] + half).T
        found = boxes.ssd_boxes(
            boxes=np.stack((top, left, bottom, right), axis=-1),
            scores=sure[:, 5:].max(axis=1, initial=0.0),
            classes=sure[:, 5:].argmax(axis=1),
            threshold=0.0,  # its certainty has counted
            overlap=float(shares[1]),
            most=MOST,
            labels=tuple(map(str, names)),
        )
        made = [_centred(each) for each in _boxes(found, is_named=True)]
        return {**kept(keys, data), keys.get("output") or BOXES: made}

    return run


def _centred(box: Mapping[str, Any]) -> dict[str, Any]:
    left, top, right, bottom = (box[key] for key in CORNERS)
    coordinates = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
    rest = {key: value for key, value in box.items() if key not in CORNERS}
    return {**dict(zip(CENTRE, coordinates, strict=True)), **rest}


def _array_of(data: Data, name: str | None) -> Array:
    arrays = [each for each, value in data.items() if isinstance(value, np.ndarray)]
    chosen = name or (arrays[0] if len(arrays) == 1 else "")
    if chosen not in arrays:
        there = ", ".join(data) or "nothing"
        raise InvalidRequest(f'input: "{chosen}" is no array; name one of {there}')
    return np.asarray(data[chosen])


def _cells(given: Array, classes: int, *, nchw: bool) -> Array:
    """Give a row for each box: centre and size as shares of the picture, certainty, classes."""
    array = given if nchw or given.ndim != 4 else given.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.shape[0] != 1 or array.shape[1] % (5 + classes):
        raise InvalidRequest(
            f"the output of a YOLO has shape {list(given.shape)}; expected one picture, and"
            f" channels divisible by 5 + {classes} classes"
        )
    _, channels, rows, columns = array.shape
    cells = array.reshape(channels // (5 + classes), 5 + classes, rows, columns)
    cells = cells.transpose(0, 2, 3, 1).astype(np.float32)
    at = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1)
    grid = np.array((columns, rows), np.float32)
    coordinates = np.concatenate(((cells[..., :2] + at) / grid, cells[..., 2:4] / grid), axis=-1)
    return np.concatenate((coordinates, cells[..., 4:]), axis=-1).reshape(-1, 5 + classes)


# -- pictures with boxes ------------------------------------------------------------------------


def extracted(step: PipelineStep) -> RunStep:
    """Cut boxes out of a picture, as pictures. Source: ExtractBoundingBoxStep and its runner."""
    keys = step.keys
    size = _resizes(keys)

    def run(data: Data, _: NamedModels) -> Data:
        name, given = _picture_of(data, keys.get("imageName")), _named_boxes(data, keys)
        pixels = only(np.array(data[name].data, object))
        several = data[given] if isinstance(data[given], list) else [data[given]]
        made = []
        for left, top, right, bottom in rectangles_of(pixels, _corners(several), 0.0):
            cut = pixels[top:bottom, left:right]
            made.append(Image("PNG", encoded(sized(cut, *size) if size else cut, "png")))
        word = "keepOtherFields" if "keepOtherFields" in keys else "keepOtherValues"
        others = kept(keys, data, name, given, word=word)
        found = made if isinstance(data[given], list) else made[0]
        return {**others, keys.get("outputName") or name: found}

    return run


def _resizes(keys: Mapping[str, Any]) -> tuple[int, int] | None:
    if keys.get("resizeH") is None and keys.get("resizeW") is None:
        return None
    return size_of(keys, "resizeH"), size_of(keys, "resizeW")


def draws(step: PipelineStep) -> RunStep:
    """Draw boxes on a picture. Source: DrawBoundingBoxStep."""
    keys = step.keys
    line = keys.get("lineThickness", 1)
    if not isinstance(line, int) or not 1 <= line <= 100:
        raise LoadFailed("lineThickness: expected a number of pixels from 1 to 100")
    if keys.get("scale", "NONE") != "NONE" or keys.get("drawCropRegion"):
        raise LoadFailed("scale and drawCropRegion are not supported: leave them out")
    colours = {str(k): _colour(v) for k, v in (keys.get("classColors") or {}).items()}
    plain = _colour(keys.get("color") or DEFAULT_COLOUR)

    def run(data: Data, _: NamedModels) -> Data:
        name, given = _picture_of(data, keys.get("imageName")), _named_boxes(data, keys)
        pixels = only(np.array(data[name].data, object))
        several = data[given] if isinstance(data[given], list) else [data[given]]
        found = drawn(
            pixels,
            rectangles_of(pixels, _corners(several), 0.0),
            [_text(each, keys) for each in several],
            [colours.get(str(each.get("label")), plain) for each in several],
            line,
        )
        return {**data, name: Image("PNG", encoded(found, "png"))}

    return run


def _colour(given: object) -> Colour:
    try:
        return colour_of(str(given))
    except ValueError as error:
        raise LoadFailed(
            f'{given!r} is no colour; expected a name of HTML, or "#rrggbb"'
        ) from error


def _text(box: Mapping[str, Any], keys: Mapping[str, Any]) -> str:
    label = str(box.get("label") or "") if keys.get("drawLabel") else ""
    score = box.get("probability") if keys.get("drawProbability") else None
    return f"{label} {score:.2f}".strip() if isinstance(score, int | float) else label


def cropped(step: PipelineStep) -> RunStep:
    """Cut one region out of a picture. Source: ImageCropStep; what lies outside becomes black."""
    keys = step.keys
    given = [key for key in ("cropName", "cropPoints", "cropBox") if keys.get(key) is not None]
    if len(given) != 1:
        raise LoadFailed("expected one of cropName, cropPoints and cropBox")

    def run(data: Data, _: NamedModels) -> Data:
        name = _picture_of(data, keys.get("imageName"))
        pixels = only(np.array(data[name].data, object))
        region = data.get(keys["cropName"]) if given == ["cropName"] else keys[given[0]]
        corners = _points(region) if isinstance(region, list) else _corners([region])[0]
        extent = np.array(pixels.shape[1::-1] * 2)
        corners = corners if keys.get("coordsArePixels") else corners * extent
        return {**data, name: Image("PNG", encoded(_cut(pixels, corners), "png"))}

    return run


def _cut(pixels: Array, corners: Array) -> Array:
    if not np.isfinite(corners).all() or np.abs(corners).max() > LARGEST:
        raise InvalidRequest(
            f"the region to crop has NaN, infinity or a number beyond {LARGEST}: send corners"
            " within the picture"
        )
    left, top, right, bottom = corners.round().astype(int).tolist()
    if not 0 < right - left <= LARGEST or not 0 < bottom - top <= LARGEST:
        raise InvalidRequest(
            f"the region to crop is {right - left} x {bottom - top} pixels; expected 1 to {LARGEST}"
            " on each side: send corners of such a region"
        )
    rows, columns = pixels.shape[:2]
    x, y = slice(max(left, 0), min(right, columns)), slice(max(top, 0), min(bottom, rows))
    made = room(1, bottom - top, right - left, pixels.shape[2], pixels.dtype)[0]
    made[:] = 0
    part = pixels[y, x] if x.start < x.stop and y.start < y.stop else pixels[:0, :0]
    at = (max(-top, 0), max(-left, 0))
    made[at[0] : at[0] + part.shape[0], at[1] : at[1] + part.shape[1]] = part
    return np.asarray(made)


def _points(given: list[Any]) -> Array:
    try:
        (left, top), (right, bottom) = (each["@Coords"][:2] for each in given)
        return np.array((left, top, right, bottom), float)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest("expected two points, which have @Coords, as a region") from error


def _corners(several: list[Any]) -> Array:
    """Give boxes as left, top, right, bottom: [n, 4]. Raises: InvalidRequest."""
    found = np.empty((len(several), 4), float)
    for at, box in enumerate(several):
        try:
            if CENTRE[0] in box:
                x, y, width, height = (float(box[key]) for key in CENTRE)
                found[at] = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            else:
                found[at] = [float(box[key]) for key in CORNERS]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"{box!r} is no box, which has {', '.join(CORNERS)} or {', '.join(CENTRE)}"[:500]
            ) from error
    return found


def _picture_of(data: Data, name: str | None) -> str:
    pictures = [n for n, value in data.items() if isinstance(value, Image)]
    chosen = name or (pictures[0] if len(pictures) == 1 else "")
    if chosen not in pictures:
        there = ", ".join(pictures) or "none"
        raise InvalidRequest(f'imageName: "{chosen}" is no picture; name one of those: {there}')
    return chosen


def _named_boxes(data: Data, keys: Mapping[str, Any]) -> str:
    """Name what holds the boxes: what `bboxName` says, or the one thing that does."""
    found = [name for name, value in data.items() if _has_boxes(value)] or [BOXES]
    chosen = keys.get("bboxName") or found[0]
    if chosen not in data or (len(found) > 1 and not keys.get("bboxName")):
        raise InvalidRequest(f"bboxName: name one of those that have boxes: {', '.join(found)}")
    return str(chosen)


def _has_boxes(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping) and (CORNERS[0] in first or CENTRE[0] in first)
