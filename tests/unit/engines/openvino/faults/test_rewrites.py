"""What the CPU plugin would run wrongly is changed, so that it answers as the operation means."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset16 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.engines.openvino.faults.hazards import READ, SIZED
from ie_serving.engines.openvino.graphs.rules import visit
from ie_serving.engines.openvino.graphs.walk import bodies
from tests.tables import named_by
from tests.unit.engines.openvino.models import DataType, load, parameter, result, run, save


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.FP32])
async def test_unique_values_are_given_without_their_places(
    tmp_path: Path, dtype: DataType
) -> None:
    x = parameter("x", (-1,), dtype)
    unique = op.unique(x, sorted=False, index_element_type="i32")
    model = load(save(tmp_path, [result("y", unique.output(0))], [x]))
    answer = await run(model, {"x": np.array([4, 4, 1, 3], dtype.numpy)})
    assert answer["y"].tolist() == [4, 1, 3]
    assert answer.keys() == {"y"}


async def test_flags_of_empty_rows_can_be_selected_by(tmp_path: Path) -> None:
    values, places = parameter("v", (-1,)), parameter("i", (-1, 2), DataType.INT64)
    size = parameter("s", (2,), DataType.INT64)
    filled = op.sparse_fill_empty_rows(values, size, places, op.constant(np.float32(0)))
    flags = op.reshape(filled.output(2), op.constant(np.array([-1, 1])), special_zero=False)
    chosen = op.select(flags, op.constant(np.float32(7)), op.unsqueeze(filled.output(1), _axis(1)))
    model = load(save(tmp_path, [result("y", chosen)], [values, places, size]))
    answer = await run(
        model,
        {
            "v": np.array([5, 6], np.float32),
            "i": np.array([[0, 0], [2, 0]], np.int64),
            "s": np.array([3, 1], np.int64),
        },
    )
    assert answer["y"].ravel().tolist() == [5, 7, 6]


def _sliced(x: ov.Node) -> ov.Node:
    """Compute x[0, ..., 1:3], with masks as the front end for TensorFlow writes them."""
    begin, end, step = (op.constant(np.array(row)) for row in ([0, 0, 1], [1, 0, 3], [1, 1, 1]))
    return op.strided_slice(x, begin, end, step, [0, 0], [0, 0], [0, 0], [1, 0], [0, 1])


async def test_an_ellipsis_with_short_masks_writes_nowhere_else(tmp_path: Path) -> None:
    """Glibc ended the process in one of some twenty requests."""
    x = parameter("x", (-1, 4))
    model = load(save(tmp_path, [result("y", _sliced(x))], [x]))
    for rows in [1, 2, 3, 5, 4] * 20:
        answer = await run(model, {"x": np.arange(rows * 4, dtype=np.float32).reshape(-1, 4)})
        assert answer["y"].tolist() == [1, 2]


def test_masks_are_filled_up_in_branches_too() -> None:
    x, flag = parameter("x", (-1, 4)), parameter("f", (), DataType.BOOL)
    branches = []
    for inner in (parameter("a", (-1, 4)), parameter("b", (-1, 4))):
        branches.append((ov.Model([op.result(_sliced(inner))], [inner]), inner))
    chosen = op.if_op(flag)
    chosen.set_then_body(branches[0][0])
    chosen.set_else_body(branches[1][0])
    chosen.set_input(x.output(0), branches[0][1], branches[1][1])
    chosen.set_output(branches[0][0].results[0], branches[1][0].results[0])
    visit(ov.Model([op.result(chosen.output(0))], [x, flag]), READ)
    for body in bodies(chosen):
        (found,) = [each for each in body.get_ops() if each.get_type_name() == "StridedSlice"]
        assert {len(mask) for mask in found.get_attributes().values()} == {3}


def _branched(x: ov.Node) -> ov.Output:
    """Add 1 to what begins above 0, and nothing to the rest."""
    one = op.convert(op.constant(np.int32(1)), x.get_element_type())
    return _if_positive(x, x, lambda given: op.add(given, one))


def _if_positive(x: ov.Node, value: ov.Node, change: Callable[[ov.Node], ov.Node]) -> ov.Output:
    """Change a value where the first number of `x` is above 0."""
    shape, kind = value.output(0).get_partial_shape(), value.get_element_type()
    inner = [op.parameter(shape, kind) for _ in range(2)]
    results = [op.result(change(inner[0])), op.result(inner[1])]
    branches = [ov.Model([y], [each], "branch") for y, each in zip(results, inner, strict=True)]
    first = op.gather(op.reshape(x, _axis(-1), False), op.constant(0), op.constant(0))
    chosen = op.if_op(op.greater(op.convert(first, "f32"), op.constant(np.float32(0))).output(0))
    chosen.set_then_body(branches[0])
    chosen.set_else_body(branches[1])
    chosen.set_input(value.output(0), *inner)
    return chosen.set_output(*results)


def _beside(x: ov.Node) -> ov.Node:
    """Compute in several steps, each of which takes memory for as many rows as there are."""
    return op.softmax(op.softmax(op.concat([op.convert(x, "f32")] * 2, 0), 1), 1)


GROWING = [2, 3, 1, 5, 4000, 7, 9000]


@pytest.mark.parametrize(
    "dtype", [DataType.FP32, DataType.FP64, DataType.INT32, DataType.INT64, DataType.INT16]
)
async def test_the_output_of_a_branch_is_kept_until_it_is_read(
    tmp_path: Path, dtype: DataType
) -> None:
    """Where another operation's memory grew in between, the answer was that of nobody."""
    x = parameter("x", (-1, -1), dtype)
    chosen = _branched(x)
    behind = op.add(chosen, chosen)
    outputs = [result("y", behind), result("z", _beside(x))]
    model = load(save(tmp_path, outputs, [x]))
    for rows in GROWING:
        sent = np.arange(1, 4 * rows + 1).reshape(rows, 4).astype(dtype.numpy) % 1000
        answer = await run(model, {"x": sent})
        assert np.array_equal(answer["y"], 2 * (sent + 1))


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "kind",
    ["f32", "f64", "f16", "bf16", "boolean", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"],
)
async def test_the_output_of_a_branch_is_kept_until_it_is_an_output(
    tmp_path: Path, kind: str
) -> None:
    """Where the plugin computes a type in another one, a conversion stood before the output."""
    x = parameter("x", (-1, -1))
    flags = op.greater(x, op.constant(np.float32(50)))
    outputs = [result("y", _turned(x, flags, kind)), result("z", _beside(x))]
    means = op.reduce_mean(op.convert(x, "i64"), _axis(0), keep_dims=False)  # many steps
    model = load(save(tmp_path, [*outputs, result("s", means)], [x]))
    for rows in GROWING:
        for sign in (1, -1):
            sent = sign * (np.arange(4 * rows, dtype=np.float32).reshape(rows, 4) % 100 + 1)
            wanted = sent <= 50 if sign > 0 else sent > 50
            answer = await run(model, {"x": sent})
            assert np.array_equal(answer["y"].astype(bool), wanted)


def _turned(x: ov.Node, flags: ov.Node, kind: str) -> ov.Output:
    """Turn flags, written as numbers of one type, where the first number is above 0."""
    return _if_positive(
        x,
        op.convert(flags, kind),
        lambda given: op.convert(
            op.equal(op.convert(given, "i32"), op.constant(np.int32(0))), kind
        ),
    )


async def test_the_output_of_a_branch_in_a_loop_is_kept_until_it_is_read(tmp_path: Path) -> None:
    x, inner = parameter("x", (-1, -1)), op.parameter([-1, -1])
    chosen = _branched(inner)
    goes_on = op.result(op.constant(np.array([True])))
    results = [goes_on, op.result(op.add(chosen, chosen)), op.result(_beside(inner))]
    loop = op.loop(op.constant(1).output(0), op.constant(np.array(True)).output(0))
    loop.set_function(ov.Model(results, [inner], "rounds"))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(inner, x.output(0), results[1].output(0))
    outputs = [loop.get_iter_value(each.output(0), -1) for each in results[1:]]
    named = [result(name, each) for name, each in zip("yz", outputs, strict=True)]
    model = load(save(tmp_path, named, [x]))
    for rows in GROWING:
        sent = np.arange(1, 4 * rows + 1, dtype=np.float32).reshape(rows, 4)
        answer = await run(model, {"x": sent})
        assert np.array_equal(answer["y"], 2 * (sent + 1))


async def test_the_size_of_a_number_out_of_a_row_does_not_end_the_process(tmp_path: Path) -> None:
    x = parameter("x", (-1,), DataType.INT32)
    number = op.gather(x, op.constant(0), op.constant(0))
    size = op.reduce_prod(op.shape_of(number), _axis(0), keep_dims=False)
    model = load(save(tmp_path, [result("y", number), result("n", size)], [x]))
    answer = await run(model, {"x": np.array([4, 3], np.int32)})
    assert (answer["y"].tolist(), answer["n"].tolist()) == (4, 1)


async def test_nothing_to_take_a_number_out_of_is_refused(tmp_path: Path) -> None:
    """The flag of it is computed from the size of that number."""
    x = parameter("x", (-1,), DataType.INT32)
    found = op.gather(x, op.squeeze(op.non_zero(x), _axis(0)), op.constant(0))
    number = op.gather(found, op.constant(0), op.constant(0))
    model = load(save(tmp_path, [result("y", op.add(number, number))], [x]))
    assert (await run(model, {"x": np.array([0, 3], np.int32)}))["y"] == 6
    with pytest.raises(InvalidTensor, match="nothing is left"):
        await run(model, {"x": np.array([0, 0], np.int32)})


def _axis(number: int) -> ov.Node:
    return op.constant(np.array([number], np.int64))


@pytest.mark.parametrize("rows", [1, 2, -1])
@pytest.mark.parametrize("sort", ["none", "value"])
async def test_of_equal_values_the_first_is_named(tmp_path: Path, rows: int, sort: str) -> None:
    """As by ArgMax of TensorFlow and ONNX; where all sizes were known it was some other."""
    x = parameter("x", (rows, 62))
    best = op.topk(x, op.constant(np.int64(1)), 1, "max", sort)
    model = load(save(tmp_path, [result("y", best.output(1))], [x]))
    random = np.random.default_rng(3)
    for _ in range(20):
        given = random.integers(0, 3, (abs(rows), 62)).astype(np.float32)
        answer = await run(model, {"x": given})
        assert answer["y"].ravel().tolist() == given.argmax(1).tolist()


@pytest.mark.parametrize("batch_dims", [1, -1])
@pytest.mark.parametrize("batch", [1, 2, -1])
@pytest.mark.parametrize("tail", [(2,), (), (2, 3)])
async def test_a_gather_in_a_batch_of_one_reads_its_own_memory(
    tmp_path: Path, tail: tuple[int, ...], batch: int, batch_dims: int
) -> None:
    """The process ended, or other values came."""
    if batch_dims < 0:
        batch_dims = -len(tail) or 1
    x = parameter("x", (-1, 6, 4))
    places = parameter("places", (-1, *tail), DataType.INT32)
    gathered = op.gather(op.relu(x), places, op.constant(np.int64(1)), batch_dims)
    options = {} if batch < 0 else {"batch_size": batch}
    model = load(save(tmp_path, [result("y", gathered)], [x, places]), **options)
    random = np.random.default_rng(4)
    rows = abs(batch)
    given = random.standard_normal((rows, 6, 4)).astype(np.float32)
    for _ in range(20):
        at = random.integers(0, 6, (rows, *tail)).astype(np.int32)
        answer = await run(model, {"x": given, "places": at})
        wanted = np.stack([np.maximum(given[i], 0)[at[i]] for i in range(rows)])
        assert answer["y"].tolist() == wanted.tolist()


async def test_a_gather_in_a_batch_keeps_its_name_as_an_output(tmp_path: Path) -> None:
    x = parameter("x", (1, 6, 4))
    places = parameter("places", (1, 2), DataType.INT32)
    gathered = op.gather(x, places, op.constant(np.int64(1)), 1)
    model = load(save(tmp_path, [result("y", gathered)], [x, places]))
    given = np.arange(24, dtype=np.float32).reshape(1, 6, 4)
    at = np.array([[5, 0]], np.int32)
    assert (await run(model, {"x": given, "places": at}))["y"].tolist() == [
        given[0][[5, 0]].tolist()
    ]
    with pytest.raises(InvalidTensor):
        await run(model, {"x": given, "places": at + 1})


TILED = [
    pytest.param((2, 2, 2, 1), (2, 2, 2, 2), id="four axes"),
    pytest.param((2, 2, 2, 1), (16, 16, 8, 1), id="three of four axes"),
    pytest.param((2, 3, 2, 3, 2), (2, 3, 2, 3, 2), id="five axes"),
    pytest.param((2, 3, 2, 3, 2), (2, 1, 3, 1, 2), id="each other of five axes"),
    pytest.param((2, 3), (2, 3, 2, 3, 2), id="more repeats than axes"),
    pytest.param((2, 3, 2, 3, 2), (3, 2, 3), id="fewer repeats than axes"),
    pytest.param((2, 3, 2, 3), (2, 0, 2, 2), id="none is left"),
]


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("shape", "repeats"), TILED)
async def test_a_tile_writes_all_of_its_output(
    tmp_path: Path, shape: tuple[int, ...], repeats: tuple[int, ...], is_open: bool
) -> None:
    """A part of it held numbers of the request before."""
    x = parameter("x", [-1] * len(shape) if is_open else shape)
    r = parameter("r", (len(repeats),), DataType.INT64)
    model = load(save(tmp_path, [result("y", op.tile(x, r))], [x, r]))
    sent = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    marked = {"x": np.full(shape, -7, np.float32), "r": np.full(len(repeats), 4)}
    await run(model, marked)
    answer = await run(model, {"x": sent, "r": np.array(repeats)})
    assert np.array_equal(answer["y"], np.tile(sent, repeats))


@pytest.mark.parametrize(
    ("ones", "steps"),
    [
        pytest.param((1, 1), 1, id="two axes may be repeated"),
        pytest.param((1, 3), 2, id="three may be"),
        pytest.param((), 2, id="all may be"),
    ],
)
def test_a_tile_that_is_right_stays(ones: tuple[int, ...], steps: int) -> None:
    """A step for axes that are known not to be repeated would only copy."""
    x, r = parameter("x", [-1] * 4), parameter("r", (4 - len(ones),), DataType.INT64)
    pieces = [op.convert(op.constant(np.array([one], np.int32)), "i64") for one in ones]
    model = ov.Model([op.result(op.tile(x, op.concat([r, *pieces], 0)))], [x, r])
    visit(model, READ)
    assert [each.get_type_name() for each in model.get_ordered_ops()].count("Tile") == steps


@pytest.mark.parametrize("shape", [(2, 4), (-1, -1)], ids=["fixed", "open"])
@pytest.mark.parametrize("count", [2, 3])
async def test_of_equal_values_the_first_ones_are_named(
    tmp_path: Path, shape: Sequence[int], count: int
) -> None:
    x, k = parameter("x", shape), op.constant(np.int64(count))
    best = op.topk(x, k, 1, "max", "value")
    model = load(save(tmp_path, [result("y", best.output(1))], [x]))
    answer = await run(model, {"x": np.array([[1, 1, 1, 1], [0, 3, 3, 3]], np.float32)})
    assert answer["y"].tolist() == [[0, 1, 2][:count], [1, 2, 3][:count]]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_box_that_overlaps_by_the_threshold_itself_stays(
    tmp_path: Path, is_known: bool
) -> None:
    boxes, scores = parameter("b", (1, 3, 4)), parameter("s", (1, 1, 3))
    given = parameter("t", ())
    third = np.float32(1) / np.float32(3)
    threshold = op.constant(third) if is_known else given
    limits = op.constant(np.int64(3)), threshold, op.constant(np.float32(0))
    chosen = op.non_max_suppression(boxes, scores, *limits, box_encoding="corner")
    inputs = [boxes, scores] if is_known else [boxes, scores, given]
    model = load(save(tmp_path, [result("y", chosen.output(0))], inputs))
    request = {
        "b": np.array([[[0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 0.4, 1, 1.4]]], np.float32),
        "s": np.array([[[0.9, 0.8, 0.7]]], np.float32),
    }
    answer = await run(model, request if is_known else {**request, "t": third})
    assert answer["y"].tolist() == [[0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("shape", [(1, 2), (-1, 2)], ids=["fixed", "open"])
async def test_a_request_says_what_to_pad_with(tmp_path: Path, shape: Sequence[int]) -> None:
    x, number = parameter("x", shape), parameter("v", ())
    begin, end = (op.constant(np.array(row)) for row in ([0, 1], [1, 0]))
    model = load(
        save(tmp_path, [result("y", op.pad(x, begin, end, "constant", number))], [x, number])
    )
    request = {"x": np.array([[1, 2]], np.float32), "v": np.float32(7)}
    assert (await run(model, request))["y"].tolist() == [[7, 1, 2], [7, 7, 7]]


@pytest.mark.parametrize("size", [4, -1])
async def test_averages_of_windows_without_dilations_do_not_end_the_process(
    tmp_path: Path, size: int
) -> None:
    x = parameter("x", (1, 1, size))
    pooled = op.avg_pool(x, [1], [0], [0], [2], exclude_pad=True)
    model = load(save(tmp_path, [result("y", pooled)], [x]))
    answer = await run(model, {"x": np.array([[[1, 3, 5, 9]]], np.float32)})
    assert answer["y"].tolist() == [[[2, 4, 7]]]


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((-1, 5), 1), ((2, 5, 2), -2), ((5, 2), 0)])
async def test_unique_slices_along_any_axis(
    tmp_path: Path, shape: Sequence[int], axis: int, is_sorted: bool
) -> None:
    x = parameter("x", shape, DataType.INT32)
    unique = op.unique(x, op.constant(np.int64(axis)), sorted=is_sorted)
    names = ["values", "first", "places", "counts"]
    results = [result(name, out) for name, out in zip(names, unique.outputs(), strict=True)]
    model, rng = load(save(tmp_path, results, [x])), np.random.default_rng(0)
    for _ in range(30):
        sent = rng.integers(0, 2, [2 if size < 0 else size for size in shape]).astype(np.int32)
        values, first, places, counts = np.unique(sent, True, True, True, axis=axis)
        order = np.arange(len(first)) if is_sorted else np.argsort(first)
        answer = await run(model, {"x": sent})
        assert answer["values"].tolist() == np.take(values, order, axis).tolist()
        assert answer["first"].tolist() == first[order].tolist()
        assert answer["places"].tolist() == np.argsort(order)[places.ravel()].tolist()
        assert answer["counts"].tolist() == counts[order].tolist()


@pytest.mark.parametrize("dtype", [DataType.FP32, DataType.UINT8])
@pytest.mark.parametrize("rows", [-1, 1])
async def test_each_request_says_what_to_pad_with(
    tmp_path: Path, rows: int, dtype: DataType
) -> None:
    """The plugin kept the number of the first request of each shape, whose client was another."""
    x, number = parameter("x", (rows, 3), dtype), parameter("number", (), dtype)
    ends = (op.constant(np.int64([1, 0])), op.constant(np.int64([0, 1])))
    padded = op.pad(x, *ends, "constant", number)
    model = load(save(tmp_path, [result("y", padded)], [x, number]))
    for value in (7, 9, 2):
        inputs = {"x": np.ones((1, 3)), "number": np.array(value)}
        answer = await run(model, {name: each.astype(dtype.numpy) for name, each in inputs.items()})
        assert answer["y"].tolist() == [[value] * 4, [1, 1, 1, value]]


WEIGHTS = np.arange(-16, 16).reshape(8, 4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("form", ["scale", "zero point", "both"])
async def test_each_request_scales_the_weights(tmp_path: Path, form: str, dtype: type) -> None:
    """The plugin left the weights as it had scaled them for the client before."""
    x, number = parameter("x", (-1, 8)), parameter("number", (4,))
    exact = (WEIGHTS % 16).astype(dtype)
    weights = op.convert(op.constant(exact), "f32")
    if form == "both":
        weights = op.subtract(weights, np.float32(2))
    scaled = (op.subtract if form == "zero point" else op.multiply)(weights, number)
    model = load(save(tmp_path, [result("y", op.matmul(x, scaled, False, False))], [x, number]))
    for value in (7, 9, 2):
        given = {"x": np.ones((1, 8), np.float32), "number": np.full(4, value, np.float32)}
        own = exact.astype(float) - (2 if form == "both" else 0)
        expected = (own - value if form == "zero point" else own * value).sum(0)
        np.testing.assert_allclose((await run(model, given))["y"], [expected], rtol=1e-2)


def test_a_branch_of_a_number_beside_one_of_a_row_is_refused(tmp_path: Path) -> None:
    """OpenVINO made a row of the number."""
    x = parameter("x", (-1,))
    chosen = _if_positive(x, x, lambda given: op.reduce_sum(given, _axis(0)))
    with pytest.raises(LoadFailed, match=r"^If .* has branches of ranks 0 and 1"):
        load(save(tmp_path, [result("y", chosen)], [x]))


def test_branches_of_other_ranks_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    """The plugin's refusal names the operation by a number of OpenVINO's own."""
    x = parameter("x", (-1, 4))
    chosen = _if_positive(x, x, lambda given: op.reduce_sum(given, _axis(0)))
    text = r'^If "y" has branches of ranks 1 and 2, .* export branches of equal ranks$'
    with pytest.raises(LoadFailed, match=text):
        load(save(tmp_path, [result("y", chosen)], [x]))


@pytest.mark.parametrize(("sent", "expected"), [([2, 3], [6]), ([-2, 3], [-1, 4])])
async def test_a_number_beside_a_row_is_served_where_both_make_the_same(
    tmp_path: Path, sent: list[float], expected: list[float]
) -> None:
    x = parameter("x", (-1,))
    chosen = _if_positive(x, x, lambda given: op.reduce_sum(given, _axis(0)))
    model = load(save(tmp_path, [result("y", op.add(chosen, np.ones(1, np.float32)))], [x]))
    assert (await run(model, {"x": np.float32(sent)}))["y"].tolist() == expected


def by(
    softmax: Callable[[Any], Any], kind: str = "f32"
) -> Callable[[ov.Node, ov.Node, ov.Node], ov.Node]:
    def attended(*given: ov.Node) -> ov.Node:
        query, key, value = (op.convert(each, kind) for each in given)
        shares = softmax(op.matmul(query, key, False, True))
        return op.convert(op.matmul(shares, value, False, False), "f32")

    return attended


def shares_of(scores: ov.Node, less: ov.Node | None = None) -> ov.Node:
    shares = op.exp(scores if less is None else op.subtract(scores, less))
    return op.divide(shares, op.reduce_sum(shares, _axis(-1), True))


def masked(mask: Callable[[ov.Node], ov.Node], *given: ov.Node) -> ov.Node:
    return op.scaled_dot_product_attention(*given, mask(given[0]), op.constant(np.float32(1)))


ATTENTIONS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "products": by(lambda scores: op.softmax(scores, -1)),
    "products in f16": by(lambda scores: op.softmax(scores, -1), "f16"),
    "a mask of nothing": by(lambda scores: op.softmax(op.add(scores, np.float32(0)), -1)),
    "written out": by(shares_of),
    "written out in f16": by(shares_of, "f16"),
    "written out with the greatest": by(
        lambda scores: shares_of(scores, op.reduce_max(scores, _axis(-1), True))
    ),
    "one operation": op.scaled_dot_product_attention,
    "scaled": lambda *each: op.scaled_dot_product_attention(
        *each, op.constant(np.float32(0)), op.constant(np.float32(1))
    ),
    **{
        f"{name} as a mask": partial(masked, mask)
        for name, mask in {
            "zeros": lambda _: op.constant(np.zeros((1, 1), np.float32)),
            "a difference": lambda _: op.subtract(*[op.constant(np.ones((1, 1), np.float32))] * 2),
            "a selection": lambda given: op.select(
                op.constant(np.ones((1, 1), bool)),
                op.constant(np.zeros((1, 1), np.float32)),
                op.reduce_max(given, np.array([-1]), True),
            ),
            "known sizes": lambda given: op.broadcast(
                op.constant(np.float32(0)),
                op.divide(
                    op.gather(op.shape_of(given), np.array([-1, -1]), np.array(0)), np.array(16)
                ),
            ),
        }.items()
    },
}


@pytest.mark.parametrize("form", ATTENTIONS)
@pytest.mark.parametrize("rank", [3, 4])
async def test_an_attention_takes_any_length_after_1(tmp_path: Path, form: str, rank: int) -> None:
    """The plugin computed the next lengths wrongly: after the load's own zeros, too."""
    names = ("query", "key", "value")
    ports = [parameter(name, (-1, -1, 16) if rank == 3 else (-1, 2, -1, 16)) for name in names]
    model = load(save(tmp_path, [result("y", ATTENTIONS[form](*ports))], ports))
    random = np.random.default_rng(5)
    for length in (1, 2, 16, 0, 40, 1, 64):
        shape = (2, length, 16) if rank == 3 else (1, 2, length, 16)
        query, key, value = given = [random.standard_normal(shape) for _ in names]
        scores = query @ np.swapaxes(key, -1, -2) / (4 if form == "one operation" else 1)
        shares = np.exp(scores - scores.max(-1, keepdims=True, initial=-99))
        expected = shares / shares.sum(-1, keepdims=True) @ value
        inputs = {n: each.astype(np.float32) for n, each in zip(names, given, strict=True)}
        answer = (await run(model, inputs))["y"]
        np.testing.assert_allclose(answer, expected, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("form", ["one operation", "products", "written out"])
async def test_as_many_heads_as_places_are_not_mixed(tmp_path: Path, form: str) -> None:
    """The plugin took heads for places where both are as many and each head has a bias."""
    order, bias = np.array([0, 2, 1, 3]), np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1)
    ports = [parameter(name, (1, 4, 32)) for name in ("query", "key", "value")]
    heads = [op.reshape(port, np.array([0, 0, 4, 8]), special_zero=True) for port in ports]
    operands = [op.transpose(op.add(each, op.constant(bias)), order) for each in heads]
    given = save(tmp_path, [result("y", ATTENTIONS[form](*operands))], ports)
    random = np.random.default_rng(4)
    sent = {port.friendly_name: random.standard_normal((1, 4, 32)) for port in ports}
    inputs = {name: each.astype(np.float32) for name, each in sent.items()}
    answer = (await run(load(given, inference_precision="f32"), inputs))["y"]
    query, key, value = ((each.reshape(1, 4, 4, 8) + bias).swapaxes(1, 2) for each in sent.values())
    scores = query @ key.swapaxes(2, 3) / (np.sqrt(8) if form == "one operation" else 1)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    expected = shares / shares.sum(-1, keepdims=True) @ value
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("heads", [1, 2])
def test_one_head_of_one_place_is_not_copied(heads: int) -> None:
    ports = [parameter(name, (1, heads, heads, 8)) for name in ("query", "key", "value")]
    model = ov.Model([op.result(op.scaled_dot_product_attention(*ports))], ports, "m")
    visit(model, SIZED)
    rolls = [each for each in model.get_ops() if each.get_type_name() == "Roll"]
    assert len(rolls) == (4 if heads > 1 else 0)


def test_a_mask_of_a_rank_that_is_not_known_is_not_dropped() -> None:
    ports = [parameter(name, (1, -1, 16)) for name in ("query", "key", "value")]
    mask = parameter("mask", (1, 1, -1))
    unknown = op.squeeze(op.unsqueeze(mask, np.array([0])))  # its rank depends on the sizes
    model = ov.Model(
        [op.result(op.scaled_dot_product_attention(*ports, unknown))], [*ports, mask], "m"
    )
    visit(model, SIZED)
    (node,) = [each for each in model.get_ops() if "Attention" in each.get_type_name()]
    mask_and_more = node.input_value(3).get_node().input_value(0).get_node()
    assert mask_and_more.get_type_name() == "Squeeze"


def test_weights_whose_scale_the_compile_computes_stay_8_bits() -> None:
    """Else a model of int8 weights would take four times the memory."""
    x, given = op.constant(np.ones((4, 1), np.int8)), parameter("given", (4, 2))
    computed = op.divide(op.constant(np.float32(1)), op.constant(np.array([3, 4], np.float32)))
    for scale, is_held in ((computed, False), (op.divide(computed, given), True)):
        weights = op.convert(x, "f32")
        model = ov.Model([op.result(op.multiply(weights, scale))], [given], "m")
        visit(model, READ)
        held = {each.get_element_type() for each in model.get_ops() if not each.get_input_size()}
        assert (ov.Type.i8 not in held) == is_held


async def test_a_product_over_no_elements_is_zeros(tmp_path: Path) -> None:
    """Its memory kept what an operation before had left there."""
    x = parameter("x", (4, 4))
    none = (op.constant(np.zeros(shape, np.float32)) for shape in ((4, 0), (0, 4)))
    product = op.matmul(op.matmul(x, next(none), False, False), next(none), False, False)
    model = load(save(tmp_path, [result("y", op.add(x, product))], [x]))
    sent = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert np.array_equal((await run(model, {"x": sent}))["y"], sent)


async def test_a_number_is_broadcast_to_no_dimensions(tmp_path: Path) -> None:
    """The compile ended the process."""
    x = parameter("x", ())
    model = load(
        save(tmp_path, [result("y", op.broadcast(x, op.constant(np.zeros(0, np.int32))))], [x])
    )
    assert (await run(model, {"x": np.float32(3)}))["y"].tolist() == 3


@pytest.mark.parametrize(
    ("data", "places", "shape"),
    [
        pytest.param((5, 3), (0,), (0, 3), id="no places"),
        pytest.param((5, 0), (2,), (2, 0), id="rows of nothing"),
        pytest.param((5, 0), (-1,), (2, 0), id="rows of nothing, for a request to choose"),
    ],
)
async def test_a_gather_of_nothing_ends_no_process(
    tmp_path: Path, data: tuple[int, ...], places: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    x, ids = parameter("x", data), parameter("ids", places, DataType.INT32)
    model = load(
        save(tmp_path, [result("y", op.gather(x, ids, op.constant(np.int64(0))))], [x, ids])
    )
    inputs = {"x": np.zeros(data, np.float32), "ids": np.zeros(shape[0], np.int32)}
    assert (await run(model, inputs))["y"].shape == shape


async def test_places_of_no_coordinates_give_all_of_the_data(tmp_path: Path) -> None:
    """It gave what lay anywhere in memory."""
    x, ids = parameter("x", (2, 2)), parameter("ids", (3, 0), DataType.INT32)
    model = load(save(tmp_path, [result("y", op.gather_nd(x, ids))], [x, ids]))
    rows = np.array([[1, 2], [3, 4]], np.float32)
    answer = await run(model, {"x": rows, "ids": np.zeros((3, 0), np.int32)})
    assert answer["y"].tolist() == [rows.tolist()] * 3


@pytest.mark.parametrize("levels", [15, 255, 256])
async def test_an_open_number_of_channels_is_quantized_in_the_steps_it_is_told(
    tmp_path: Path, levels: int
) -> None:
    x = parameter("x", (-1, -1))
    low, high = np.array([-3, 0, -1], np.float32), np.array([5, 6, 1], np.float32)
    ends = [op.constant(each) for each in (low, high, low, high)]
    quantized = op.fake_quantize(x, *ends, levels)
    model = load(save(tmp_path, [result("y", quantized)], [x]), inference_precision="f32")
    rows = np.random.default_rng(0).uniform(-4, 6, (4, 3)).astype(np.float32)
    step = (high - low) / (levels - 1)
    expected = np.rint((np.clip(rows, low, high) - low) / step) * step + low
    np.testing.assert_allclose((await run(model, {"x": rows}))["y"], expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [DataType.UINT8, DataType.INT8])
@pytest.mark.parametrize("rows", [-1, 2])
async def test_the_mean_of_small_integers_is_that_of_all(
    tmp_path: Path, rows: int, dtype: DataType
) -> None:
    """Of 200, 200 and 201 it was 85: their sum ended at 255."""
    x = parameter("x", (rows, 3), dtype)
    model = load(save(tmp_path, [result("y", op.reduce_mean(x, _axis(1)))], [x]))
    most = np.iinfo(dtype.numpy).max
    values = np.array([[most, most, most - 3], [0, 0, 2]], dtype.numpy)
    assert (await run(model, {"x": values}))["y"].tolist() == [most - 1, 0]


@pytest.mark.parametrize("shape", [[4], [-1], [4, 3]])
async def test_an_ellipsis_alone_cuts_nothing_off(tmp_path: Path, shape: list[int]) -> None:
    x = parameter("x", shape)
    cuts = [parameter(name, [1], DataType.INT64) for name in ("begin", "end", "step")]
    y = op.strided_slice(x, *cuts, [0], [0], [0], [1], [1])
    model = load(save(tmp_path, [result("y", y)], [x, *cuts]))
    values = np.arange(4 * (3 if len(shape) == 2 else 1), dtype=np.float32).reshape(-1, *shape[1:])
    one = {name: np.array([number]) for name, number in (("begin", 2), ("end", 4), ("step", 1))}
    answer = await run(model, {"x": values, **one})
    assert answer["y"].tolist() == values.tolist()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("shape", [[4, 5, 2], [-1, -1, 2]])
@named_by(
    "axes size",
    ("axes", "size"),
    [
        ([0, 1], [4, 8]),
        ([0, 1], [4, 12]),
        ([0, 1], [6, 8]),
        ([-1], [13]),
        ([1, 0], [6, 9]),
        ([0, 1], [2, 4]),
    ],
)
async def test_frequencies_that_lack_are_zeros(
    tmp_path: Path, shape: list[int], axes: list[int], size: list[int], chosen: bool
) -> None:
    x, sizes = parameter("x", shape), parameter("sizes", [len(size)], DataType.INT64)
    asked = sizes if chosen else op.constant(np.array(size))
    y = op.irdft(x, op.constant(np.array(axes)), asked)
    model = load(save(tmp_path, [result("y", y)], [x, sizes] if chosen else [x]))
    parts = np.random.default_rng(0).standard_normal((4, 5, 2)).astype(np.float32)
    given = {"x": parts, "sizes": np.array(size)} if chosen else {"x": parts}
    right = np.fft.irfftn(parts[..., 0] + 1j * parts[..., 1], s=size, axes=axes)
    answer = await run(model, given)
    np.testing.assert_allclose(answer["y"], right, atol=1e-4)
