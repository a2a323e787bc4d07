"""Steps that decode the outputs of detectors to lists of boxes, and filter such lists.

A list of boxes is `boxes`, float [n, 4]: left, top, right and bottom as shares of the picture's
width and height; `scores`, float [n]; `classes`, int64 [n]; `labels`, string [n], names of the
classes, or numbers as text; and `count`, int64, the number of boxes. The best score comes first.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array, Arrays, DataType, tensor
from ie_serving.engines.steps.declaration import fixed
from ie_serving.engines.steps.texts import named, probabilities

LIST = fixed(
    tensor("boxes", DataType.FP32, -1, 4),
    tensor("scores", DataType.FP32, -1),
    tensor("classes", DataType.INT64, -1),
    tensor("labels", DataType.STRING, -1),
    tensor("count", DataType.INT64),
)
"""The outputs of these steps."""

GRID = "grid"
"""Form of an output that has the cells of a grid instead of boxes."""

COLUMNS = 7
"""Picture, class, score, left, top, right, bottom. Source: OpenVINO's DetectionOutput."""

BEYOND_INT64 = 2.0**63


def ssd_boxes(
    detections: Array | None = None,
    boxes: Array | None = None,
    scores: Array | None = None,
    classes: Array | None = None,
    *,
    threshold: float,
    overlap: float,
    most: int,
    labels: tuple[str, ...],
) -> Arrays:
    """Decode an SSD's output to boxes; see `registry.TABLE`."""
    if detections is not None:
        found = _of_detections(detections)
    else:
        assert boxes is not None and scores is not None and classes is not None
        found = _of_tensors(boxes, scores, classes)
    return _best(*found, threshold, overlap, most, labels)


def _of_detections(detections: Array) -> tuple[Array, Array, Array]:
    if detections.shape[-1:] != (COLUMNS,):
        raise InvalidTensor(
            f"detections has shape {list(detections.shape)}; expected {COLUMNS} columns: picture,"
            " class, score, left, top, right, bottom"
        )
    rows = detections.reshape(-1, COLUMNS)
    ends = np.flatnonzero(rows[:, 0] < 0)  # a negative picture ends the list
    rows = rows[: ends[0]] if ends.size else rows
    others = rows[rows[:, 0] != 0, 0]
    if others.size:
        raise InvalidTensor(
            f"detections are of picture {others[0]:g}; send one picture at a time, which is 0"
        )
    return rows[:, 3:], rows[:, 2], rows[:, 1]


def _of_tensors(boxes: Array, scores: Array, classes: Array) -> tuple[Array, Array, Array]:
    """Decode the tensors of TensorFlow's detectors: top, left, bottom, right; for one picture."""
    if not boxes.size == 4 * scores.size == 4 * classes.size or boxes.shape[-1:] != (4,):
        shapes = ", ".join(str(list(each.shape)) for each in (boxes, scores, classes))
        raise InvalidTensor(f"boxes, scores, classes: expected [n, 4], [n], [n]; came {shapes}")
    if boxes.ndim > 2 and boxes.shape[0] > 1:
        raise InvalidTensor("boxes are of several pictures; send one at a time")
    return boxes.reshape(-1, 4)[:, (1, 0, 3, 2)], scores.reshape(-1), classes.reshape(-1)


def yolo_boxes(
    output: Array,
    *,
    form: str,
    height: int,
    width: int,
    anchors: Sequence[tuple[float, float]],
    threshold: float,
    overlap: float,
    most: int,
    labels: tuple[str, ...],
) -> Arrays:
    """Decode a YOLO's output to boxes; see `registry.TABLE`."""
    coordinates, certain, classes = _FORMS[form](output, anchors)
    scores = classes.max(axis=1, initial=0.0) * certain
    # Most of the thousands of boxes score too low: only the others are decoded.
    sure = np.flatnonzero(scores >= threshold)
    centres, sizes = coordinates[sure, :2], coordinates[sure, 2:]
    corners = np.concatenate((centres - sizes / 2, centres + sizes / 2), axis=1)
    if form != GRID:
        corners = corners / np.array((width, height, width, height), np.float32)
    return _best(corners, scores[sure], classes[sure].argmax(1), threshold, overlap, most, labels)


def wrong_anchors(*, form: str, anchors: object, **_: object) -> str:
    """Give a fault unless exactly the form `grid` has anchors; else an empty text."""
    if form == GRID:
        return "" if anchors else 'anchors: missing; "form": "grid" has them'
    return 'anchors are for "form": "grid"; leave them out' if anchors else ""


FoundBoxes = tuple[Array, Array | float, Array]
"""Centre and size of each box, [n, 4]; its confidence; and that of each class, [n, classes]."""


def _of_version_8(output: Array, _: object) -> FoundBoxes:
    """Decode [1, 4 + classes, n]; a box has no confidence apart from that of its classes."""
    rows = _table(output, 5, axis=1).T
    return rows[:, :4], 1.0, rows[:, 4:]


def _of_version_5(output: Array, _: object) -> FoundBoxes:
    """Decode [1, n, 5 + classes]."""
    rows = _table(output, 6, axis=2)
    return rows[:, :4], rows[:, 4], rows[:, 5:]


def _table(output: Array, least: int, axis: int) -> Array:
    if output.ndim != 3 or output.shape[0] != 1:
        raise InvalidTensor(f"output has shape {list(output.shape)}; expected [1, .., ..]")
    if output.shape[axis] < least:
        raise InvalidTensor(
            f"output has {output.shape[axis]} numbers for each box; this form has {least} at least"
        )
    return np.asarray(output[0])


def _of_grid(output: Array, anchors: Sequence[tuple[float, float]]) -> FoundBoxes:
    """Decode the cells of version 2: [1, anchors * (5 + classes), rows, columns], as shares."""
    number = len(anchors)
    if output.ndim != 4 or output.shape[0] != 1 or output.shape[1] % number:
        raise InvalidTensor(
            f"output has shape {list(output.shape)}; expected [1, channels, rows, columns] with"
            f" channels divisible by the {number} anchors"
        )
    _, channels, rows, columns = output.shape
    if channels // number < 6:
        raise InvalidTensor(
            f"output has {channels // number} channels for each anchor; expected at least 6: a box,"
            " its certainty, and a score for each class"
        )
    cells = output[0].reshape(number, channels // number, rows, columns).transpose(0, 2, 3, 1)
    at = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1)
    grid = np.array((columns, rows), np.float32)
    priors = np.array(anchors, np.float32)[:, np.newaxis, np.newaxis]
    with np.errstate(over="ignore"):  # an infinite size is cut to the picture
        sizes = np.exp(cells[..., 2:4]) * priors / grid
    coordinates = np.concatenate(
        ((_logistic(cells[..., :2]) + at) / grid, sizes.clip(0, 2)), axis=-1
    )
    certain, classes = _logistic(cells[..., 4]), probabilities(cells[..., 5:])
    return coordinates.reshape(-1, 4), certain.reshape(-1), classes.reshape(-1, classes.shape[-1])


def _logistic(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)))


_FORMS: Mapping[str, Callable[[Array, Sequence[tuple[float, float]]], FoundBoxes]] = {
    "v8": _of_version_8,
    "v5": _of_version_5,
    GRID: _of_grid,
}


def filter_boxes(
    boxes: Array,
    scores: Array,
    classes: Array,
    labels: Array,
    *,
    threshold: float,
    keep: tuple[str, ...],
    most: int,
) -> Arrays:
    """Choose boxes by label and score; see `registry.TABLE`."""
    if not len(boxes) == len(scores) == len(classes) == len(labels):
        raise InvalidTensor(
            f"there are {len(boxes)} boxes, {len(scores)} scores, {len(classes)} classes and"
            f" {len(labels)} labels; expected as many of each: give outputs of one step"
        )
    wanted = scores >= threshold
    if keep:
        wanted &= np.isin(labels, [each.encode() for each in keep])
    indices = np.flatnonzero(wanted)
    return _box_outputs(
        boxes, scores, classes, labels, indices[_best_first(scores[indices])][:most]
    )


def _best(
    boxes: Array,
    scores: Array,
    classes: Array,
    threshold: float,
    overlap: float,
    most: int,
    labels: tuple[str, ...],
) -> Arrays:
    """Give the list of boxes above the threshold, each cut at the edges of the picture."""
    # Drops infinite boxes, and class numbers that int64 does not hold.
    plain = np.isfinite(boxes).all(axis=1) & (np.abs(classes) < BEYOND_INT64)
    sure = np.flatnonzero((scores >= threshold) & plain)
    boxes = boxes[sure].clip(0, 1).astype(np.float32)
    scores, classes = scores[sure].astype(np.float32), classes[sure].astype(np.int64)
    if overlap < 1:
        indices = kept(boxes, scores, classes, overlap, most)
    else:
        indices = _best_first(scores)[:most]
    return _box_outputs(boxes, scores, classes, named(classes, labels), indices)


def _best_first(scores: Array) -> Array:
    return np.argsort(-scores, kind="stable")


def _box_outputs(
    boxes: Array, scores: Array, classes: Array, labels: Array, indices: Array
) -> Arrays:
    return {
        "boxes": boxes[indices].astype(np.float32),
        "scores": scores[indices].astype(np.float32),
        "classes": classes[indices],
        "labels": labels[indices],
        "count": np.array(len(indices), np.int64),
    }


def kept(
    boxes: Array, scores: Array, groups: Array, most_overlap: float, most: int
) -> npt.NDArray[np.intp]:
    """Apply non-maximum suppression: drop a box that overlaps a better one of its group too much.

    Args:
        boxes: float [n, 4], left, top, right, bottom.
        scores: float [n].
        groups: [n], the class of each; boxes of different classes do not suppress each other.
        most_overlap: largest intersection of two boxes, as a share of their union.
        most: most boxes that are kept, which bounds the time too.

    Returns:
        Indices of the kept boxes, the best first.
    """
    found: list[int] = []
    left = np.argsort(-scores, kind="stable")
    while left.size and len(found) < most:
        best, left = left[0], left[1:]
        found.append(int(best))
        rivals = overlaps(boxes[best], boxes[left]) > most_overlap
        left = left[~(rivals & (groups[left] == groups[best]))]
    return np.array(found, np.intp)


def overlaps(box: Array, others: Array) -> Array:
    """Give intersection over union of `box` with each of the others: float [n]."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    both = np.prod(sides.clip(0), axis=1)
    union = _areas(box[np.newaxis]) + _areas(others) - both
    return np.asarray(np.divide(both, union, out=np.zeros_like(both), where=union > 0))


def _areas(boxes: Array) -> Array:
    return np.asarray(np.prod((boxes[:, 2:] - boxes[:, :2]).clip(0), axis=1))
