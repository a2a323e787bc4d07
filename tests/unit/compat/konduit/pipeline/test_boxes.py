"""Steps of Konduit that make boxes, cut them out and draw them."""

import base64
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidRequest, LoadFailed
from ie_serving.wire.image import decode, encoded
from tests.tables import named_by
from tests.unit.compat.konduit.pipeline.pipelines import ran

RED, BLACK, LIME = [255, 0, 0], [0, 0, 0], [0, 255, 0]
LEFT = {"@x1": 0.0, "@y1": 0.0, "@x2": 0.5, "@y2": 1.0, "label": "a", "probability": 0.5}
RIGHT = {"@cx": 0.75, "@cy": 0.5, "@w": 0.5, "@h": 1.0, "label": "b", "probability": 1.0}


def picture() -> dict[str, str]:
    """Give a picture of 8 x 4 as a client sends it, whose left half is red."""
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4] = RED
    file = base64.b64encode(encoded(pixels, "png")).decode()
    return {"@ImageFormat": "PNG", "@ImageData": file}


def pixels_of(image: Any) -> np.ndarray[Any, Any]:
    return decode(image.data, 3)


def cells(*found: tuple[int, int, list[float]]) -> np.ndarray[Any, Any]:
    """Give the output of a YOLO: 2 classes, one anchor, 2 rows and 4 columns of cells."""
    output = np.zeros((1, 7, 2, 4), np.float32)
    for row, column, values in found:
        output[0, :, row, column] = values
    return output


def sent(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "@NDArrayType": "FLOAT",
        "@NDArrayShape": [*array.shape],
        "@NDArrayDataBase64": base64.b64encode(array.astype(">f4").tobytes()).decode(),
    }


@pytest.mark.parametrize("nchw", [True, False])
def test_boxes_of_a_yolo_stand_where_their_cells_do(nchw: bool) -> None:
    output = cells(
        (0, 1, [0.5, 0.5, 2.0, 1.0, 0.75, 0.25, 0.5]),
        (0, 2, [0.0, 0.5, 2.0, 1.0, 1.0, 0.125, 0.375]),  # overlaps it, of the same class
        (1, 3, [0.5, 0.5, 0.5, 0.5, 0.25, 0.5, 0.5]),  # too unlikely
    )
    step = {"@type": "YOLO_BBOX", "classLabels": ["cat", "dog"], "nchw": nchw, "nmsThreshold": 0.4}
    given = {"x": sent(output if nchw else output.transpose(0, 2, 3, 1)), "more": 1}
    found = ran([step], given)
    (box,) = found["bounding_boxes"]
    assert found["more"] == 1
    assert box == pytest.approx(
        {"@cx": 0.375, "@cy": 0.25, "@w": 0.5, "@h": 0.5, "label": "dog", "probability": 0.5}
    )
    several = ran([{**step, "nmsThreshold": 1.0, "keepOtherValues": False, "output": "y"}], given)
    assert (list(several), len(several["y"])) == (["y"], 2)


def test_classes_without_labels_are_numbers() -> None:
    output = cells((0, 1, [0.5, 0.5, 1.0, 1.0, 1.0, 0.25, 0.5]))
    (box,) = ran([{"@type": "YOLO_BBOX", "numClasses": 2}], {"x": sent(output)})["bounding_boxes"]
    assert box["label"] == "1"


@pytest.mark.parametrize("boxes", [[LEFT, RIGHT], LEFT])
def test_boxes_are_cut_out(boxes: Any) -> None:
    step = {"@type": "EXTRACT_BOUNDING_BOX", "outputName": "cut"}
    found = ran([step], {"i": picture(), "b": boxes, "more": 1})
    assert set(found) == {"cut", "more"}
    cut = found["cut"] if isinstance(boxes, list) else [found["cut"]]
    assert [pixels_of(each).shape for each in cut] == [(4, 4, 3)] * len(cut)
    colours = [pixels_of(each)[0, 0].tolist() for each in cut]
    assert colours == [RED, BLACK][: len(cut)]


def test_a_picture_that_is_cut_out_gets_a_size() -> None:
    step = {"@type": "EXTRACT_BOUNDING_BOX", "resizeH": 3, "resizeW": 5}
    (cut,) = ran([step], {"i": picture(), "b": [LEFT]})["i"]
    assert pixels_of(cut).shape == (3, 5, 3)


def test_boxes_are_drawn_in_their_colours() -> None:
    step = {"@type": "DRAW_BOUNDING_BOX", "classColors": {"b": "#0000ff"}, "drawLabel": False}
    found = pixels_of(ran([step], {"i": picture(), "b": [LEFT, RIGHT]})["i"])
    assert (found[0, 0].tolist(), found[0, 7].tolist()) == (LIME, [0, 0, 255])
    assert found[1, 1].tolist() == RED


@pytest.mark.parametrize(
    ("keys", "first", "shape"),
    [
        pytest.param({"cropBox": LEFT}, RED, (4, 4), id="a box"),
        pytest.param(
            {"cropPoints": [{"@Coords": [4, 0]}, {"@Coords": [8, 2]}], "coordsArePixels": True},
            BLACK,
            (2, 4),
            id="two points",
        ),
        pytest.param({"cropName": "where"}, BLACK, (4, 4), id="a box of the data"),
        pytest.param(
            {"cropPoints": [{"@Coords": [-2, -1]}, {"@Coords": [2, 5]}], "coordsArePixels": True},
            BLACK,
            (6, 4),
            id="points beyond the picture",
        ),
    ],
)
def test_a_region_is_cut_out(keys: dict[str, Any], first: list[int], shape: Any) -> None:
    found = ran([{"@type": "IMAGE_CROP", **keys}], {"i": picture(), "where": RIGHT})["i"]
    assert pixels_of(found).shape[:2] == shape
    assert pixels_of(found)[0, 0].tolist() == first
    if shape == (6, 4):
        assert pixels_of(found)[1, 2].tolist() == RED


@pytest.mark.parametrize(
    ("step", "data", "fault"),
    [
        pytest.param(
            {"@type": "YOLO_BBOX", "numClasses": 3},
            {"x": sent(cells())},
            "channels divisible by 5 + 3",
            id="channels that do not fit",
        ),
        pytest.param(
            {"@type": "YOLO_BBOX", "numClasses": 2},
            {"x": 1},
            'input: "" is no array',
            id="no array",
        ),
        pytest.param(
            {"@type": "EXTRACT_BOUNDING_BOX"},
            {"b": [LEFT]},
            'imageName: "" is no picture',
            id="no picture",
        ),
        pytest.param(
            {"@type": "EXTRACT_BOUNDING_BOX"},
            {"i": picture(), "b": [{"@x1": 1}]},
            "is no box",
            id="half a box",
        ),
        pytest.param(
            {"@type": "DRAW_BOUNDING_BOX"},
            {"i": picture()},
            "bboxName: name one of those",
            id="no name of boxes",
        ),
        pytest.param(
            {"@type": "BOUNDING_BOX_FILTER", "classesToKeep": ["a"]},
            {"bounding_boxes": [1]},
            "is no list of boxes",
            id="no list of boxes",
        ),
        pytest.param(
            {"@type": "IMAGE_CROP", "cropName": "w"},
            {"i": picture(), "w": {**LEFT, "@x2": 0.0}},
            "the region to crop is 0 x 4 pixels; expected 1 to ",
            id="an empty region",
        ),
        pytest.param(
            {"@type": "IMAGE_CROP", "cropName": "w"},
            {"i": picture(), "w": [1, 2]},
            "two points",
            id="a region of two numbers",
        ),
    ],
)
def test_data_that_do_not_fit_a_step_are_refused(step: Any, data: Any, fault: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ran([step], data)
    assert fault in str(caught.value)


@named_by(
    "fault",
    ("step", "fault"),
    [
        ({"@type": "YOLO_BBOX"}, "expected classLabels as a list, or numClasses"),
        ({"@type": "YOLO_BBOX", "numClasses": 1, "threshold": 2}, "expected shares"),
        ({"@type": "DRAW_BOUNDING_BOX", "color": "mud"}, "'mud' is no colour"),
        ({"@type": "DRAW_BOUNDING_BOX", "scale": "AT_LEAST"}, "scale and drawCropRegion"),
        ({"@type": "DRAW_BOUNDING_BOX", "lineThickness": 0}, "lineThickness"),
        ({"@type": "EXTRACT_BOUNDING_BOX", "resizeH": 3}, "resizeW is None"),
        ({"@type": "IMAGE_CROP"}, "expected one of cropName"),
    ],
)
def test_options_that_cannot_be_had_are_refused(step: dict[str, Any], fault: str) -> None:
    with pytest.raises(LoadFailed) as caught:
        ran([step], {})
    assert fault in str(caught.value)
