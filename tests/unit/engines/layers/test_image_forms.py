"""Which inputs take images, and what these become."""

import pytest

from ie_serving.core.values.image_form import NO_LIMIT, ImageBounds
from ie_serving.core.values.tensors import DataType, Signature, TensorSpec
from ie_serving.engines.layers.images import TYPES, image_form, with_images
from tests.tables import named_by


def spec(
    *shape: int,
    dtype: DataType = DataType.FP32,
    layout: str = "",
    bounds: ImageBounds | None = None,
) -> TensorSpec:
    return TensorSpec("x", dtype, shape, "x:0", layout, bounds)


@named_by(
    "shape layout",
    ("shape", "layout", "expected"),
    [
        ((1, 224, 200, 3), "", "NHWC"),
        ((-1, -1, -1, 3), "", "NHWC"),
        ((1, 3, 224, 200), "", "NCHW"),
        ((-1, 1, -1, -1), "", "NCHW"),
        ((8, 28, 28, 1), "", "NHWC"),
        ((1, 3, 224, 3), "", "NHWC"),
        ((1, 3, 224, 3), "NCHW", "NCHW"),
        ((1, 3, 224, 200), "N...", "NCHW"),
        ((1, 3, 224, 200), "NC??", "NCHW"),
        ((-1, -1, -1, -1), "NHWC", "NHWC"),
        ((3, 5, 6, 1), "CHWN", "CHWN"),
        ((-1, 3, 48, -1), "", "NCHW"),
        ((-1, 3, -1, 160), "NCHW", "NCHW"),
    ],
)
def test_inputs_of_these_shapes_take_images(
    shape: tuple[int, ...], layout: str, expected: str
) -> None:
    form = image_form(spec(*shape, layout=layout))
    assert form is not None
    assert form.layout == expected


@named_by(
    "shape layout",
    ("shape", "layout"),
    [
        ((1, 224, 224, 4), ""),
        ((1, 4, 224, 224), ""),
        ((-1, -1, -1, -1), ""),
        ((224, 224, 3), ""),
        ((1, 3, 5, 224, 224), ""),
        ((1, 3), ""),
        ((), ""),
        ((1, 3, 224, 3), "NCDH"),
        ((1, 3, 224, 224), "NHWC"),
        ((-1, 3, -1, 160), ""),
        ((-1, 1, -1, 257), ""),
        ((-1, 1, 1, 100), ""),
        ((-1, 100, 1, 1), ""),
    ],
)
def test_inputs_of_other_shapes_take_no_images(shape: tuple[int, ...], layout: str) -> None:
    assert image_form(spec(*shape, layout=layout)) is None


def test_an_input_of_any_rank_takes_none() -> None:
    assert image_form(TensorSpec("x", DataType.FP32, None, "x:0")) is None


@pytest.mark.parametrize("dtype", DataType)
def test_only_some_element_types_take_images(dtype: DataType) -> None:
    assert (image_form(spec(1, 8, 8, 3, dtype=dtype)) is not None) is (dtype in TYPES)


def test_sizes_are_the_nearest_that_the_input_takes() -> None:
    bounds = ((1, 8), (100, 200), (200, 200), (3, 3))
    form = image_form(spec(-1, -1, 200, 3, bounds=bounds))
    assert form is not None
    # As OpenVINO Model Server's documentation has it for [1,100:200,200,3].
    assert form.nearest(90, 200) == (100, 200)
    assert form.nearest(220, 200) == (200, 200)
    assert form.nearest(150, 10) == (150, 200)
    assert form.is_open
    assert not form.is_unbounded("H")
    assert form.described() == "100..200 x 200 RGB"


def test_without_bounds_an_image_keeps_its_size() -> None:
    form = image_form(spec(-1, -1, -1, 1), "RGB")
    assert form is not None
    assert form.nearest(90, 7000) == (90, 7000)
    assert form.is_unbounded("H")
    assert form.range_of("N") == (0, NO_LIMIT)
    assert form.described() == "any x any grey"


@pytest.mark.parametrize(
    ("low", "high", "channels"),
    [
        pytest.param(3, 3, 3, id="three alone"),
        pytest.param(1, 1, 1, id="one alone"),
        pytest.param(1, 4, 3, id="one to four"),
        pytest.param(0, NO_LIMIT, 3, id="any number"),
        pytest.param(0, 2, 1, id="at most two"),
    ],
)
def test_the_number_of_channels_follows_from_the_bounds(low: int, high: int, channels: int) -> None:
    bounds = ((1, 1), (8, 8), (8, 8), (low, high))
    shape = (1, 8, 8, low if low == high else -1)
    form = image_form(spec(*shape, layout="NHWC", bounds=bounds))
    assert form is not None
    assert form.channels == channels


def test_signatures_without_images_stay_as_they_are() -> None:
    plain = {"serving_default": Signature("serving_default", {"x": spec(-1, 4)}, {})}
    assert with_images(plain) is plain


def test_only_inputs_are_noted() -> None:
    image = spec(1, 8, 8, 3)
    given = {
        "serving_default": Signature("serving_default", {"x": image, "n": spec(1)}, {"y": image})
    }
    noted = with_images(given, "RGB")["serving_default"]
    assert noted.inputs["x"].image is not None
    assert noted.inputs["x"].image.colours == "RGB"
    assert noted.inputs["n"].image is None
    assert noted.outputs["y"].image is None
