"""What the values of a request ask for in loops and branches, by tables, and in odd directions.

The operations themselves are in `tests/functional/test_sizes.py` and `test_indices.py`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.faults import ranges
from ie_serving.engines.openvino.faults.hazards import VALUES, guard
from ie_serving.engines.openvino.graphs.rules import visit
from ie_serving.engines.openvino.interface.tensor_specs import prepare
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.read import read
from ie_serving.engines.run.program import CompiledPrograms
from tests.unit.engines.openvino.models import constant, load, parameter, result, run, unary

WAIT_S = 30.0
Inner = Callable[[Any], Any]
"""From the values of a request, FP32 [-1], to what is asked for with them."""


async def answer(model: CompiledPrograms, *values: float) -> Any:
    inputs: dict[str, Array] = {"x": np.array(values, np.float32)}
    return (await asyncio.wait_for(run(model, inputs), WAIT_S))["y"].tolist()


def first(x: Any, kind: str = "i64") -> Any:
    return op.convert(op.gather(x, constant(0), constant(0)), kind)


def in_branch(inner: Inner) -> Inner:
    """Ask in the branch that is taken when the first value is above -5."""

    def body(x: Any) -> Any:
        chosen, other = parameter("chosen", [-1]), parameter("other", [-1])
        branch = op.if_op(op.greater(first(x), constant(-5)).output(0))
        results = op.result(inner(chosen)), op.result(op.relu(other))
        branch.set_then_body(ov.Model([results[0]], [chosen], "then"))
        branch.set_else_body(ov.Model([results[1]], [other], "else"))
        branch.set_input(x.output(0), chosen, other)
        return op.multiply(branch.set_output(*results), constant(1, np.float32))

    return body


def in_loop(inner: Inner) -> Inner:
    """Ask in each of three rounds; all that is given is added up."""

    def body(x: Any) -> Any:
        total, given = parameter("total", [1]), parameter("given", [-1])
        added = op.add(total, op.reduce_sum(inner(given), constant([0]), True))
        results = [op.result(constant([True], np.bool_)), op.result(added)]
        loop = op.loop(constant(3), constant(True, np.bool_))
        loop.set_function(ov.Model(results, [total, given], "round"))
        loop.set_special_body_ports([-1, 0])
        loop.set_merged_input(total, constant([0], np.float32).output(0), results[1].output(0))
        loop.set_invariant_input(given, x.output(0))
        return loop.get_iter_value(results[1].output(0), -1)

    return body


def taken(x: Any) -> Any:
    return op.gather_elements(constant([7, 8], np.float32), op.convert(x, "i64"), 0)


def repeated(x: Any) -> Any:
    return op.tile(constant([2], np.float32), op.unsqueeze(first(x), constant(0)))


def open_input(directory: Path, body: Inner) -> Path:
    return unary(directory, [-1], DataType.FP32, body)


@pytest.mark.parametrize(
    ("body", "good", "expected", "bad"),
    [
        pytest.param(in_branch(taken), [1, 0], [8, 7], [1, 10_000_000], id="index in a branch"),
        pytest.param(in_loop(taken), [1, 0], [45], [1, 10_000_000], id="index in a loop"),
        pytest.param(in_branch(repeated), [3], [2] * 3, [2.0**30], id="size in a branch"),
        pytest.param(in_loop(repeated), [3], [18], [2.0**30], id="size in a loop"),
        pytest.param(in_branch(in_loop(taken)), [0, 0], [42], [9, 0], id="in a loop in a branch"),
        pytest.param(in_loop(in_branch(taken)), [0, 0], [42], [9, 0], id="in a branch in a loop"),
    ],
)
async def test_a_size_or_index_that_a_body_asks_for_is_refused(
    tmp_path: Path, body: Inner, good: list[float], expected: list[float], bad: list[float]
) -> None:
    """Before, sizes were allocated there, and an index out of range was taken for the first."""
    model = load(open_input(tmp_path, body))
    for _ in range(2):
        assert await answer(model, *good) == expected
        with pytest.raises(InvalidTensor, match=r"out of range|is asked for"):
            await answer(model, *bad)


async def test_a_branch_that_is_not_taken_refuses_nothing(tmp_path: Path) -> None:
    model = load(open_input(tmp_path, in_branch(taken)))
    assert await answer(model, -9, 10_000_000) == [0.0, 10_000_000]


def counting(*, by_condition: bool, step: Inner = lambda _: constant([1], np.float32)) -> Inner:
    """Count rounds, as many as the first value says: by the loop's count, or by its condition."""

    def body(x: Any) -> Any:
        total, wanted = parameter("total", [1]), parameter("wanted", [-1])
        added = op.add(total, step(wanted))
        wanted_now = op.gather(wanted, constant([0]), constant(0))
        below = op.less(added, wanted_now)
        goes_on = below if by_condition else constant([True], np.bool_)
        results = [op.result(goes_on), op.result(added)]
        loop = op.loop(constant(-1) if by_condition else first(x), constant(True, np.bool_))
        loop.set_function(ov.Model(results, [total, wanted], "round"))
        loop.set_special_body_ports([-1, 0])
        loop.set_merged_input(total, constant([0], np.float32).output(0), results[1].output(0))
        loop.set_invariant_input(wanted, x.output(0))
        return loop.get_iter_value(results[1].output(0), -1)

    return body


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> int:
    """A bound of rounds that is run into in milliseconds; the server's takes 2 s each time."""
    monkeypatch.setattr(ranges, "MOST_ROUNDS", 2000)
    return ranges.MOST_ROUNDS


@pytest.mark.parametrize("by_condition", [False, True])
async def test_the_rounds_of_a_loop_are_bounded(
    tmp_path: Path, by_condition: bool, bound: int
) -> None:
    """2^31 rounds held their thread for hours, whatever the request's deadline was."""
    model = load(open_input(tmp_path, counting(by_condition=by_condition)))
    assert await answer(model, 3) == [3]
    assert await answer(model, 1000) == [1000]
    for rounds in (2.0**24, 2.0**30):
        with pytest.raises(InvalidTensor, match=f"asked for {bound} rounds"):
            await answer(model, rounds)
    assert await answer(model, 3) == [3]


async def test_the_rounds_of_a_loop_in_a_loop_are_bounded(tmp_path: Path, bound: int) -> None:
    model = load(
        open_input(tmp_path, counting(by_condition=True, step=counting(by_condition=True)))
    )
    assert await answer(model, 4) == [4]
    with pytest.raises(InvalidTensor, match=f"asked for {bound} rounds"):
        await answer(model, 2.0**24)


def collecting(*, by_condition: bool, joined: bool) -> Inner:
    """Add 1 in as many rounds as the first value says, 3 at most; give what each or the last made.

    By the loop's count, or by its condition, which is there before the first round.
    """

    def body(x: Any) -> Any:
        so_far = parameter("so_far", [-1])
        added = op.add(so_far, constant([1], np.float32))
        made = op.unsqueeze(op.multiply(added, constant(2, np.float32)), constant(0))
        results = [op.result(constant(True, np.bool_)), op.result(added), op.result(made)]
        begins = op.greater(op.gather(x, constant(0), constant(0)), constant(0, np.float32))
        loop = op.loop(
            constant(3) if by_condition else first(x),
            begins if by_condition else constant(True, np.bool_),
        )
        loop.set_function(ov.Model(results, [so_far], "round"))
        loop.set_special_body_ports([-1, 0])
        loop.set_merged_input(so_far, x.output(0), results[1].output(0))
        loop.get_iter_value(results[1].output(0), -1)
        if joined:
            out = loop.get_concatenated_slices(results[2].output(0), 0, 1, 1, -1, 0)
        else:
            out = loop.get_iter_value(results[2].output(0), -1)
        return op.reshape(out, constant([-1]), False)

    return body


@pytest.mark.parametrize("joined", [True, False], ids=["of each round", "of the last"])
@pytest.mark.parametrize("by_condition", [False, True], ids=["count", "condition"])
@pytest.mark.parametrize("within", [None, in_loop, in_branch], ids=["outside", "loop", "branch"])
async def test_a_loop_without_rounds_gives_nothing_of_another_request(
    tmp_path: Path, within: Callable[[Inner], Inner] | None, by_condition: bool, joined: bool
) -> None:
    """The plugin leaves such outputs as the request before made them, of another size as well."""
    inner = collecting(by_condition=by_condition, joined=joined)
    model = load(open_input(tmp_path, within(inner) if within else inner))
    made = [8, 446, 10, 448, 12, 450][0 if joined else 4 :]
    expected = [3 * sum(made)] if within is in_loop else made
    for _ in range(3):
        assert await answer(model, 3.0, 222.0) == expected
        with pytest.raises(InvalidTensor, match="is asked for no round"):
            await answer(model, 0.0, 1.0)


def test_a_loop_whose_rounds_the_model_knows_costs_nothing() -> None:
    x = parameter("x", [-1])
    model = ov.Model([result("y", in_loop(op.relu)(x))], [x], "model")
    assert visit(model, VALUES, from_end=True).flags == []


async def test_a_size_from_a_table_is_bounded(tmp_path: Path) -> None:
    """The guard of the index hid from that of the size where it came from."""

    def body(x: Any) -> Any:
        sizes = constant([[2], [1 << 28]])
        return op.broadcast(constant(7, np.float32), op.gather(sizes, first(x), constant(0)))

    model = load(open_input(tmp_path, body))
    assert await answer(model, 0) == [7, 7]
    with pytest.raises(InvalidTensor, match="is asked for more than"):
        await answer(model, 1)


def counted(x: Any) -> Any:
    ends = (op.convert(op.gather(x, constant(place), constant(0)), "i64") for place in range(3))
    return op.range(*ends, "f32")


async def test_a_range_in_the_wrong_direction_is_empty(tmp_path: Path) -> None:
    """As in ONNX; the plugin gives 5, 6, 7, 8, 9 for numbers from 5 to 0 by steps of 1."""
    model = load(open_input(tmp_path, counted))
    assert await answer(model, 5, 7, 1) == [5, 6]
    assert await answer(model, 5, 0, 1) == []
    assert await answer(model, 0, 5, -1) == []
    assert await answer(model, 5, 3, -1) == [5, 4]
    assert await answer(model, 5, 5, 1) == []


async def test_a_range_in_the_wrong_direction_by_shapes_is_empty(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        count = op.gather(op.shape_of(x), constant(0), constant(0))
        return op.range(constant(3), count, constant(1), "f32")

    model = load(open_input(tmp_path, body))
    assert await answer(model, *range(5)) == [3, 4]
    assert await answer(model, 1) == []


async def test_a_range_of_float16_ends_where_float16_does(tmp_path: Path) -> None:
    """Before, it went on with infinities."""

    def every_1000th(x: Any) -> Any:
        ends = (op.gather(x, constant(place), constant(0)) for place in range(3))
        return op.convert(op.range(*ends, "f16"), "f32")

    model = load(open_input(tmp_path, every_1000th))
    assert (await answer(model, 0, 65504, 1000))[-1] == 65000
    with pytest.raises(InvalidTensor, match="float16 beyond 65504"):
        await answer(model, 0, 70000, 1000)


def test_tensorflow_refuses_a_range_in_the_wrong_direction() -> None:
    x = parameter("x", [3])
    model = ov.Model([result("y", counted(x))], [x], "model")
    (flag,) = visit(model, VALUES, from_end=False).flags
    model.add_results([op.result(flag.raised)])
    compiled = ov.Core().compile_model(model, "CPU")
    for values, raised in (([0, 5, 1], 0), ([5, 0, 1], 1), ([5, 0, -1], 0), ([5, 5, 1], 0)):
        assert list(compiled(np.array(values, np.float32))[1]) == [raised]


async def test_a_broadcast_both_ways_counts_what_it_gives(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        wide = constant(np.zeros(1 << 10), np.float32)
        column = op.reshape(wide, constant([-1, 1]), False)
        given = op.broadcast(column, op.convert(x, "i64"), broadcast_spec="BIDIRECTIONAL")
        return op.shape_of(given)

    model = load(unary(tmp_path, [2], DataType.FP32, body))
    assert await answer(model, 1, 1 << 10) == [1 << 10, 1 << 10]
    assert await answer(model, 1 << 10, 1 << 10) == [1 << 10, 1 << 10]
    with pytest.raises(InvalidTensor, match="is asked for more than"):
        await answer(model, 1, 1 << 20)


def test_positions_by_shape_leave_the_shortest_way(tmp_path: Path) -> None:
    """As many as there are rows, less one: nothing here depends on values."""

    def body(x: Any) -> Any:
        count = op.gather(op.shape_of(x), constant(0), constant(0))
        places = op.range(constant(0), op.subtract(count, constant(1)), constant(1), "f32")
        return op.concat([x, places], 0)

    (draft,) = read(open_input(tmp_path, body), OpenVinoOptions()).drafts
    hazards, _ = guard(draft.model, prepare(draft, draft.model, EngineOptions()).inputs)
    assert not hazards.needs_care
    assert hazards.refusals == ()


def regions(x: Any) -> Any:
    """Average four samples of an image for a region of five values: its batch, two corners."""
    image = constant(np.ones((2, 8, 5, 5)), np.float32)
    row = op.reshape(x, constant([1, 5]), False)
    return op.reduce_max(op.psroi_pooling(image, row, 2, 2, 1.0, 1, 1, "average"), constant([0]))


async def test_regions_of_no_image_are_refused(tmp_path: Path) -> None:
    """NaN ended the process."""
    model = load(unary(tmp_path, [5], DataType.FP32, regions))
    for bad in [2, 0, 0, 3, 3], [-1, 0, 0, 3, 3], [np.nan, 0, 0, 3, 3], [0, 0, 0, 3, np.inf]:
        assert np.max(await answer(model, 1, 0, 0, 3, 3)) == 1
        with pytest.raises(InvalidTensor, match=r"PSROIPooling .* is given a value out of range"):
            await answer(model, *bad)


def test_a_model_whose_requests_choose_an_axis_of_roll_is_not_served(tmp_path: Path) -> None:
    """An axis of -2^31 ended the process."""

    def body(x: Any) -> Any:
        return op.roll(x, constant([1]), op.unsqueeze(first(x), constant(0)))

    with pytest.raises(LoadFailed, match=r'Roll "[^"]+" computes with axes, sizes or labels'):
        load(open_input(tmp_path, body))


async def test_an_axis_of_roll_that_the_model_holds_is_served(tmp_path: Path) -> None:
    model = load(open_input(tmp_path, lambda x: op.roll(x, constant([1]), constant([0]))))
    assert await answer(model, 1, 2, 3) == [3, 1, 2]


@pytest.mark.parametrize(
    ("body", "lasts"),
    [
        pytest.param(op.relu, False, id="none"),
        pytest.param(repeated, True, id="size"),
        pytest.param(counting(by_condition=True), True, id="rounds"),
    ],
)
def test_a_loop_that_values_make_long_never_holds_the_event_loop(
    tmp_path: Path, body: Inner, lasts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that took 20 us before may now ask for 100,000 rounds."""
    caplog.set_level("INFO")
    load(open_input(tmp_path, body))
    assert ("async" in caplog.text.rpartition("execution=")[2]) is lasts


async def test_draws_from_a_row_without_weights_are_refused(tmp_path: Path) -> None:
    """What an earlier request had drawn was left there."""

    def body(x: Any) -> Any:
        weights = op.reshape(x, constant([1, 2]), False)
        return op.multinomial(weights, constant([3]), "i32", True, False, 1, 2)

    model = load(unary(tmp_path, [2], DataType.FP32, body))
    for bad in [0, 0], [-1, 1], [np.nan, 1], [np.inf, 1]:
        assert await answer(model, 0, 1) == [[1, 1, 1]]
        with pytest.raises(InvalidTensor, match="a row without weights"):
            await answer(model, *bad)


async def test_a_pattern_that_does_not_fit_is_the_requests_fault(tmp_path: Path) -> None:
    """All inputs have known shapes, and no operation refuses values: it counted as the engine's."""

    def body(x: Any) -> Any:
        return op.reshape(constant(range(6), np.float32), op.convert(x, "i64"), False)

    model = load(unary(tmp_path, [2], DataType.FP32, body))
    assert await answer(model, 1, 6) == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(InvalidRequest, match="conflicts with the reshape pattern"):
        await answer(model, 1, 5)
