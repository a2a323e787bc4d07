"""Faults of single operations: strings, boxes, axes, channels, the ends of floats."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest
import tensorflow as tf
from ml_dtypes import bfloat16
from onnx import helper

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.openvino.faults.element_types import RIGHT
from ie_serving.engines.openvino.faults.fusions import RULES
from ie_serving.engines.openvino.faults.hazards import TENSORFLOW
from ie_serving.engines.openvino.graphs.rules import Rules, visit
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import load, parameter, result, run, save, unary
from tests.unit.engines.openvino.operators.asked import Given, check, floats, write

# Strings come out of each operation as they went in, or the model is refused.

TIMES = 200
"""Inferences; what is freed twice ended the process in one of the first three."""
ONE, TWO = b"one text that has memory of its own", b"and another one that has, too"
Make = Callable[[Any], Any]


def whole(*numbers: int) -> Any:
    return op.constant(np.array(numbers, np.int64))


def at(number: int) -> Any:
    return op.constant(np.int64(number))


def column(x: Any) -> Any:
    return op.reshape(x, whole(-1, 1), special_zero=False)


RIGHT_ONES: Mapping[str, tuple[Make, Any]] = {
    "Identity": (op.identity, [ONE, TWO]),
    "Reshape": (column, [[ONE], [TWO]]),
    "Squeeze": (lambda x: op.squeeze(column(x), whole(1)), [ONE, TWO]),
    "Unsqueeze": (lambda x: op.unsqueeze(x, whole(0)), [[ONE, TWO]]),
    "Transpose": (
        lambda x: op.transpose(op.concat([column(x), column(x)], 1), whole(1, 0)),
        [[ONE, TWO], [ONE, TWO]],
    ),
    "Concat": (lambda x: op.concat([x, x], 0), [ONE, TWO, ONE, TWO]),
    "Gather": (lambda x: op.gather(x, whole(1, 0), at(0)), [TWO, ONE]),
}


@pytest.mark.parametrize("kind", RIGHT_ONES)
async def test_operations_on_strings_that_are_right_are_served(tmp_path: Path, kind: str) -> None:
    make, expected = RIGHT_ONES[kind]
    x = parameter("x", (-1,), DataType.STRING)
    model = load(save(tmp_path, [result("y", make(x))], [x]))
    for _ in range(TIMES):
        answer = await run(model, {"x": np.array([ONE, TWO], object)})
        assert answer["y"].tolist() == expected


def test_operations_on_strings_that_are_right_are_tried() -> None:
    asked_otherwise = {"Parameter", "Constant", "Result", "If", "ShapeOf"}
    packed = {"StringTensorPack", "StringTensorUnpack"}
    assert {*RIGHT_ONES, *asked_otherwise, *packed} - {"Identity"} == RIGHT


WRONG: Mapping[str, Make] = {
    "Slice": lambda x: op.slice(x, whole(0), whole(1), whole(1)),
    "StridedSlice": lambda x: op.strided_slice(x, whole(0), whole(1), whole(1), [0], [0]),
    "Split": lambda x: op.split(x, at(0), 1).output(0),
    "VariadicSplit": lambda x: op.variadic_split(x, at(0), whole(1, -1)).output(0),
    "ScatterUpdate": lambda x: op.scatter_update(x, whole(0), op.gather(x, whole(1), at(0)), at(0)),
    "DepthToSpace": lambda x: op.depth_to_space(
        op.reshape(x, whole(-1, 4, 1, 1), special_zero=False), "blocks_first", 2
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_an_operation_that_would_end_the_process_is_refused(tmp_path: Path, kind: str) -> None:
    x = parameter("x", (-1,), DataType.STRING)
    path = save(tmp_path, [result("y", WRONG[kind](x))], [x])
    with pytest.raises(LoadFailed, match=f"is a {kind} of strings"):
        load(path)


# Fake quantization rounds halves as TensorFlow does.


@pytest.mark.parametrize("bits", [4, 8])
def test_halves_are_rounded_up_and_nothing_else_changes(bits: int) -> None:
    most, last = 6.0, 2**bits - 1
    steps = np.arange(0, last, dtype=np.float32)
    parts = np.array([0.25, 0.499, 0.5, 0.501, 0.75], np.float32)
    values = ((steps[:, np.newaxis] + parts) * np.float32(most / last)).ravel()
    values = np.concatenate([values, np.float32([0, 1, 3, 5, most, 7, -1])])
    x = parameter("x", (-1,))
    ends = [op.constant(np.float32(each)) for each in (0, most, 0, most)]
    model = ov.Model([result("y", op.fake_quantize(x, *ends, last + 1))], [x])
    visit(model, TENSORFLOW)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    got = ov.Core().compile_model(model, "CPU", exact)(values)[0]
    expected = tf.quantization.fake_quant_with_min_max_args(values, 0, most, bits)
    np.testing.assert_allclose(got, expected.numpy(), atol=1e-6)


# Soft suppression of boxes without an area: as TensorFlow computes it, where it had no end.

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


def test_boxes_by_their_centres_are_suppressed_rightly(tmp_path: Path) -> None:
    boxes, scores = np.zeros((ROWS, 4), np.float32), np.linspace(1, 0.1, ROWS, dtype=np.float32)
    boxes[0] = boxes[1] = (5, 5, 2, 2)
    places, chosen = answer(saved(tmp_path, -np.inf, "center"), boxes, scores)
    kept = np.delete(np.arange(ROWS), 1)[:MOST]
    np.testing.assert_array_equal(places, kept)
    np.testing.assert_array_equal(chosen, scores[kept])


def test_boxes_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    boxes, scores = some("boxes"), np.ones(ROWS, np.float32)
    model = saved(tmp_path, -np.inf, "corner")
    for value in np.nan, np.inf, 1e16:
        boxes[3, 1] = value
        with pytest.raises(InvalidRequest, match="boxes that are no numbers"):
            answer(model, boxes, scores)


# Axes that a request chooses are those of the answer, or are refused.


@pytest.mark.parametrize("opened", [{}, {"x": (0, 1)}], ids=["fixed", "open"])
async def test_sizes_of_1_are_put_in(tmp_path: Path, opened: dict[str, tuple[int, ...]]) -> None:
    asked = [
        {"x": floats(2, 3), "a": np.array(axes)} for axes in ([0, 1], [2, 0], [-1, 1], [3, -4])
    ]
    write(tmp_path, helper.make_node("Unsqueeze", ["x", "a"], ["y"]), asked[0], opened)
    await check(tmp_path, *asked)


@pytest.mark.parametrize(
    "kind", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSum"]
)
@pytest.mark.parametrize("axes", [[0, 1], [-1, 0], [2, 1], [2, 0, 1]], ids=str)
async def test_reduced_axes_are_left_out(tmp_path: Path, kind: str, axes: list[int]) -> None:
    given = {"x": floats(2, 3, 4) + 2, "a": np.array(axes)}
    node = helper.make_node(kind, ["x", "a"], ["y"], keepdims=0)
    await check(write(tmp_path, node, given, opset=18), given)


@pytest.mark.parametrize("opened", [{}, {"x": (0, 2)}], ids=["fixed", "open"])
async def test_parts_are_cut_out(tmp_path: Path, opened: dict[str, tuple[int, ...]]) -> None:
    limits = [
        ([1, 0], [3, 2], [2, 0], [1, 1]),
        ([-1, 9], [-9, 2**31 - 1], [-1, 0], [-2, 1]),
        ([-9, 2], [1, -9], [-3, 1], [1, -1]),
    ]
    asked = [
        {"x": floats(3, 3, 5), **dict(zip("bear", map(np.array, each), strict=True))}
        for each in limits
    ]
    write(tmp_path, helper.make_node("Slice", list("xbear"), ["y"]), asked[0], opened)
    await check(tmp_path, *asked)


@pytest.mark.parametrize(
    ("kind", "shape", "more"),
    [
        ("Unsqueeze", (2, 3), {}),
        ("ReduceSum", (2, 3, 1, 4), {}),
        ("Slice", (2, 3, 1, 4), {"b": np.array([0, 0]), "e": np.array([1, 1])}),
    ],
)
async def test_axes_that_are_not_there_or_named_twice_are_refused(
    tmp_path: Path, kind: str, shape: tuple[int, ...], more: Given
) -> None:
    given = {"x": floats(*shape), **more, "a": np.array([0, 1])}
    keeps = {"keepdims": 0} if kind == "ReduceSum" else {}
    model = load(write(tmp_path, helper.make_node(kind, list(given), ["y"], **keeps), given))
    for axes in [1, 1], [2, 2], [0, -4], [0, 4], [-5, 1]:
        with pytest.raises(InvalidRequest):
            await run(model, {**given, "a": np.array(axes)})


def test_axes_of_any_number_are_refused(tmp_path: Path) -> None:
    given = {"x": floats(3, 3), "b": np.array([0]), "e": np.array([2]), "a": np.array([1])}
    write(
        tmp_path, helper.make_node("Slice", list("xbea"), ["y"]), given, dict.fromkeys("bea", (0,))
    )
    with pytest.raises(LoadFailed, match="are values of a request"):
        load(tmp_path)


async def test_axes_that_follow_from_shapes_leave_sizes_known(tmp_path: Path) -> None:
    """The front end computes those of a kernel's zero points, and the plugin asks for its sizes."""
    given = {
        "x": np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3),
        "w": np.ones((2, 1, 2, 2), np.uint8),
        "z": np.array(1, np.uint8),
        "zs": np.array([0, 1], np.uint8),
    }
    node = helper.make_node("ConvInteger", list(given), ["y"])
    await check(write(tmp_path, node, given), given)


# Values per channel behind a reduction of three dimensions are those of their own channels.

CHANNELS = np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 24 + 0.5
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean": (op.reduce_mean, np.mean),
    "sum": (op.reduce_sum, np.sum),
    "max": (op.reduce_max, np.max),
    "min": (op.reduce_min, np.min),
    "product": (op.reduce_prod, np.prod),
    "l1": (op.reduce_l1, np.sum),
}


def channels(rank: int, axis: int, keeps: bool) -> Any:
    """Values for the two channels, by the dimension in which they lie behind the reduction."""
    place = 0 if axis == 0 and not keeps else 1
    return np.array([100, -200], np.float32).reshape(
        [2 if at == place else 1 for at in range(rank)]
    )


@pytest.mark.parametrize("open_rows", [True, False])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("name", REDUCTIONS)
async def test_channels_behind_a_reduction_are_its_own(
    tmp_path: Path, name: str, axis: int, keeps: bool, open_rows: bool
) -> None:
    reduce, means = REDUCTIONS[name]
    x = parameter("x", (-1 if open_rows else 3, 2, 4))
    reduced = reduce(x, op.constant(np.array([axis], np.int64)), keeps)
    expected = means(CHANNELS, axis=axis, keepdims=keeps)
    values = channels(expected.ndim, axis, keeps)
    # One reader: what several operations read is not fused.
    scaled = op.multiply(op.sqrt(reduced), op.constant(values))
    model = load(save(tmp_path, [result("y", scaled)], [x]))
    answer = await run(model, {"x": CHANNELS})
    np.testing.assert_allclose(answer["y"], np.sqrt(expected) * values, rtol=1e-5)


def test_a_normalization_of_layers_is_left_as_it_is() -> None:
    """What subtracts the mean from its own data is fused otherwise, and must stay so."""
    x = parameter("x", (-1, 2, 4))
    axes = op.constant(np.array([2], np.int64))
    centred = op.subtract(x, op.reduce_mean(x, axes, True))
    variance = op.reduce_mean(op.multiply(centred, centred), axes, True)
    scaled = op.divide(centred, op.sqrt(op.add(variance, op.constant(np.float32(1e-6)))))
    model = ov.Model([result("y", op.multiply(scaled, op.constant(np.ones(4, np.float32))))], [x])
    visit(model, Rules(RULES))
    assert "Unsqueeze" not in {node.get_type_name() for node in model.get_ops()}


# Ends of floats and of nothing: infinity as float64, the greatest and the mean of no numbers.

WAYS = pytest.mark.parametrize("execution", ["inline", "async"])
OTHERWISE = (DataType.FP32, DataType.FP64, DataType.INT64, DataType.UINT32, DataType.INT16)


def first_axis() -> Any:
    return op.constant(np.array([0]))


@WAYS
@pytest.mark.parametrize("size", [-1, 5])
@pytest.mark.parametrize("side", ["input", "output"])
async def test_a_number_is_rounded_to_the_nearest_bfloat16(
    tmp_path: Path, execution: str, size: int, side: str
) -> None:
    """OpenVINO itself makes 1.0 of 1.006."""
    given = np.array([1.006, -1.0039, np.nan, np.inf, 3.4e38], np.float32)
    x = parameter("x", (size,), DataType.FP32 if side == "output" else DataType.BF16)
    y = op.convert(op.abs(x), "bf16" if side == "output" else "f32")
    model = load(save(tmp_path, [result("y", y)], [x]), execution=execution)
    for _ in range(2):
        answer = (await run(model, {"x": given}))["y"]
        expected = np.abs(given.astype(bfloat16)).astype(np.float32)
        np.testing.assert_array_equal(answer, expected)


@WAYS
@pytest.mark.parametrize("size", [-1, 3])
async def test_infinity_stays_infinity_as_double(tmp_path: Path, execution: str, size: int) -> None:
    """The plugin itself gives the largest float32 for it."""

    def quotient(x: Any) -> Any:
        real = op.convert(x, "f64")
        return op.divide(real, op.subtract(real, real))

    model = load(unary(tmp_path, [size], DataType.INT32, quotient), execution=execution)
    for _ in range(2):
        answer = (await run(model, {"x": np.array([1, -1, 0], np.int32)}))["y"]
        assert answer.dtype == np.float64
        assert np.array_equal(answer, [np.inf, -np.inf, np.nan], equal_nan=True)


@WAYS
@pytest.mark.parametrize("size", [-1, 3])
async def test_infinity_is_taken_as_double(tmp_path: Path, execution: str, size: int) -> None:
    """Given as a double the plugin makes the largest float32 of it."""
    path = unary(tmp_path, [size], DataType.FP64, lambda x: op.multiply(x, op.constant(2.0)))
    model = load(path, execution=execution)
    answer = (await run(model, {"x": np.array([np.inf, -np.inf, 0.5])}))["y"]
    assert answer.tolist() == [np.inf, -np.inf, 1]
    with pytest.raises(InvalidTensor, match="computes double in 32 bits"):
        await run(model, {"x": np.array([np.inf, 1e300, 0.5])})


async def test_a_double_that_is_passed_through_keeps_its_bits(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [2], DataType.FP64, lambda x: x))
    (answer,) = (await run(model, {"x": np.array([0.1, 1e300])})).values()
    assert answer.tolist() == [0.1, 1e300]


@pytest.mark.parametrize("dtype", OTHERWISE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("reduce", [op.reduce_max, op.reduce_min, op.reduce_mean])
async def test_of_nothing_no_end_is_made_up(
    tmp_path: Path, dtype: DataType, reduce: Callable[..., Any]
) -> None:
    """TensorFlow gives infinity, an end of 64 or 16 bits, or NaN; the plugin neither."""
    path = unary(tmp_path, [-1], dtype, lambda x: reduce(x, first_axis(), False))
    model = load(path, integers="exact")
    assert (await run(model, {"x": np.array([7], dtype.numpy)}))["y"] == 7
    with pytest.raises(InvalidTensor, match=r"nothing is left for|has no numbers"):
        await run(model, {"x": np.array([], dtype.numpy)})


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.INT8, DataType.UINT8])
async def test_ends_of_nothing_that_are_right_are_given(tmp_path: Path, dtype: DataType) -> None:
    path = unary(tmp_path, [-1], dtype, lambda x: op.reduce_max(x, first_axis(), False))
    model = load(path, integers="exact")
    answer = await run(model, {"x": np.array([], dtype.numpy)})
    assert answer["y"] == np.iinfo(dtype.numpy).min
