"""Sizes that the values of a request ask for; every operation is in `tests/functional`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op
from openvino import opset15

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.openvino.faults.hazards import VALUES
from ie_serving.engines.openvino.graphs.rules import visit
from tests.unit.engines.openvino.models import load, parameter, result, run, save, unary


@pytest.mark.parametrize("start", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("stop", [np.int32, np.int64, np.float32])
def test_the_ends_of_a_range_may_differ_in_dtype(start: type, stop: type) -> None:
    begin = op.parameter([], start, name="start")
    end = op.parameter([], stop, name="stop")
    numbers = op.range(begin, end, op.constant(np.int64(2)), "f32")
    model = ov.Model([op.result(numbers)], [begin, end], "counts")
    assert len(visit(model, VALUES, from_end=True).flags) == 1
    compiled = ov.Core().compile_model(model, "CPU")
    assert compiled([start(3), stop(8)])[0].tolist() == [3, 5, 7]


@pytest.mark.parametrize("step", [0, -(2**31)])
async def test_a_step_that_cannot_be_divided_by_is_refused(tmp_path: Path, step: int) -> None:
    """The plugin turned the step around and divided by what 32 bits left of it: SIGFPE."""
    x, ends = parameter("x", [5]), parameter("ends", [3], DataType.INT32)
    zero = op.constant(np.array(0, np.int64))
    at = [op.gather(ends, op.constant(np.array([place], np.int64)), zero) for place in range(3)]
    model = load(save(tmp_path, [result("y", op.slice(x, *at))], [x, ends]))
    inputs = {"x": np.arange(5, dtype=np.float32), "ends": np.array([4, 0, -2], np.int32)}
    assert (await run(model, inputs))["y"].tolist() == [4, 2]
    with pytest.raises(InvalidTensor, match="steps of 0"):
        await run(model, {**inputs, "ends": np.array([2**31 - 1, 3, step], np.int32)})


def whole(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def first(x: Any) -> Any:
    return op.convert(op.gather(x, whole(0), op.constant(np.int64(0))), "i64")


def rows(count: int) -> Any:
    return op.constant(np.arange(count * 4, dtype=np.float32).reshape(count, 4))


def split(data: Any, lengths: Any) -> Any:
    return op.variadic_split(data, op.constant(np.int64(0)), lengths).output(0)


def picked(x: Any) -> Any:
    """Give the values that are not 0."""
    places = op.squeeze(op.non_zero(x, "i64"), whole(0))
    return op.gather(x, places, op.constant(np.int64(0)))


SPLITS: dict[str, Callable[[Any], Any]] = {
    "lengths": lambda x: split(rows(6), op.concat([first(x), whole(-1)], 0)),
    "rest first": lambda x: split(rows(6), op.concat([whole(-1), first(x)], 0)),
    "data": lambda x: split(picked(x), whole(6, -1)),
    "shape": lambda x: split(x, whole(6, -1)),
}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        pytest.param("lengths", [2], [7], id="lengths too long"),
        pytest.param("lengths", [6], [-2], id="lengths below 0"),
        pytest.param("rest first", [2], [7], id="a rest that is too long"),
        pytest.param("data", [1] * 7, [1] * 5, id="fewer data"),
        pytest.param("shape", [1] * 7, [1] * 5, id="a smaller shape"),
    ],
)
async def test_parts_are_not_longer_than_the_whole(
    tmp_path: Path, kind: str, good: list[float], bad: list[float]
) -> None:
    """A rest of -1 was taken for one to be found: a part reached into other memory by a row."""
    x = parameter("x", [-1])
    model = load(save(tmp_path, [result("y", SPLITS[kind](x))], [x]))
    expected = await run(model, {"x": np.array(good, np.float32)})
    with pytest.raises((InvalidTensor, InvalidRequest)):
        await run(model, {"x": np.array(bad, np.float32)})
    again = await run(model, {"x": np.array(good, np.float32)})
    assert again["y"].tolist() == expected["y"].tolist()


async def test_pads_that_32_bits_do_not_add_up_are_refused(tmp_path: Path) -> None:
    """Of -2^31 at both ends nothing was left but the size itself, and the process ended."""
    x = parameter("x", [2], DataType.INT32)
    ends = [op.gather(x, whole(place), op.constant(np.int64(0))) for place in range(2)]
    padded = op.pad(op.constant(np.arange(4, dtype=np.float32)), *ends, "constant")
    model = load(save(tmp_path, [result("y", padded)], [x]))
    for bad in (-(2**31), -(2**31)), (-5, 5), (5, -5):
        assert (await run(model, {"x": np.array([1, -1], np.int32)}))["y"].tolist() == [0, 0, 1, 2]
        with pytest.raises(InvalidTensor, match="cut off more than there are"):
            await run(model, {"x": np.array(bad, np.int32)})


async def test_offsets_of_a_deformable_convolution_are_numbers(tmp_path: Path) -> None:
    """NaN ended the process."""
    x = parameter("x", [1, 2, 4, 4])
    image, weights = (
        op.constant(np.ones(shape, np.float32)) for shape in ([1, 2, 4, 4], [1, 2, 1, 1])
    )
    pixels = op.deformable_convolution(image, x, weights, [1, 1], [0, 0], [0, 0], [1, 1])
    model = load(save(tmp_path, [result("y", pixels)], [x]))
    for bad in np.nan, np.inf, -np.inf:
        assert np.all((await run(model, {"x": np.zeros((1, 2, 4, 4), np.float32)}))["y"] == 2)
        with pytest.raises(InvalidTensor, match="out of range in its input 1"):
            await run(model, {"x": np.full((1, 2, 4, 4), bad, np.float32)})


CHOSEN_AXES: dict[str, Callable[[Any], Any]] = {
    "Broadcast": lambda x: op.broadcast(whole(1, 2), whole(4, 2), first(x), "explicit"),
    "Slice": lambda x: op.slice(rows(4), whole(0), whole(2), whole(1), first(x)),
}


@pytest.mark.parametrize("name", CHOSEN_AXES)
def test_a_model_whose_requests_choose_an_axis_is_not_served(tmp_path: Path, name: str) -> None:
    """Each ended the process, `Slice` when it was loaded."""
    x = parameter("x", [-1])
    directory = save(tmp_path, [result("y", CHOSEN_AXES[name](x))], [x])
    with pytest.raises(LoadFailed, match=f'{name} "[^"]+" computes with axes, sizes or labels'):
        load(directory)


SCATTERS: dict[str, Callable[[Any], Any]] = {
    "ScatterElementsUpdate": lambda axis: op.scatter_elements_update(
        rows(4), op.constant(np.zeros((1, 4), np.int64)), rows(1), axis
    ),
    "ScatterUpdate": lambda axis: op.scatter_update(rows(4), whole(0), rows(1), axis),
}


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("shape", [[], [1]], ids=str)
async def test_an_axis_among_the_dimensions_is_taken(
    tmp_path: Path, name: str, shape: list[int]
) -> None:
    """One of a million ended the process."""
    axis = parameter("axis", shape, DataType.INT32)
    model = load(save(tmp_path, [result("y", SCATTERS[name](axis))], [axis]))
    expected = np.arange(16).reshape(4, 4).tolist()
    for bad in 1_000_000, 2, -3, -(2**31):
        for good in 0, -2:
            given = {"axis": np.full(shape, good, np.int32)}
            assert (await run(model, given))["y"].tolist() == [[0, 1, 2, 3], *expected[1:]]
        with pytest.raises(InvalidRequest, match="out of range"):
            await run(model, {"axis": np.full(shape, bad, np.int32)})


def recurrent(kind: str, direction: str, x: Any, h: Any, lengths: Any) -> Any:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = op.constant(np.full((1, gates * 2, 2), 0.1, np.float32))
    rest = (lengths, weights, weights, op.constant(np.zeros((1, gates * 2), np.float32)))
    if kind == "LSTM":
        return op.lstm_sequence(x, h, h, *rest, 2, direction).output(0)
    sequence = op.gru_sequence if kind == "GRU" else op.rnn_sequence
    return sequence(x, h, *rest, 2, direction).output(0)


@pytest.mark.parametrize("batch", [2, -1])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
async def test_lengths_of_a_recurrent_layer_are_effective_or_refused(
    tmp_path: Path, kind: str, direction: str, batch: int
) -> None:
    """In open shapes they were ignored; beyond the sequence the reverse ones failed by INTERNAL."""
    x, h = parameter("x", [batch, 3, 2]), parameter("h", [batch, 1, 2])
    lengths = parameter("lengths", [batch], DataType.INT32)
    y = recurrent(kind, direction, x, h, lengths)
    model = load(save(tmp_path, [result("y", y)], [x, h, lengths]), inference_precision="f32")
    rows = np.arange(12, dtype=np.float32).reshape(2, 3, 2) + 1
    inputs = {"x": rows, "h": np.zeros((2, 1, 2), np.float32)}
    full = (await run(model, {**inputs, "lengths": np.array([3, 3], np.int32)}))["y"]
    assert np.all(full != 0)
    short = {**inputs, "lengths": np.array([3, 2], np.int32)}
    if batch == 2:
        assert (await run(model, short))["y"][1, 0, 2].tolist() == [0, 0]
    for bad in [4, -1] if batch == 2 else [4, -1, 2, 0]:
        with pytest.raises(InvalidRequest, match=f'{kind}Sequence "[^"]+" is given lengths'):
            await run(model, {**inputs, "lengths": np.array([3, bad], np.int32)})
        again = await run(model, {**inputs, "lengths": np.array([3, 3], np.int32)})
        assert again["y"].tolist() == full.tolist()


async def test_lengths_that_are_those_of_the_sequence_cost_nothing(tmp_path: Path) -> None:
    """As exports without lengths write them: out of the shape of what is read."""
    x, h = parameter("x", [-1, -1, 2]), parameter("h", [-1, 1, 2])
    size = op.shape_of(x)
    zero = op.constant(np.int64(0))
    lengths = op.broadcast(op.gather(size, whole(1), zero), op.gather(size, whole(0), zero))
    graph = ov.Model([op.result(recurrent("GRU", "reverse", x, h, lengths))], [x, h], "model")
    assert visit(graph, VALUES, from_end=True).flags == []


def regions(x: Any) -> Any:
    return op.region_yolo(x, 4, 2, 2, False, [0, 1], 1, 3, [1.0, 2.0] * 2)


@pytest.mark.parametrize("channels", [-1, 13])
def test_regions_without_their_channels_are_not_served(tmp_path: Path, channels: int) -> None:
    """The plugin wrote beyond its memory, at load already, and the process ended."""
    unary(tmp_path, (-1, channels, -1, -1), DataType.FP32, regions)
    with pytest.raises(LoadFailed, match=r'RegionYolo "[^"]+" may be given fewer channels'):
        load(tmp_path)


async def test_regions_with_their_channels_are_served(tmp_path: Path) -> None:
    model = load(unary(tmp_path, (-1, 14, -1, -1), DataType.FP32, regions))
    answer = await run(model, {"x": np.zeros((1, 14, 2, 2), np.float32)})
    assert answer["y"].ravel()[0] == 0.5


TO_NOTHING: dict[str, Callable[[Any], Any]] = {
    "DFT": lambda n: op.dft(_ones(1, 4, 2), _axes(1), op.convert(n, "i64")),
    "IDFT": lambda n: op.idft(_ones(1, 4, 2), _axes(1), op.convert(n, "i64")),
}


def _ones(*shape: int) -> Any:
    return op.constant(np.ones(shape, np.float32))


def _axes(*axes: int) -> Any:
    return op.constant(np.array(axes))


@pytest.mark.parametrize("name", TO_NOTHING)
async def test_a_transform_of_size_0_is_refused(tmp_path: Path, name: str) -> None:
    """They ended the process: the load measured them with zeros, and clients might ask for them."""
    model = load(unary(tmp_path, (1,), DataType.FP32, TO_NOTHING[name]))
    with pytest.raises(InvalidTensor, match="or for none"):
        await run(model, {"x": np.array([0], np.float32)})
    assert (await run(model, {"x": np.array([2], np.float32)}))["y"].size


TO_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "left out": lambda x: op.irdft(x, _axes(0, 1)),
    "-1": lambda x: op.irdft(x, _axes(0, 1), op.constant(np.array([2, -1]))),
    "computed": lambda x: op.irdft(x, _axes(1), _less_one(x)),
}


def _less_one(x: Any) -> Any:
    size = op.gather(op.shape_of(x), op.constant(np.array([1])), op.constant(np.int64(0)))
    two, one = (op.constant(np.array([number])) for number in (2, 1))
    return op.multiply(op.subtract(size, one), two)


@pytest.mark.parametrize("name", TO_NUMBERS)
async def test_numbers_of_one_frequency_are_refused(tmp_path: Path, name: str) -> None:
    """They are none: the process ended, in the load, which measures sizes of 1."""
    model = load(unary(tmp_path, (-1, -1, 2), DataType.FP32, TO_NUMBERS[name]))
    with pytest.raises(InvalidTensor, match="or for none"):
        await run(model, {"x": np.ones((2, 1, 2), np.float32)})
    x = np.random.default_rng(1).random((2, 4, 2), np.float32)
    along = np.fft.irfft if name == "computed" else np.fft.irfft2
    found = await run(model, {"x": x})
    np.testing.assert_allclose(found["y"], along(x[..., 0] + 1j * x[..., 1]), atol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear_pillow", "linear_onnx"])
async def test_scales_of_a_request_leave_the_axes_alone(tmp_path: Path, mode: str) -> None:
    """The guard made the axes of opset 11 computed ones, by which the process ended."""

    def resized(scales: Any) -> Any:
        picture = op.constant(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3))
        places = op.constant(np.array([0, 1]))
        both = op.gather(scales, places, op.constant(np.int64(0)))
        return op.interpolate(picture, both, mode, "scales", axes=op.constant(np.array([2, 3])))

    model = load(unary(tmp_path, (2,), DataType.FP32, resized))
    answer = await run(model, {"x": np.array([2, 1], np.float32)})
    assert answer["y"].shape == (1, 1, 4, 3)
    with pytest.raises(InvalidTensor, match="more than"):
        await run(model, {"x": np.array([1e5, 1e5], np.float32)})


async def test_repeats_that_follow_from_a_transform_are_held(tmp_path: Path) -> None:
    """The guard of the transform's own size puts another operation in its place."""
    x = parameter("x", [-1, 2])
    first = op.constant(np.array([0], np.int64))
    most = op.reduce_max(op.irdft(x, first), first, True)
    rows = op.tile(op.constant(np.ones(1024, np.float32)), op.convert(most, "i64"))
    model = load(save(tmp_path, [result("y", op.reduce_sum(rows, first, False))], [x]))
    inputs = np.array([[4e6, 0], [0, 0], [0, 0]], np.float32)
    with pytest.raises(InvalidRequest, match="is asked for more than"):
        await run(model, {"x": inputs})


@pytest.mark.parametrize("chosen", range(2, 5))
def test_a_slice_that_is_overwritten_lies_where_the_model_says(tmp_path: Path, chosen: int) -> None:
    """Where a request says it, and there are three dimensions, the compile ended the process."""
    x, rows = parameter("x", [4, 4, 4]), parameter("rows", [4, 2, 2])
    place = parameter("place", [2], DataType.INT64)
    ends = [op.constant(np.array(each)) for each in ([1, 1], [3, 3], [1, 1], [1, 2])]
    ends[chosen - 2] = place
    y = opset15.slice_scatter(x, rows, *ends)
    with pytest.raises(LoadFailed, match="make them constants"):
        load(save(tmp_path, [result("y", y)], [x, rows, place]))


def test_the_row_of_an_empty_bag_is_the_models(tmp_path: Path) -> None:
    """Where a request chose it, the row was that of an index which memory held before."""
    table, default = parameter("table", [5, 3]), parameter("default", [], DataType.INT32)
    ids, begins = (parameter(name, [2], DataType.INT32) for name in ("ids", "begins"))
    y = opset15.embedding_bag_offsets(table, ids, begins, default)
    with pytest.raises(LoadFailed, match="make them constants"):
        load(save(tmp_path, [result("y", y)], [table, ids, begins, default]))
