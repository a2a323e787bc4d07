"""Kernel that keeps the best of overlapping boxes, with TensorFlow's order of equal scores.

TensorFlow takes boxes of equal scores in the order of its heap and of its sort, which is neither
that of the boxes nor stable, but always the same. Both are followed only where scores are equal.
Source: non_max_suppression_op.cc of TensorFlow, and the sort of libstdc++.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.savedmodel.host.allowance import make_room
from ie_serving.engines.savedmodel.host.host_kernel import (
    Attributes,
    Compute,
    HostKernel,
    Output,
    in_thread,
)

_AT_ONCE = 256
"""Boxes that are compared at once: most often enough are kept among the first."""
_FEW = 16
"""Length up to which libstdc++ sorts by insertion, which keeps the order of equal values."""


def _combined(attributes: Attributes) -> Compute:
    per_class, clips = attributes.flag("pad_per_class"), attributes.flag("clip_boxes", True)

    def compute(
        boxes: Array, scores: Array, each: Array, total: Array, overlap: Array, least: Array
    ) -> list[Array]:
        _check(boxes, scores, int(each), int(total), float(overlap))
        with np.errstate(all="ignore"):  # boxes and scores may be infinite or NaN
            return best_of(boxes, scores, each, total, overlap, least)

    def best_of(
        boxes: Array, scores: Array, each: Array, total: Array, overlap: Array, least: Array
    ) -> list[Array]:
        count, held, classes = scores.shape
        size = min(int(total), int(each) * classes) if per_class else int(total)
        make_room((count, size, 6), np.float32)
        most = min(int(each), held)
        make_room((classes, most, 2), np.int64)
        made = np.zeros((count, size, 4), np.float32)
        marks, numbers = np.zeros((2, count, size), np.float32)
        valid = np.zeros(count, np.int32)
        for image in range(count):
            kept, ranked = _best(boxes[image], scores[image], most, overlap, least, size)
            valid[image] = len(kept)
            at = image, slice(len(kept))
            own = ranked if boxes.shape[2] > 1 else 0
            chosen = boxes[image, kept, own]
            made[at] = np.clip(chosen, 0, 1) if clips else chosen
            marks[at], numbers[at] = scores[image, kept, ranked], ranked
        return [made, marks, numbers, valid]

    return compute


def _check(boxes: Array, scores: Array, each: int, total: int, overlap: float) -> None:
    fits = boxes.ndim == 4 and scores.ndim == 3 and boxes.shape[:2] == scores.shape[:2]
    if not fits or boxes.shape[2] not in (1, scores.shape[2]) or boxes.shape[3] != 4:
        raise InvalidRequest(
            f"boxes must be [batch, boxes, 1 or classes, 4] and scores [batch, boxes, classes], but"
            f" are {list(boxes.shape)} and {list(scores.shape)}"
        )
    if each < 1 or total < 1 or not 0 <= overlap <= 1:
        raise InvalidRequest(
            "sizes must be positive and iou_threshold in [0, 1], but are"
            f" {each}, {total} and {overlap}"
        )


def _best(
    boxes: Array, scores: Array, most: int, overlap: Array, least: Array, size: int
) -> tuple[Array, Array]:
    """Give the indices of an image's boxes that are kept, best first, and the class of each."""
    slots = np.full((scores.shape[1], most), -1, np.int64)
    marks = np.full(slots.shape, -np.inf, np.float32)
    corners = [_Corners(boxes[:, own]) for own in range(boxes.shape[1])]
    for number, column in enumerate(scores.T):
        kept = corners[number % len(corners)].kept(column, most, overlap, least)
        slots[number, : len(kept)], marks[number, : len(kept)] = kept, column[kept]
    order = np.argsort(-marks, None, "stable")
    ranked = marks.ravel()[order[: size + 1]]
    real = slots.ravel()[order[: size + 1]] >= 0
    if np.any((ranked[1:] == ranked[:-1]) & real[:-1]):
        order = _sorted((-marks).ravel().tolist())
    order = order[: min(size, np.count_nonzero(slots >= 0))]
    return slots.ravel()[order], order // max(most, 1)


class _Corners:
    """The boxes of one class."""

    def __init__(self, boxes: Array) -> None:
        one, other = boxes[:, :2], boxes[:, 2:]
        # `std::min` gives the first operand if either is NaN.
        self._low = np.where(other < one, other, one)
        self._high = np.where(one < other, other, one)
        sides = self._high - self._low
        self._areas = sides[:, 0] * sides[:, 1]

    def kept(self, scores: Array, most: int, overlap: Array, least: Array) -> Sequence[int]:
        """Name the boxes that no better one overlaps, best first."""
        above = np.flatnonzero(scores > least)
        order = above[np.argsort(-scores[above], kind="stable")]
        kept = self._greedy(order, most, overlap)
        tried = (
            len(order)
            if len(kept) < most or not kept
            else int(np.flatnonzero(order == kept[-1])[0]) + 2
        )
        ranked = scores[order[:tried]]
        if np.any(ranked[1:] == ranked[:-1]):
            kept = self._greedy(_popped(scores, above), most, overlap)
        return kept

    def _greedy(self, order: Array, most: int, overlap: Array) -> list[int]:
        kept: list[int] = []
        for start in range(0, len(order), _AT_ONCE):
            left = order[start : start + _AT_ONCE]
            for better in kept:
                left = left[~(self._overlaps(better, left) > overlap)]
            while len(left) and len(kept) < most:
                kept.append(int(left[0]))
                left = left[1:][~(self._overlaps(kept[-1], left[1:]) > overlap)]
            if len(kept) == most:
                break
        return kept

    def _overlaps(self, one: int, others: Array) -> Array:
        """Give the intersection over the union of a box with each of others."""
        low = np.maximum(self._low[one], self._low[others])
        sides = np.maximum(np.minimum(self._high[one], self._high[others]) - low, 0)
        shared = sides[:, 0] * sides[:, 1]
        area, areas = self._areas[one], self._areas[others]
        found = shared / (area + areas - shared)
        overlaps: Array = np.where((area <= 0) | (areas <= 0), np.float32(0), found)
        return overlaps


class _ScoredBox(float):
    """A score for a heap, whose least comes first, and its box."""

    box: int


def _popped(scores: Array, indices: Array) -> Array:
    """Give indices in the order in which TensorFlow's heap gives them, best first.

    Python's heap makes the same moves as that of libstdc++.
    """
    heap: list[_ScoredBox] = []
    for index, score in zip(indices.tolist(), scores[indices].tolist(), strict=True):
        entry = _ScoredBox(-score)
        entry.box = index
        heapq.heappush(heap, entry)
    return np.array([heapq.heappop(heap).box for _ in range(len(heap))], np.int64)


def _sorted(keys: Sequence[float]) -> Array:
    """Give indices in the order into which `std::sort` of libstdc++ puts their keys.

    It divides until parts are short, and ends with an insertion sort of everything, which is as
    any stable one.
    """
    order = list(range(len(keys)))
    parts = [(0, len(order))]
    while parts:
        first, last = parts.pop()
        while last - first > _FEW:
            cut = _divided(keys, order, first, last)
            parts.append((cut, last))
            last = cut
    return np.array(sorted(order, key=keys.__getitem__), np.int64)


def _divided(keys: Sequence[float], order: list[int], first: int, last: int) -> int:
    """Move what is less than the median of three in front of what is greater."""
    one, other, third = first + 1, first + (last - first) // 2, last - 1
    if not keys[order[one]] < keys[order[other]]:
        one, other = other, one
    if keys[order[other]] < keys[order[third]]:
        middle = other
    else:
        middle = third if keys[order[one]] < keys[order[third]] else one
    order[first], order[middle] = order[middle], order[first]
    pivot = keys[order[first]]
    low, high = first + 1, last
    while True:
        while keys[order[low]] < pivot:
            low += 1
        high -= 1
        while pivot < keys[order[high]]:
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1


KERNELS: Final[Mapping[str, HostKernel]] = {
    "CombinedNonMaxSuppression": in_thread(
        HostKernel(
            _combined,
            (
                Output("", DataType.FP32, "nmsed_boxes"),
                Output("", DataType.FP32, "nmsed_scores"),
                Output("", DataType.FP32, "nmsed_classes"),
                Output("", DataType.INT32, "valid_detections"),
            ),
        )
    )
}
