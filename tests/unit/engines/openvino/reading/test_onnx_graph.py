"""What OpenVINO's front end for ONNX converts wrongly answers as ONNX says, or is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from tests.onnx_models import Of, onnx_model, save_onnx
from tests.unit.engines.openvino.models import load, run
from tests.unit.engines.openvino.operators.asked import floats

KERNEL = floats(1, 1, 3, 3)


def write(directory: Path, node: onnx.NodeProto, opset: int, x: Array, **constants: Array) -> None:
    """Write a model of one operator and one input `x`, open in all sizes as it has dimensions."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = {"x": Of(kind, [None] * x.ndim if OPEN in node.name else x.shape)}
    model = onnx_model([node], given, "", opset=opset, **constants)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    onnx.save(model, str(directory / "model.onnx"))


OPEN = "open"
SIZES = pytest.mark.parametrize("sizes", ["fixed", OPEN])


async def answer(directory: Path, x: Array) -> Array:
    return (await run(load(directory, inference_precision="f32"), {"x": x}))["y"]


@pytest.mark.parametrize("place", ["graph", "branch"])
@pytest.mark.parametrize("form", ["given", "computed", "by token"])
async def test_keys_that_come_by_head_get_no_bias(tmp_path: Path, place: str, form: str) -> None:
    """As onnxruntime computes them, whose operator it is; keys by token get one."""
    sizes = [1, "t", 8] if form == "by token" else [1, 2, "t", 4]
    keys = ["kk", "vv"] if form == "computed" else ["k", "v"]
    attend = helper.make_node(
        "MultiHeadAttention", ["q", *keys, "b"], ["y"], domain="com.microsoft", num_heads=2
    )
    nodes = [helper.make_node("Neg", ["k"], ["kk"]), helper.make_node("Neg", ["v"], ["vv"]), attend]
    constants = {"b": floats(24)}
    if place == "branch":
        graph = helper.make_graph([attend], "g", [], [onnx.ValueInfoProto(name="y")])
        branch = helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph)
        nodes[2:] = [branch]
        constants["c"] = np.array(True)
    ends = {"q": [1, "s", 8], "k": sizes, "v": sizes}
    output, domains = "z" if place == "branch" else "y", {"com.microsoft": 1}
    file = save_onnx(tmp_path / "m.onnx", nodes, ends, output, domains=domains, **constants)
    by_token = (1, 5, 8) if form == "by token" else (1, 2, 5, 4)
    given = {"q": floats(1, 3, 8), "k": floats(*by_token), "v": floats(*by_token)[..., ::-1].copy()}
    (expected,) = onnxruntime.InferenceSession(str(file)).run(None, given)
    found = await run(load(tmp_path, inference_precision="f32"), given)
    np.testing.assert_allclose(found[output], expected, atol=1e-5)


@SIZES
@pytest.mark.parametrize("other", [(3, 4), (2, 3, 4), (3,)])
@pytest.mark.parametrize("zeros", [[], ["z"]], ids=["no zero point", "zero point"])
async def test_a_vector_of_integers_times_a_matrix_is_a_vector(
    tmp_path: Path, other: tuple[int, ...], zeros: list[str], sizes: str
) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w", *zeros], ["y"], name=sizes)
    x, weights = np.uint8([1, 200, 7]), floats(*other).astype(np.int8) + np.int8(3)
    write(tmp_path, node, 10, x, w=weights, z=np.uint8(5))
    (expected,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})
    found = await answer(tmp_path, x)
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


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


@SIZES
async def test_numbers_are_divided_by_the_scale_that_is_given(tmp_path: Path, sizes: str) -> None:
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"], name=sizes)
    write(tmp_path, node, 11, x)
    assert (await answer(tmp_path, x)).tolist() == [153, 255, 0, 26, 221, 179]


HALVES = np.array([[0.25, 0.75, 1.25, -0.25, 200, -200]], np.float32)


@SIZES
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16])
async def test_halves_are_rounded_before_an_odd_zero_point_is_added(
    tmp_path: Path, kind: Any, sizes: str
) -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], name=sizes)
    write(tmp_path, node, 21, HALVES, s=np.float32(0.5), z=kind(3))
    last, first = np.iinfo(kind).max, np.iinfo(kind).min
    expected = np.clip(np.rint(HALVES / 0.5) + 3, first, last)
    assert np.array_equal(await answer(tmp_path, HALVES), expected)


async def test_halves_are_rounded_before_a_zero_point_of_a_request(tmp_path: Path) -> None:
    given = {"x": [4], "s": [4], "z": Of(TensorProto.UINT8, [4])}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=0)
    save_onnx(tmp_path / "model.onnx", [node], given, "y", opset=21)
    x, scales = HALVES[0, :4], np.array([0.5, 0.5, 0.5, 0.1], np.float32)
    zeros = np.array([3, 2, 1, 7], np.uint8)
    found = await run(load(tmp_path), {"x": x, "s": scales, "z": zeros})
    assert found["y"].tolist() == [3, 4, 3, 5]


PADDED = """
<ir_version: 12, opset_import: ["": 24]>
padded (
    bfloat16[2,3,4,8] q, bfloat16[2,3,6,8] k, bfloat16[2,3,6,8] v, bfloat16[2,3,4,4] mask,
    int64[2] lengths
) => (bfloat16[2,3,4,8] y) {
    y = Attention <is_causal = 1> (q, k, v, mask, "", "", lengths)
}
"""


async def test_attention_of_bfloat16_gives_0_for_a_row_that_is_masked(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(PADDED)
    onnx.save(model, str(tmp_path / "model.onnx"))
    rng, shapes = (
        np.random.default_rng(0),
        {"q": (2, 3, 4, 8), "k": (2, 3, 6, 8), "v": (2, 3, 6, 8)},
    )
    given = {name: rng.normal(size=shape).astype(bfloat16) for name, shape in shapes.items()}
    given["mask"] = np.zeros((2, 3, 4, 4), bfloat16)
    given["mask"][0, 1, 2] = -np.inf
    given["lengths"] = np.array([4, 1])
    (expected,) = ReferenceEvaluator(model).run(None, given)
    found = (await run(load(tmp_path), given))["y"]
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), atol=0.03)
    assert not found[0, 1, 2].any()


@pytest.mark.parametrize("size", [3, None])
async def test_pieces_of_a_sequence_are_counted_where_they_are_known(
    tmp_path: Path, size: int | None
) -> None:
    given = {"x": [6], "lengths": Of(TensorProto.INT64, [size])}
    operators = [
        helper.make_node("SplitToSequence", ["x", "lengths"], ["pieces"]),
        helper.make_node("SequenceLength", ["pieces"], ["y"]),
    ]
    y = Of(TensorProto.INT64, [])
    save_onnx(tmp_path / "model.onnx", operators, given, {"y": y}, opset=12)
    inputs = {"x": floats(6), "lengths": np.array([1, 2, 3])}
    if size:
        assert (await run(load(tmp_path), inputs))["y"] == size
    else:
        with pytest.raises(LoadFailed, match="does not count the lengths of an open size"):
            load(tmp_path)


async def test_inputs_are_called_as_the_file_does(tmp_path: Path) -> None:
    """The front end calls an input that is an output like the output, and drops others."""
    given = {"z": [2], "x": [2], "axes": Of(TensorProto.INT64, [0])}
    operators = [
        helper.make_node("Dropout", ["z"], ["a"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1),
    ]
    save_onnx(tmp_path / "model.onnx", operators, given, "ay", opset=18)
    loaded = load(tmp_path)
    signature = loaded.signatures[SERVING_DEFAULT]
    assert set(signature.inputs) == {"z", "x"}
    assert signature.ignored == {"axes"}
    found = await run(loaded, {"z": np.float32([1, 2]), "x": np.float32([3, 4])})
    assert {name: each.tolist() for name, each in found.items()} == {"a": [1, 2], "y": [7]}


async def test_an_input_of_a_sequence_that_is_an_output_has_its_own_name(tmp_path: Path) -> None:
    given = {"x": [2], "y": [2]}
    operators = [
        helper.make_node("SequenceConstruct", ["x", "y"], ["s"]),
        helper.make_node("SequenceAt", ["s", "place"], ["z"]),
        helper.make_node("Neg", ["x"], ["n"]),
    ]
    save_onnx(tmp_path / "model.onnx", operators, given, "zn", opset=12, place=np.array(1))
    loaded = load(tmp_path)
    found = await run(loaded, {"x": np.float32([1, 2]), "y": np.float32([3, 4])})
    assert {name: each.tolist() for name, each in found.items()} == {"z": [3, 4], "n": [-1, -2]}


@pytest.mark.parametrize("rounds", [-7, -1, 0, 3, None])
async def test_a_loop_of_less_than_no_rounds_makes_none(tmp_path: Path, rounds: int | None) -> None:
    """OpenVINO takes such a number for no limit."""
    ends = [
        helper.make_tensor_value_info("at", TensorProto.INT64, []),
        helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
        helper.make_tensor_value_info("before", TensorProto.FLOAT, [1]),
    ]
    inner = [
        helper.make_node("Add", ["before", "one"], ["behind"]),
        helper.make_node("Less", ["behind", "nine"], ["on"]),
    ]
    results = [onnx.ValueInfoProto(name="on"), onnx.ValueInfoProto(name="behind")]
    body = helper.make_graph(inner, "body", ends, results)
    given: dict[str, Any] = {"rounds": Of(TensorProto.INT64, []), "x": [1]}
    sent = {"rounds": np.array(rounds), "x": np.float32([2])}
    if rounds is None:
        del given["rounds"], sent["rounds"]
    count = "" if rounds is None else "rounds"
    loop = helper.make_node("Loop", [count, "", "x"], ["y"], body=body)
    held = {"one": np.float32([1]), "nine": np.array(9, np.float32)}
    save_onnx(tmp_path / "model.onnx", [loop], given, "y", **held)
    expected = 9 if rounds is None else 2 + max(rounds, 0)
    assert (await run(load(tmp_path), sent))["y"].tolist() == [expected]
