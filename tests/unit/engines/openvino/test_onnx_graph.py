"""What OpenVINO's front end for ONNX converts wrongly answers as ONNX says, or is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ie_serving.core.errors import LoadFailed
from ie_serving.core.tensors import Array
from tests.unit.engines.openvino.models import load, run


def floats(*shape: int) -> Array:
    return np.random.default_rng(1).random(shape, np.float32) * 2 - 1


KERNEL = floats(1, 1, 3, 3)


def write(directory: Path, node: onnx.NodeProto, opset: int, x: Array, **constants: Array) -> None:
    """Write a model of one operator and one input `x`, open in all sizes as it has dimensions."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = helper.make_tensor_value_info(
        "x", kind, [None] * x.ndim if OPEN in node.name else x.shape
    )
    numbers = [onnx.numpy_helper.from_array(each, name) for name, each in constants.items()]
    results = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", [given], results, numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, str(directory / "model.onnx"))


OPEN = "open"
SIZES = pytest.mark.parametrize("sizes", ["fixed", OPEN])


async def answer(directory: Path, x: Array) -> Array:
    return (await run(load(directory), {"x": x}))["y"]


@SIZES
@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
async def test_negative_numbers_are_shifted_to_the_right(
    tmp_path: Path, kind: Any, sizes: str
) -> None:
    x, places = np.array([-4, -1, 7, -7, -9], kind), np.array([1, 1, 1, 70, -1], kind)
    node = helper.make_node("BitShift", ["x", "p"], ["y"], name=sizes, direction="RIGHT")
    write(tmp_path, node, 28, x, p=places)
    assert (await answer(tmp_path, x)).tolist() == [-2, -1, 3, -1, -1]


@SIZES
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2])
async def test_transposed_convolutions_are_padded(
    tmp_path: Path, padding: str, stride: int, sizes: str
) -> None:
    x = floats(1, 1, 4, 5)
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], name=sizes, strides=[stride] * 2, auto_pad=padding
    )
    write(tmp_path, node, 11, x, w=KERNEL)
    (expected,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(await answer(tmp_path, x), expected, atol=1e-5)


def test_a_transposed_convolution_to_a_shape_in_open_sizes_is_refused(tmp_path: Path) -> None:
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], name=OPEN, strides=[2, 2], output_shape=[8, 10]
    )
    write(tmp_path, node, 11, floats(1, 1, 4, 5), w=KERNEL)
    with pytest.raises(LoadFailed, match="OpenVINO does not compute output_shape in groups or in"):
        load(tmp_path)


@SIZES
async def test_no_window_begins_behind_the_last_element(tmp_path: Path, sizes: str) -> None:
    x = floats(1, 1, 2, 3)
    node = helper.make_node(
        "MaxPool", ["x"], ["y"], name=sizes, kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1
    )
    write(tmp_path, node, 12, x)
    assert np.array_equal(await answer(tmp_path, x), x[:, :, :1, ::2])


@SIZES
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
async def test_a_softmax_of_opset_11_is_one_over_all_axes_behind(
    tmp_path: Path, axis: int, sizes: str
) -> None:
    x = floats(2, 3, 4)
    write(tmp_path, helper.make_node("Softmax", ["x"], ["y"], name=sizes, axis=axis), 11, x)
    powers = np.exp(x.reshape(int(np.prod(x.shape[:axis])), -1))
    expected = (powers / powers.sum(1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(await answer(tmp_path, x), expected, atol=1e-5)


@pytest.mark.parametrize(("scale", "is_served"), [(2, True), (0.5, True), (0.6, False)])
async def test_corners_are_aligned_by_scales_to_whole_pixels(
    tmp_path: Path, scale: float, is_served: bool
) -> None:
    x, scales = floats(1, 1, 4, 6), np.array([1, 1, scale, scale], np.float32)
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode="linear",
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    write(tmp_path, node, 18, x, s=scales)
    if is_served:
        (expected,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})
        np.testing.assert_allclose(await answer(tmp_path, x), expected, atol=1e-5)
    else:
        with pytest.raises(LoadFailed, match="OpenVINO does not compute align_corners by scales"):
            load(tmp_path)


async def test_operators_that_are_made_of_others_are_read(tmp_path: Path) -> None:
    x = floats(2, 3)
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"], ignore_index=1)
    write(tmp_path, node, 22, x, t=np.array([2, 1]))
    np.testing.assert_allclose(await answer(tmp_path, x), -x[0, 2], atol=1e-6)
