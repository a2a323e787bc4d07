"""Soft suppression of boxes without an area: as TensorFlow computes it, where it had no end."""

import asyncio
from pathlib import Path

import numpy as np
import openvino.opset15 as op
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import Array
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import load, parameter, result, run, save

WAIT_S = 30.0
ROWS, MOST = 12, 8


def saved(directory: Path, threshold: float, encoding: str) -> CompiledPrograms:
    """A model that chooses `MOST` boxes softly and gives their places and scores."""
    boxes, scores = parameter("boxes", [1, -1, 4]), parameter("scores", [1, 1, -1])
    chosen = op.non_max_suppression(
        boxes,
        scores,
        op.constant(np.int64(MOST)),
        op.constant(np.float32(0.5)),
        op.constant(np.float32(threshold)),
        op.constant(np.float32(0.5)),
        box_encoding=encoding,
    )
    outputs = [result("places", chosen.output(0)), result("chosen", chosen.output(1))]
    return load(save(directory, outputs, [boxes, scores]))


def answer(model: CompiledPrograms, boxes: Array, scores: Array) -> tuple[Array, Array]:
    inputs = {"boxes": boxes[None], "scores": scores[None, None]}
    found = asyncio.run(asyncio.wait_for(run(model, inputs), WAIT_S))
    return found["places"][:, 2], found["chosen"][:, 2]


def by_tensorflow(boxes: Array, scores: Array, threshold: float) -> tuple[Array, Array]:
    places, chosen = tf.image.non_max_suppression_with_scores(
        boxes, scores, MOST, 1.0, threshold, soft_nms_sigma=0.5
    )
    return places.numpy(), chosen.numpy()


def some(kind: str) -> Array:
    corners = np.sort(np.random.default_rng(5).random((ROWS, 2, 2), np.float32), axis=1)
    if kind == "some points":
        corners[::3] = 0
    elif kind == "points":
        corners[:] = 0
    elif kind == "lines":
        corners[:, 1, 0] = corners[:, 0, 0]
    elif kind == "tiny":
        corners *= np.float32(1e-30)
    return corners.reshape(ROWS, 4)


@pytest.mark.parametrize("threshold", [-np.inf, 0.2])
def test_boxes_without_an_area_overlap_nothing(tmp_path: Path, threshold: float) -> None:
    scores = np.linspace(1, 0.1, ROWS, dtype=np.float32)
    model = saved(tmp_path, threshold, "corner")
    for kind in "boxes", "some points", "points", "lines", "tiny":
        places, chosen = answer(model, some(kind), scores)
        expected_places, expected = by_tensorflow(some(kind), scores, threshold)
        np.testing.assert_array_equal(places, expected_places, kind)
        np.testing.assert_allclose(chosen, expected, rtol=1e-5, err_msg=kind)


def test_boxes_by_their_centres(tmp_path: Path) -> None:
    boxes, scores = np.zeros((ROWS, 4), np.float32), np.linspace(1, 0.1, ROWS, dtype=np.float32)
    boxes[0] = boxes[1] = (5, 5, 2, 2)
    places, chosen = answer(saved(tmp_path, -np.inf, "center"), boxes, scores)
    kept = np.delete(np.arange(ROWS), 1)[:MOST]
    np.testing.assert_array_equal(places, kept)
    np.testing.assert_array_equal(chosen, scores[kept])


def test_what_is_no_box_is_refused(tmp_path: Path) -> None:
    boxes, scores = some("boxes"), np.ones(ROWS, np.float32)
    model = saved(tmp_path, -np.inf, "corner")
    for value in np.nan, np.inf, 1e16:
        boxes[3, 1] = value
        with pytest.raises(InvalidRequest, match="boxes that are no numbers"):
            answer(model, boxes, scores)
