"""Resizing is OpenCV's `INTER_LINEAR`: compared with its definition, and with OpenVINO's."""

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.tensors import Array
from ie_serving.wire.image import resized
from tests.unit.wire.image.pictures import noise

F32 = {"INFERENCE_PRECISION_HINT": "f32"}
"""Some processors would compute with 8 bits of mantissa."""
SIZES = [(1, 1), (2, 3), (5, 7), (8, 8), (3, 40), (64, 48)]


def by_definition(pixels: Array, height: int, width: int) -> Array:
    """Each pixel by itself, in float64."""
    old_height, old_width, _ = pixels.shape
    result = np.empty((height, width, pixels.shape[2]))
    for row in range(height):
        for column in range(width):
            y = min(max((row + 0.5) * old_height / height - 0.5, 0), old_height - 1)
            x = min(max((column + 0.5) * old_width / width - 0.5, 0), old_width - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, old_height - 1), min(left + 1, old_width - 1)
            upper = pixels[top, left] * (1 - x + left) + pixels[top, right] * (x - left)
            lower = pixels[bottom, left] * (1 - x + left) + pixels[bottom, right] * (x - left)
            result[row, column] = upper * (1 - y + top) + lower * (y - top)
    return result


def by_openvino(pixels: Array, height: int, width: int) -> Array:
    x = op.parameter([1, *pixels.shape], ov.Type.f32)
    sizes, axes = op.constant(np.array([height, width])), op.constant(np.array([1, 2]))
    node = op.interpolate(
        x, sizes, "linear_onnx", "sizes", axes=axes, coordinate_transformation_mode="half_pixel"
    )
    model = ov.Core().compile_model(ov.Model([node], [x], "resize"), "CPU", F32)
    return np.asarray(model(pixels[np.newaxis].astype(np.float32))[0])[0]


@pytest.mark.thinned
@pytest.mark.parametrize("old", SIZES, ids=str)
@pytest.mark.parametrize("new", SIZES, ids=str)
def test_each_pixel_is_that_of_the_definition(old: tuple[int, int], new: tuple[int, int]) -> None:
    pixels = noise(*old)
    np.testing.assert_allclose(resized(pixels, *new), by_definition(pixels, *new), atol=1e-3)


@pytest.mark.parametrize(("old", "new"), [((50, 70), (31, 17)), ((9, 5), (40, 40))])
def test_openvino_gives_the_same(old: tuple[int, int], new: tuple[int, int]) -> None:
    pixels = noise(*old)
    np.testing.assert_allclose(resized(pixels, *new), by_openvino(pixels, *new), atol=1e-2)


def test_an_image_of_that_size_stays_as_it_is() -> None:
    pixels = noise(5, 7)
    assert resized(pixels, 5, 7) is pixels


def test_half_the_size_is_the_mean_of_four() -> None:
    pixels = noise(8, 6)
    means = pixels.reshape(4, 2, 3, 2, 3).astype(np.float32).mean((1, 3))
    np.testing.assert_allclose(resized(pixels, 4, 3), means, atol=1e-4)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_nothing_leaves_the_range_of_the_pixels(h: int, w: int, height: int, width: int) -> None:
    pixels = noise(h, w, 1)
    result = resized(pixels, height, width)
    assert result.shape == (height, width, 1)
    assert pixels.min() - 1e-3 <= result.min()
    assert result.max() <= pixels.max() + 1e-3


def test_a_turned_view_is_resized_like_its_copy() -> None:
    turned = noise(12, 9)[::-1].swapaxes(0, 1)
    np.testing.assert_array_equal(resized(turned, 4, 5), resized(turned.copy(), 4, 5))
