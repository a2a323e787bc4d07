"""Of boxes that overlap, the best: non-maximum suppression, and how much boxes overlap."""

import numpy as np
import numpy.typing as npt

from ie_serving.core.values.tensors import Array


def kept(
    boxes: Array, scores: Array, groups: Array, most_overlap: float, most: int
) -> npt.NDArray[np.intp]:
    """Choose boxes, the best first; one that overlaps a better one of its group too much is left.

    Args:
        boxes: float [n, 4], left, top, right, bottom.
        scores: float [n].
        groups: [n], the class of each; boxes of different classes do not suppress each other.
        most_overlap: share of two boxes' union that they may have in common.
        most: boxes that are chosen; this bounds the time, too.

    Returns:
        Their places.
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
    """Give the share of the union that `box` has in common with each of the others: float [n]."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    both = np.prod(sides.clip(0), axis=1)
    union = _areas(box[np.newaxis]) + _areas(others) - both
    return np.asarray(np.divide(both, union, out=np.zeros_like(both), where=union > 0))


def _areas(boxes: Array) -> Array:
    return np.asarray(np.prod((boxes[:, 2:] - boxes[:, :2]).clip(0), axis=1))
