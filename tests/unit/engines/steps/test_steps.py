"""What each built-in step computes: golden arrays, and what holds for all boxes and pictures."""

import inspect
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import Array
from ie_serving.engines.steps.boxes import kept, overlaps
from ie_serving.engines.steps.registry import TABLE


def run(name: str, inputs: dict[str, Any], **options: object) -> dict[str, Array]:
    """Run a step as a graph does."""
    row = TABLE[name]
    found = row.read(options, None)
    arrays_ = {key: np.asarray(value) for key, value in inputs.items()}
    given_ = row.run(arrays_, **found) if row.rest else row.run(**arrays_, **found)
    return {key: np.asarray(value) for key, value in given_.items()}


def encoded(pixels: Array, form: str = "PNG") -> Array:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return np.array(file.getvalue(), np.object_)


def f(*values: Any) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", TABLE)
def test_a_row_names_what_its_function_takes(name: str) -> None:
    row = TABLE[name]
    taken = set(inspect.signature(row.run).parameters)
    told = {"step"} if row.named else set()
    watched = {"watch"} if row.watches else set()
    inputs = {"inputs"} if row.rest else {*row.inputs, *row.instead}
    assert taken == {*inputs, *row.options, *told, *watched}
    for option in row.options.values():
        assert option.form


# -- pictures ---------------------------------------------------------------------------------

PIXELS = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10


@pytest.mark.parametrize("image", [encoded(PIXELS), PIXELS], ids=["png", "pixels"])
def test_a_picture_becomes_a_tensor(image: Array) -> None:
    found = run("image_to_tensor", {"image": image}, height=2, width=4)["tensor"]
    assert found.dtype == np.float32
    assert found.tolist() == [PIXELS.transpose(2, 0, 1).tolist()]
    as_bgr = run(
        "image_to_tensor",
        {"image": image},
        **{"height": 2, "width": 4, "layout": "NHWC", "colors": "BGR", "dtype": "uint8"},
    )["tensor"]
    assert as_bgr.dtype == np.uint8
    assert as_bgr.tolist() == [PIXELS[..., ::-1].tolist()]


def test_mean_and_scale_are_of_channels() -> None:
    normal = {"mean": [10, 20, 30], "scale": [2, 4, 5]}
    found = run("image_to_tensor", {"image": PIXELS}, height=2, width=4, layout="NHWC", **normal)
    expected = (PIXELS.astype(np.float32) - f(10, 20, 30)) / f(2, 4, 5)
    np.testing.assert_allclose(found["tensor"], expected[np.newaxis])


def test_several_pictures_of_any_size_are_a_batch() -> None:
    small = np.full((1, 1, 3), 7, np.uint8)
    image = np.array([encoded(PIXELS).item(), encoded(small, "WEBP").item()], np.object_)
    found = run("image_to_tensor", {"image": image}, height=2, width=4, colors="GREY")["tensor"]
    assert found.shape == (2, 1, 2, 4)
    assert np.unique(found[1]).size == 1


@pytest.mark.parametrize(
    ("fit", "rows"),
    [("stretch", [[0, 1, 2, 3]] * 2), ("crop", [[1, 2]] * 2), ("pad", [[0] * 4, [0, 1, 2, 3]])],
)
def test_a_picture_is_stretched_cropped_or_padded_to_fit(fit: str, rows: list[list[int]]) -> None:
    """Columns of 0, 1, 2 and 3 show which are left."""
    columns = np.broadcast_to(np.arange(4, dtype=np.uint8)[:, None], (2, 4, 3))
    size = {"stretch": (2, 4), "crop": (2, 2), "pad": (4, 4)}[fit]
    found = run("resize", {"image": columns}, height=size[0], width=size[1], fit=fit)["pixels"]
    assert found.dtype == np.uint8
    assert found.shape == (*size, 3)
    assert found[: len(rows), :, 0].tolist() == rows


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(["stretch", "crop", "pad"]),
)
def test_every_picture_fits_every_size(h: int, w: int, height: int, width: int, fit: str) -> None:
    pixels = np.full((h, w, 3), 9, np.uint8)
    found = run("resize", {"image": pixels}, height=height, width=width, fit=fit)["pixels"]
    assert found.shape == (height, width, 3)
    assert set(np.unique(found)) <= ({0, 9} if fit == "pad" else {9})


def test_a_picture_is_decoded() -> None:
    found = run("decode_image", {"image": encoded(PIXELS)})
    assert found["pixels"].tolist() == PIXELS.tolist()
    assert (int(found["height"]), int(found["width"])) == (2, 4)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        pytest.param(
            np.array(b"no picture", np.object_), "image 0 is no JPEG, PNG or WebP", id="no picture"
        ),
        pytest.param(
            np.array([[b"a"]], np.object_),
            r"image has shape \[1, 1\]: expected one encoded",
            id="a list of lists",
        ),
        pytest.param(
            np.zeros((2, 2), np.uint8),
            r"image has shape \[2, 2\]: expected pixels",
            id="a flat array",
        ),
        pytest.param(np.zeros((0, 2, 3), np.uint8), "expected pixels", id="no rows"),
        pytest.param(
            np.array([encoded(PIXELS).item()] * 2, np.object_),
            "2 pictures; expected one",
            id="two pictures",
        ),
    ],
)
def test_a_value_that_is_no_picture_is_refused(image: Array, text: str) -> None:
    with pytest.raises(InvalidTensor, match=text):
        run("resize", {"image": image}, height=1, width=1)


# -- boxes on pictures ------------------------------------------------------------------------


def test_boxes_are_cut_out() -> None:
    boxes = [[0, 0, 0.5, 1], [0.75, 0.5, 1, 1]]
    found = run("crop", {"image": PIXELS, "boxes": f(*boxes)}, height=2, width=2)
    assert int(found["count"]) == 2
    assert found["items"][0].tolist() == PIXELS[:, :2].tolist()
    assert found["items"][1].tolist() == np.broadcast_to(PIXELS[1, 3], (2, 2, 3)).tolist()
    none = run("crop", {"image": PIXELS, "boxes": np.zeros((0, 4), np.float32)}, height=2, width=2)
    assert none["items"].shape == (0, 2, 2, 3)


@given(arrays(np.float32, (3, 4), elements=st.floats(-2, 2, width=32)), st.floats(0, 1))
def test_every_box_is_cut_out(boxes: Array, margin: float) -> None:
    found = run("crop", {"image": PIXELS, "boxes": boxes}, height=3, width=2, margin=margin)
    assert found["items"].shape == (3, 3, 2, 3)


def test_boxes_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidTensor, match="boxes hold NaN or infinity"):
        run("crop", {"image": PIXELS, "boxes": f([0, 0, np.nan, 1])}, height=1, width=1)


def test_boxes_are_drawn() -> None:
    picture = np.zeros((40, 60, 3), np.uint8)
    boxes = f([0.25, 0.25, 0.75, 0.75])
    inputs = {"image": picture, "boxes": boxes}
    found = run("draw", inputs, format="pixels", line=1)["image"]
    assert found[10, 15].tolist() == found[29, 44].tolist() == [230, 25, 75]
    assert found[20, 30].tolist() == [0, 0, 0]
    assert not picture.any()
    labels = np.array(["日本".encode()], np.object_)
    png = run("draw", {**inputs, "labels": labels, "scores": f(0.5)})["image"].item()
    assert Image.open(io.BytesIO(png)).size == (60, 40)


# -- what detectors give ----------------------------------------------------------------------

SSD = f(
    [0, 1, 0.9, 0.1, 0.2, 0.3, 0.4],
    [0, 2, 0.6, 0.1, 0.2, 0.3, 0.4],
    [0, 1, 0.2, 0, 0, 1, 1],
    [-1, 1, 0.99, 0, 0, 1, 1],
).reshape(1, 1, 4, 7)


def listed(found: dict[str, Array]) -> list[Any]:
    rows = zip(found["labels"].tolist(), found["scores"], found["boxes"], strict=True)
    assert int(found["count"]) == len(found["labels"])
    return [(label, round(float(s), 3), np.round(b, 3).tolist()) for label, s, b in rows]


def test_boxes_of_an_ssd_are_read() -> None:
    box = pytest.approx([0.1, 0.2, 0.3, 0.4])
    found = run("ssd_boxes", {"detections": SSD}, labels=["none", "cat"])
    assert listed(found) == [(b"cat", 0.9, box), (b"2", 0.6, box)]
    tensors = {"boxes": [[[0.2, 0.1, 0.4, 0.3]]], "scores": [[0.9]], "classes": [[1]]}
    of_tensorflow = {name: np.array(each, np.float32) for name, each in tensors.items()}
    assert listed(run("ssd_boxes", of_tensorflow, labels=["none", "cat"])) == [(b"cat", 0.9, box)]
    assert listed(run("ssd_boxes", {"detections": SSD}, threshold=1)) == []


YOLO = f(  # centre, size, classes: two that overlap, one apart, one of another class
    [100, 100, 40, 40, 0.9, 0.1],
    [104, 100, 40, 40, 0.8, 0.1],
    [300, 300, 40, 80, 0.7, 0.1],
    [100, 100, 40, 40, 0.0, 0.6],
    [10, 10, 10, 10, 0.3, 0.1],
)
BEST = [
    (b"a", 0.9, [0.2, 0.2, 0.3, 0.3]),
    (b"a", 0.7, [0.7, 0.65, 0.8, 0.85]),
    (b"b", 0.6, [0.2, 0.2, 0.3, 0.3]),
]


@pytest.mark.parametrize(
    ("form", "output"),
    [
        ("v8", YOLO.T[np.newaxis]),
        ("v5", np.insert(YOLO, 4, 0.5, axis=1)[np.newaxis] * f(1, 1, 1, 1, 1, 2, 2)),
    ],
)
def test_boxes_of_a_yolo_are_read(form: str, output: Array) -> None:
    size = {"height": 400, "width": 400}
    found = run("yolo_boxes", {"output": output}, form=form, labels=["a", "b"], **size)
    assert listed(found) == [
        (label, score, pytest.approx(box, abs=1e-3)) for label, score, box in BEST
    ]
    assert len(listed(run("yolo_boxes", {"output": output}, form=form, overlap=1, **size))) == 4


def test_boxes_of_a_grid_with_anchors_are_read() -> None:
    """One cell of 2 x 2, of the second anchor, is sure; all of its raw values are 0 but two."""
    cells = np.full((2, 7, 2, 2), -20, np.float32)
    cells[1, :, 0, 1] = (0, 0, 0, np.log(2), 20, -20, 20)
    anchors = [[1, 1], [0.5, 0.5]]
    found = run("yolo_boxes", {"output": cells.reshape(1, 14, 2, 2)}, form="grid", anchors=anchors)
    assert listed(found) == [(b"1", 1.0, pytest.approx([0.625, 0.0, 0.875, 0.5], abs=1e-3))]


@pytest.mark.parametrize(
    ("name", "inputs", "options", "text"),
    [
        pytest.param(
            "ssd_boxes", {"detections": f(1, 2)}, {}, "expected 7 columns", id="too few columns"
        ),
        pytest.param(
            "ssd_boxes",
            {"detections": SSD + f(1, 0, 0, 0, 0, 0, 0) * SSD[..., 1:2]},
            {},
            "of picture 1",
            id="another picture",
        ),
        pytest.param(
            "yolo_boxes",
            {"output": f([1, 2])},
            {},
            r"expected \[1, .., ..\]",
            id="too few dimensions",
        ),
        pytest.param(
            "yolo_boxes",
            {"output": YOLO[None, :, :5]},
            {"form": "v5"},
            "form has 6 at least",
            id="too few columns of v5",
        ),
        pytest.param(
            "yolo_boxes",
            {"output": np.zeros((1, 13, 2, 2), np.float32)},
            {"form": "grid", "anchors": [[1, 1], [2, 2]]},
            "divisible by the 2 anchors",
            id="channels that the anchors do not divide",
        ),
    ],
)
def test_detections_that_no_detector_gives_are_refused(
    name: str, inputs: Any, options: Any, text: str
) -> None:
    with pytest.raises(InvalidTensor, match=text):
        run(name, inputs, **options)


def test_boxes_are_chosen() -> None:
    boxes = run("ssd_boxes", {"detections": SSD}, threshold=0, labels=["none", "cat"])
    del boxes["count"]
    found = run("filter_boxes", boxes, keep=["cat"], threshold=0.1)
    assert [each[:2] for each in listed(found)] == [(b"cat", 0.9), (b"cat", 0.2)]
    assert [each[:2] for each in listed(run("filter_boxes", boxes, most=1))] == [(b"cat", 0.9)]


BOXES = arrays(
    np.float32, st.tuples(st.integers(0, 12), st.just(4)), elements=st.floats(0, 1, width=32)
)


@given(BOXES, st.floats(0, 0.99), st.randoms())
def test_suppression_leaves_the_best_of_overlapping_boxes(
    boxes: Array, most: float, random: Any
) -> None:
    """What is left does not overlap much; what is not overlaps a better one of its class."""
    boxes = np.concatenate((boxes[:, :2], boxes[:, :2] + boxes[:, 2:]), axis=1)
    scores = f(*[random.random() for _ in boxes])
    groups = np.array([random.randrange(2) for _ in boxes], np.int64)
    found = kept(boxes, scores, groups, most, 100)
    assert np.all(np.diff(scores[found]) <= 0)
    for at in range(len(boxes)):
        better = [
            i for i in found if groups[i] == groups[at] and scores[i] >= scores[at] and i != at
        ]
        share = overlaps(boxes[at], boxes[better]) if better else f(0)
        assert (share.max() <= np.float32(most)) == (at in found) or share.max() == np.float32(most)


# -- words ------------------------------------------------------------------------------------


def test_the_best_classes_are_given_in_order() -> None:
    probs = f([0.1, 0.7, 0.2], [0.5, 0.5, 0.0])
    found = run("classifier_output", {"probs": probs}, labels=["a", "b", "c"], top_n=2)
    assert found["label"].tolist() == [[b"b", b"c"], [b"a", b"b"]]
    assert found["index"].tolist() == [[1, 2], [0, 1]]
    np.testing.assert_allclose(found["prob"], [[0.7, 0.2], [0.5, 0.5]])
    whole = run("classifier_output", {"probs": f(1, 2, 3)}, softmax=True, top_n=3)
    assert whole["label"].tolist() == [b"2", b"1", b"0"]
    assert float(whole["prob"].sum()) == pytest.approx(1)


def test_labels_are_as_many_as_classes() -> None:
    with pytest.raises(InvalidTensor, match="3 classes, and there are 2 labels"):
        run("classifier_output", {"probs": f(1, 2, 3)}, labels=["a", "b"])


def test_columns_have_names() -> None:
    found = run("regression_output", {"values": f([1, 2], [3, 4])}, names={"price": 1})
    assert found["price"].tolist() == [2, 4]
    with pytest.raises(InvalidTensor, match="column 5 is asked for"):
        run("regression_output", {"values": f([1, 2])}, names={"price": 5})


def test_json_has_what_a_text_cannot_hold() -> None:
    inputs = {"n": f(1, np.nan), "s": np.array([b"\xff", "é".encode()], np.object_)}
    found = run("json", inputs)["text"].item()
    assert found.decode() == '{"n": [1.0, null], "s": [{"b64": "/w=="}, "é"]}'


def test_a_template_names_what_is_not_there() -> None:
    with pytest.raises(InvalidTensor, match=r"the text has \{y\}; there is x"):
        run("template", {"x": f(1)}, text="{x} {y}")
    with pytest.raises(InvalidTensor, match=r"\{x:d\} does not fit what came"):
        run("template", {"x": f(1)}, text="{x:d}")


@pytest.mark.parametrize(
    ("name", "options", "faults"),
    [
        pytest.param(
            "template",
            {"text": "{x"},
            ['with: text: a lone brace in "{x"; write it twice'],
            id="a lone brace",
        ),
        pytest.param(
            "yolo_boxes",
            {"form": "grid"},
            ['with: anchors: missing; "form": "grid" has them'],
            id="no anchors",
        ),
        pytest.param(
            "yolo_boxes",
            {"form": "v9"},
            ["with.form: 'v9' given; expected one of v8, v5, grid"],
            id="another form",
        ),
        pytest.param(
            "image_to_tensor",
            {"height": 1, "width": 1, "dtype": "uint8", "mean": 3},
            ['with: mean and scale are for "dtype": "float"; leave them out'],
            id="a mean for bytes",
        ),
        pytest.param(
            "log",
            {"keys": "("},
            ["with.keys: '(' given; expected a regular expression: missing"],
            id="no expression",
        ),
        pytest.param(
            "classifier_output",
            {"labels": 3},
            ["with.labels: 3 given; expected a list of names"],
            id="labels that are no list",
        ),
        pytest.param(
            "resize", [], ["with: expected an object of options"], id="options that are no object"
        ),
        pytest.param(
            "regression_output",
            {"names": {"a": -1}},
            ["with.names: {'a': -1} given; expected col"],
            id="a negative column",
        ),
        pytest.param(
            "metrics", {"x": 1}, ["with.x: no such option; it has none"], id="an option too many"
        ),
    ],
)
def test_options_that_are_wrong_are_told(name: str, options: object, faults: list[str]) -> None:
    found = TABLE[name].faults(options)
    assert len(found) == len(faults)
    assert all(each.startswith(text) for each, text in zip(found, faults, strict=True)), found


def test_a_class_that_no_integer_holds_is_no_box() -> None:
    rows = f([0, 1e30, 0.9, 0, 0, 1, 1], [0, 2, 0.8, 0, 0, 1, 1])
    assert run("ssd_boxes", {"detections": rows})["classes"].tolist() == [2]


def test_boxes_of_another_picture_are_refused() -> None:
    rows = f([1, 2, 0.9, 0, 0, 1, 1])
    with pytest.raises(InvalidTensor, match="detections are of picture 1; send one picture"):
        run("ssd_boxes", {"detections": rows})
