"""Steps of Konduit for classes, pictures and boxes, over the built-in steps of graphs."""

import base64
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.wire.image import decode, encoded
from tests.unit.compat.konduit.pipeline.pipelines import array, ran

# -- classifiers and regressions ------------------------------------------------------------------


def test_a_classifier_names_the_best() -> None:
    step = {"@type": "CLASSIFIER_OUTPUT", "inputName": "p", "labels": ["a", "b", "c"]}
    given = {"p": array(0.25, 0.5, 0.125)}
    found = ran([step], given)
    assert found.pop("p").tolist() == [0.25, 0.5, 0.125]  # as Konduit, which adds to the data
    assert found == {"label": "b", "index": 1, "prob": 0.5}
    two = {**step, "topN": 2, "returnIndex": False, "labelName": "best", "allProbabilities": True}
    found = ran([two], given)
    assert found["allProbabilities"].tolist() == [0.25, 0.5, 0.125]
    assert (found["best"], found["prob"]) == (["b", "a"], [0.5, 0.25])
    assert "index" not in found


def test_a_classifier_gives_indices_without_labels() -> None:
    given = {"p": {**array(0.25, 0.75, 1, 0), "@NDArrayShape": [2, 2]}}
    found = ran([{"@type": "CLASSIFIER_OUTPUT"}], given)
    assert (found["label"], found["index"], found["prob"]) == (["1", "0"], [1, 0], [0.75, 1])


def test_a_regression_names_columns() -> None:
    step = {"@type": "REGRESSION_OUTPUT", "inputName": "y", "names": {"price": 1}}
    assert ran([step], {"y": array(1, 2.5)})["price"] == 2.5


# -- pictures and boxes ----------------------------------------------------------------------

RED = np.full((4, 2, 3), (255, 0, 0), np.uint8)


def picture(pixels: Any = RED) -> dict[str, Any]:
    return {
        "@ImageFormat": "PNG",
        "@ImageData": base64.b64encode(encoded(pixels, "png")).decode(),
    }


@pytest.mark.parametrize(
    ("config", "shape", "first"),
    [
        pytest.param({}, (1, 3, 2, 2), [1, 0, 0], id="by default"),
        pytest.param(
            {"format": "CHANNELS_LAST", "includeMinibatchDim": False},
            (2, 2, 3),
            [1, 0, 0],
            id="channels last",
        ),
        pytest.param(
            {"channelLayout": "BGR", "normalization": {"type": "INCEPTION"}},
            (1, 3, 2, 2),
            [-1, -1, 1],
            id="BGR as for Inception",
        ),
        pytest.param(
            {"normalization": None, "aspectRatioHandling": "STRETCH"},
            (1, 3, 2, 2),
            [255, 0, 0],
            id="stretched and not normalized",
        ),
        pytest.param(
            {"channelLayout": "BGR", "normalization": {"type": "VGG_SUBTRACT_MEAN"}},
            (1, 3, 2, 2),
            [-103.939, -116.779, 255 - 123.68],
            id="BGR as for VGG",
        ),
        pytest.param(
            {"dataType": "UINT8", "normalization": {"type": "NONE"}},
            (1, 3, 2, 2),
            [255, 0, 0],
            id="bytes",
        ),
    ],
)
def test_a_picture_becomes_an_array(config: Any, shape: Any, first: list[float]) -> None:
    step = {"@type": "IMAGE_TO_NDARRAY", "config": {"height": 2, "width": 2, **config}}
    found = ran([step], {"i": picture(), "other": 1})
    assert found["other"] == 1
    assert found["i"].shape == shape
    colours = found["i"].reshape(-1, 3)[0] if shape[-1] == 3 else found["i"][0, :, 0, 0]
    assert colours.tolist() == pytest.approx(first, abs=1e-4)


def test_lists_of_pictures_are_handled_as_the_step_says() -> None:
    step = {"@type": "IMAGE_TO_NDARRAY", "keys": ["i"], "outputNames": ["x"]}
    both = {"i": [picture(), picture()]}
    shapes = {}
    for many in ("BATCH", "FIRST", "LIST_OUT"):
        config = {"height": 2, "width": 2, "listHandling": many}
        found = ran([{**step, "config": config}], both)["x"]
        shapes[many] = [each.shape for each in found] if isinstance(found, list) else found.shape
    one = (1, 3, 2, 2)
    assert shapes == {"BATCH": (2, 3, 2, 2), "FIRST": one, "LIST_OUT": [one, one]}
    with pytest.raises(InvalidRequest, match="2 pictures came, and listHandling is NONE"):
        ran([{**step, "config": {"height": 2, "width": 2}}], both)


def test_a_picture_gets_another_size() -> None:
    found = ran([{"@type": "IMAGE_RESIZE", "height": 3, "width": 5}], {"i": picture()})["i"]
    assert found.format == "PNG"
    assert decode(found.data, 3).shape == (3, 5, 3)


def test_boxes_of_an_ssd_are_chosen() -> None:
    corners = [[[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [0, 0, 0.5, 0.5]]]
    given = {
        "detection_boxes": corners,
        "detection_scores": [[0.75, 0.25, 1]],
        "detection_classes": [[2, 1, 1]],
        "image": "kept",
    }
    steps = [
        {"@type": "SSD_TO_BBOX", "classLabels": ["cat", "dog"]},
        {"@type": "BOUNDING_BOX_FILTER", "classesToKeep": ["dog"]},
    ]
    found = ran(steps, given)
    (box,) = found["bounding_boxes"]
    assert (found["image"], box.pop("label")) == ("kept", "dog")
    assert box == pytest.approx(
        {"@x1": 0.2, "@y1": 0.1, "@x2": 0.4, "@y2": 0.3, "probability": 0.75}
    )
    assert len(ran(steps[:1], given)["bounding_boxes"]) == 2


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(
            {"@type": "IMAGE_TO_NDARRAY", "config": {}},
            "height is None; expected a number",
            id="no size",
        ),
        pytest.param(
            {
                "@type": "IMAGE_TO_NDARRAY",
                "config": {"height": 2, "width": 2, "channelLayout": "RGBA"},
            },
            "channelLayout is RGBA, which is not supported; expected RGB, BGR, GRAYSCALE",
            id="another channel layout",
        ),
        pytest.param(
            {
                "@type": "IMAGE_TO_NDARRAY",
                "config": {"height": 2, "width": 2, "normalization": {"type": "STANDARDIZE"}},
            },
            "is not supported; expected NONE, SCALE",
            id="another normalization",
        ),
        pytest.param(
            {"@type": "REGRESSION_OUTPUT", "names": {"a": "b"}},
            "names: expected fields",
            id="names that are no fields",
        ),
    ],
)
def test_options_that_cannot_be_had_are_refused(step: dict[str, Any], fault: str) -> None:
    with pytest.raises(LoadFailed) as caught:
        ran([step], {})
    assert fault in str(caught.value)
