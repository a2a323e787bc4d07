"""What OpenVINO's CPU plugin gets wrong is kept from answers, in every way of calling it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset6 as op6
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.faults.hazards import Hazards, guard
from ie_serving.engines.openvino.interface.tensor_specs import prepare
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.read import read
from ie_serving.engines.openvino.running.slot import Slot
from ie_serving.engines.run.program import CompiledPrograms
from tests.thinning import repeated
from tests.unit.engines.openvino.models import constant, load, parameter, result, run, save, unary

WAIT_S = 30.0
CONFIGS = {
    "the server's choice": {},
    "one thread": {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"},
    "two streams": {"NUM_STREAMS": "2"},
}


@pytest.fixture
def options(execution: str, nireq: int, config: str) -> dict[str, Any]:
    return {"execution": execution, "nireq": nireq, "plugin_config": CONFIGS[config]}


def every_way(test: Callable[..., Any]) -> Any:
    """Run a test with each value of what decides how OpenVINO is called."""
    for name, values in {
        "config": CONFIGS,
        "nireq": (1, 3),
        "execution": ("inline", "async"),
    }.items():
        test = pytest.mark.parametrize(name, values)(test)
    return test


def positive(x: Any) -> Any:
    """Those elements of x that are above zero; their number depends on values."""
    found = op.non_zero(op.relu(x), "i64")
    return op.gather(x, op.squeeze(found, constant([0])), constant(0))


def rows(x: Any) -> Any:
    """The elements above zero as rows of three."""
    wide = constant([[1, 2, 3]], np.float32)
    return op.matmul(op.unsqueeze(positive(x), constant([1])), wide, False, False)


def image(x: Any) -> Any:
    return op.reshape(positive(x), constant([1, 1, -1]), False)


def open_input(directory: Path, body: Callable[[Any], Any]) -> Path:
    return unary(directory, [-1], DataType.FP32, body)


def floats(*values: float) -> dict[str, Array]:
    return {"x": np.array(values, np.float32)}


async def answer(model: CompiledPrograms, inputs: dict[str, Array]) -> Any:
    answered = await asyncio.wait_for(run(model, inputs), WAIT_S)
    return answered["y"].tolist()


@every_way
@repeated(2, 4)
async def test_a_failure_in_the_graph_is_that_requests_error(
    tmp_path: Path, options: dict[str, Any], rounds: int
) -> None:
    """With one thread OpenVINO's `infer` returns, with the outputs of the request before."""

    def body(x: Any) -> Any:
        last = op.convert(op.gather(x, constant([-1]), constant(0)), "i64")
        pattern = op.concat([constant([1]), op.floor_mod(last, constant([7]))], 0)
        return op.reshape(op.multiply(x, constant(1.5, np.float32)), pattern, False)

    model = load(open_input(tmp_path, body), **options)
    for _ in range(rounds):
        assert await answer(model, floats(1, 2, 3)) == [[1.5, 3.0, 4.5]]
        with pytest.raises(InvalidRequest, match="Error occurred during inference"):
            await answer(model, floats(5))
    model.close()


@every_way
async def test_a_value_that_an_operation_refuses_is_that_requests_error(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """All shapes are fixed here; the operation itself fails."""
    x, lengths = parameter("x", [2, 3]), parameter("lengths", [2], DataType.INT32)
    save(tmp_path, [result("y", op.reverse_sequence(x, lengths, 0, 1))], [x, lengths])
    model = load(tmp_path, **options)
    good = {"x": np.ones((2, 3), np.float32), "lengths": np.array([1, 2], np.int32)}
    for _ in range(3):
        assert await answer(model, good) == [[1.0] * 3] * 2
        with pytest.raises(InvalidRequest, match="Error occurred during inference"):
            await answer(model, {**good, "lengths": np.array([9, 9], np.int32)})


@repeated(12, 100)
@pytest.mark.parametrize("execution", ["inline", "async"])
async def test_after_a_failure_the_next_answer_is_right(
    tmp_path: Path, execution: str, rounds: int
) -> None:
    """OpenVINO now and then answers from freed memory after a failure between two operations."""
    a, b = parameter("a", [-1]), parameter("b", [-1, -1])
    shape = parameter("shape", [2], DataType.INT32)
    product = op.matmul(op.reshape(a, shape, False), b, False, False)
    model = load(save(tmp_path, [result("y", product)], [a, b, shape]), execution=execution)
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        n, inner, other, m = (int(size) for size in rng.integers(1, 5, 4))
        a_values = rng.random(n * inner).astype(np.float32)
        b_values = rng.random((other, m)).astype(np.float32)
        inputs = {"a": a_values, "b": b_values, "shape": np.array([n, inner], np.int32)}
        if inner != other:
            with pytest.raises(InvalidRequest):
                await answer(model, inputs)
        else:
            expected = a_values.reshape(n, inner) @ b_values
            assert np.allclose(await answer(model, inputs), expected, atol=1e-2)


SKIPPED: dict[str, Callable[[Any], Any]] = {
    "topk": lambda x: op.topk(positive(x), constant(1), 0, "max", "value").output(0),
    "topk, doubled": lambda x: op.multiply(
        op.topk(positive(x), constant(1), 0, "max", "value").output(0), constant(2, np.float32)
    ),
    "gather": lambda x: op.gather(rows(x), constant([0]), constant(0)),
    "gather_nd": lambda x: op.gather_nd(rows(x), constant([[0]]), 0),
    "gather_elements": lambda x: op.gather_elements(positive(x), constant([0, 0]), 0),
    "convolution": lambda x: op.convolution(
        image(x), constant(np.ones((1, 1, 3)), np.float32), [1], [3], [3], [1]
    ),
    "max_pool": lambda x: op.max_pool(image(x), [1], [1], [2], [2], [3]).output(0),
    "avg_pool": lambda x: op.avg_pool(image(x), [1], [2], [2], [3], False),
    "adaptive_avg_pool": lambda x: op.adaptive_avg_pool(image(x), constant([2])),
    "unique": lambda x: op.unique(positive(x)).output(0),
    "mean": lambda x: op.reduce_mean(positive(x), constant([0])),
    "greatest": lambda x: op.reduce_max(positive(x), constant([0])),
    "strided_slice": lambda x: op.strided_slice(
        positive(x), constant([0]), constant([1]), constant([1]), [0], [0], [0], [1], [0]
    ),
    "dft": lambda x: op.dft(
        op.unsqueeze(op.concat([op.unsqueeze(positive(x), constant([1]))] * 2, 1), constant([0])),
        constant([1]),
        constant([4]),
    ),
}


async def assert_refused_between(
    model: CompiledPrograms, nothing: dict[str, Array], rounds: int
) -> None:
    """Ask with what leaves nothing to compute with, between requests that are answered alike."""
    for _ in range(rounds):
        before = await answer(model, floats(-1, 41.5, 3))
        with pytest.raises(InvalidTensor, match="nothing is left for"):
            await answer(model, nothing)
        assert await answer(model, floats(-1, 41.5, 3)) == before


@repeated(1, 3)
@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize("body", SKIPPED.values(), ids=SKIPPED)
async def test_an_operation_that_saw_nothing_refuses_the_request(
    tmp_path: Path, body: Callable[[Any], Any], execution: str, rounds: int
) -> None:
    """OpenVINO skips it, and its output keeps the numbers of an earlier client."""
    model = load(open_input(tmp_path, body), execution=execution)
    await assert_refused_between(model, floats(-1, -2, -3), rounds)


@every_way
async def test_no_answer_of_another_request_where_too_many_values_are_asked_for(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """By the model, or by the request; also of an axis that is empty."""
    x, k = parameter("x", [-1]), parameter("k", [], DataType.INT32)
    two = op.topk(op.relu(x), constant(2), 0, "max", "value").output(0)
    some = op.topk(x, k, 0, "max", "value").output(0)
    results = [result("y", op.multiply(two, constant(2, np.float32))), result("some", some)]
    model = load(save(tmp_path, results, [x, k]), **options)

    def asked(count: int, *values: float) -> dict[str, Array]:
        return {**floats(*values), "k": np.array(count, np.int32)}

    for marker in (41.5, 1000.5):
        given = await run(model, asked(1, 1, marker))
        assert [given["y"].tolist(), given["some"].tolist()] == [[2 * marker, 2], [marker]]
        for wrong in (asked(1, 7), asked(1), asked(3, 7, 8), asked(0, 7, 8), asked(-1, 7, 8)):
            with pytest.raises(InvalidTensor, match=r"is asked for|nothing is left for"):
                await run(model, wrong)


DATA_DEPENDENT: dict[str, Callable[[Any], Any]] = {
    "values": lambda x: op.unique(x).output(0),
    "places": lambda x: op.convert(op.unique(x, index_element_type="i32").output(2), "f32"),
    "counts": lambda x: op.convert(op.unique(x, index_element_type="i32").output(3), "f32"),
}


@repeated(1, 3)
@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize("body", DATA_DEPENDENT.values(), ids=DATA_DEPENDENT)
async def test_an_empty_input_gives_nothing_of_another_request(
    tmp_path: Path, body: Callable[[Any], Any], execution: str, rounds: int
) -> None:
    """What comes of it has a shape that depends on values: it need not be empty for OpenVINO."""
    model = load(open_input(tmp_path, body), execution=execution)
    await assert_refused_between(model, floats(), rounds)


EMPTY_IS_COMPUTED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda x: op.reduce_sum(positive(x), constant([0])), 0.0),
    "prod": (lambda x: op.reduce_prod(positive(x), constant([0])), 1.0),
    "l2": (lambda x: op.reduce_l2(positive(x), constant([0])), 0.0),
    "concat": (lambda x: op.concat([positive(x), constant([7, 8], np.float32)], 0), [7.0, 8.0]),
    "pad": (
        lambda x: op.pad(
            positive(x), constant([1]), constant([1]), "constant", constant(9, np.float32)
        ),
        [9.0, 9.0],
    ),
    "matmul": (lambda x: op.matmul(rows(x), rows(x), True, False), [[0.0] * 3] * 3),
    "shape": (lambda x: op.convert(op.shape_of(positive(x)), "f32"), [0.0]),
    "same": (lambda x: op.relu(positive(x)), []),
    "scatter": (
        lambda x: op.scatter_elements_update(
            constant([1, 2], np.float32),
            op.convert(op.multiply(positive(x), constant(0, np.float32)), "i64"),
            positive(x),
            constant(0),
        ),
        [1.0, 2.0],
    ),
}


async def test_an_operation_that_computes_from_nothing_answers(tmp_path: Path) -> None:
    x = parameter("x", [-1])
    outputs = [result(name, body(x)) for name, (body, _) in EMPTY_IS_COMPUTED.items()]
    model = load(save(tmp_path, outputs, [x]))
    for marker in (41.5, 1000.5):
        await run(model, floats(marker, marker, marker))
        found = await run(model, floats(-1, -2, -3))
        for name, (_, empty) in EMPTY_IS_COMPUTED.items():
            assert found[name].tolist() == empty, name


async def test_inside_a_branch_what_saw_nothing_is_refused(tmp_path: Path) -> None:
    """Where that branch is taken."""

    def body(x: Any) -> Any:
        chosen, other = parameter("chosen", [-1]), parameter("other", [-1])
        first = op.topk(chosen, constant(1), 0, "max", "value").output(0)
        above = op.greater(op.reduce_max(x, constant([0])), constant(-5, np.float32))
        branch = op.if_op(above.output(0))
        results = op.result(first), op.result(op.relu(other))
        branch.set_then_body(ov.Model([results[0]], [chosen], "then"))
        branch.set_else_body(ov.Model([results[1]], [other], "else"))
        branch.set_input(positive(x).output(0), chosen, other)
        return op.multiply(branch.set_output(*results), constant(2, np.float32))

    model = load(open_input(tmp_path, body))
    for _ in range(3):
        assert await answer(model, floats(-1, 41.5, 3)) == [83.0]
        with pytest.raises(InvalidTensor, match="nothing is left for"):
            await answer(model, floats(-1, -2, -3))
        assert await answer(model, floats(-6, -7, -8)) == []


@pytest.mark.parametrize("config", [{}, {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}])
async def test_inside_a_loop_what_saw_nothing_is_refused(
    tmp_path: Path, config: dict[str, str]
) -> None:
    """Where the request's shape leaves it nothing; before, it had what the request before left."""
    x, total, given = parameter("x", [-1]), parameter("total", [1]), parameter("given", [-1])
    first = op.topk(given, constant(1), 0, "max", "value").output(0)
    results = [op.result(constant([True], np.bool_)), op.result(op.add(total, first))]
    loop = op.loop(constant(3), constant(True, np.bool_))
    loop.set_function(ov.Model(results, [total, given], "round"))
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(total, constant([0], np.float32).output(0), results[1].output(0))
    loop.set_invariant_input(given, x.output(0))
    last = loop.get_iter_value(results[1].output(0), -1)
    model = load(save(tmp_path, [result("y", last)], [x]), plugin_config=config)
    for marker in (2, 41):
        assert await answer(model, floats(1, marker)) == [3 * marker]
        with pytest.raises(InvalidTensor, match="nothing is left for"):
            await answer(model, floats())


@every_way
async def test_state_starts_anew_with_each_request(tmp_path: Path, options: dict[str, Any]) -> None:
    """Without sequences no client owns the state that an infer request keeps."""
    x = parameter("x", [1])
    total = op.add(op6.read_value(constant([0], np.float32), "total"), x)
    model = ov.Model([result("y", total)], [op6.assign(total, "total")], [x], "model")
    ov.save_model(model, str(tmp_path / "model.xml"), compress_to_fp16=False)
    loaded = load(tmp_path, **options)
    assert [await answer(loaded, floats(value)) for value in (5, 5, 1)] == [[5.0], [5.0], [1.0]]


@repeated(75, 150)
@pytest.mark.parametrize("config", [{}, {"INFERENCE_NUM_THREADS": "1"}], ids=["chosen", "one"])
async def test_a_cancelled_request_of_open_shapes_spoils_no_other(
    tmp_path: Path, config: dict[str, str], rounds: int
) -> None:
    """OpenVINO, cancelled between two operations, leaves some bound to freed memory."""

    def body(x: Any) -> Any:
        for _ in range(12):
            x = op.relu(op.matmul(x, constant(np.eye(64), np.float32), False, False))
            zero = op.multiply(op.reduce_max(x, constant([1]), True), constant(0, np.float32))
            x = op.add(x, zero)
        return x

    model = load(
        unary(tmp_path, [-1, 64], DataType.FP32, body),
        execution="async",
        nireq=1,
        inference_precision="f32",
        plugin_config=config,
    )
    rng = np.random.default_rng(0)
    for turn in range(rounds):
        count = int(rng.integers(1, 60)) * (1 + turn // 4)
        doomed = asyncio.ensure_future(run(model, {"x": np.ones((count, 64), np.float32)}))
        await asyncio.sleep(float(rng.random()) / 1000)
        doomed.cancel()
        await asyncio.gather(doomed, return_exceptions=True)
        array = np.full((int(rng.integers(1, 30)), 64), turn, np.float32)
        assert np.array_equal((await run(model, {"x": array}))["y"], array)


def hazards_of(directory: Path) -> Hazards:
    (draft,) = read(directory, OpenVinoOptions()).drafts
    hazards, _ = guard(draft.model, prepare(draft, draft.model, EngineOptions()).inputs)
    return hazards


@pytest.mark.parametrize("shape", [[4, 8], [-1, 8], [-1, -1]], ids=str)
def test_an_ordinary_graph_has_none(tmp_path: Path, shape: list[int]) -> None:
    """It keeps the shortest way: the synchronous call, and no output beside its own."""

    def body(x: Any) -> Any:
        hidden = op.relu(op.matmul(x, constant(np.ones((8, 4)), np.float32), False, False))
        size = op.gather(op.shape_of(hidden), constant([0]), constant(0))
        flat = op.reshape(hidden, op.concat([size, constant([-1])], 0), False)
        return op.softmax(flat, 1)

    assert hazards_of(unary(tmp_path, shape, DataType.FP32, body)) == Hazards()


def embedding(ids: Any) -> Any:
    table = constant(np.arange(12).reshape(6, 2), np.float32)
    return op.gather(table, ids, constant(0))


def test_indices_of_a_request_cost_a_flag_and_leave_the_shortest_way(tmp_path: Path) -> None:
    hazards = hazards_of(unary(tmp_path, [-1, 3], DataType.INT64, embedding))
    assert len(hazards.refusals) == 1
    assert not hazards.needs_care


def test_repeated_indices_are_compared_before_they_are_repeated(tmp_path: Path) -> None:
    def body(ids: Any) -> Any:
        wide = op.broadcast(op.unsqueeze(ids, constant([1])), constant([6, 500]))
        table = constant(np.arange(3000).reshape(6, 500), np.float32)
        return op.gather_elements(table, wide, 0)

    (draft,) = read(unary(tmp_path, [6], DataType.INT64, body), OpenVinoOptions()).drafts
    guard(draft.model, prepare(draft, draft.model, EngineOptions()).inputs)
    compared = [node for node in draft.model.get_ops() if node.get_type_name() == "Less"]
    assert [tuple(node.get_output_shape(0)) for node in compared] == [(6, 1)]


@pytest.mark.parametrize(
    ("indices", "flags"),
    [
        pytest.param([0, -1], 0, id="within all sizes"),
        pytest.param([3], 0, id="within the least size"),
        pytest.param([4], 1, id="within some sizes"),
        pytest.param([-5], 1, id="within some sizes, from the end"),
        pytest.param(np.zeros(0), 0, id="none"),
    ],
)
def test_indices_that_are_known_at_load_are_checked_where_they_may_be_out_of_range(
    tmp_path: Path, indices: Any, flags: int
) -> None:
    def body(x: Any) -> Any:
        return op.gather(x, op.unsqueeze(constant(indices), constant([0])), constant(0))

    assert len(hazards_of(unary(tmp_path, [(4, 9)], DataType.FP32, body)).refusals) == flags


def test_sizes_that_follow_from_shapes_cost_nothing(tmp_path: Path) -> None:
    """They grow with the request's own bytes."""

    def body(x: Any) -> Any:
        count = op.gather(op.shape_of(x), constant(0), constant(0))
        numbers = op.range(constant(0), count, constant(1), "f32")
        return op.tile(op.broadcast(numbers, op.shape_of(x)), op.unsqueeze(count, constant(0)))

    assert hazards_of(unary(tmp_path, [-1], DataType.FP32, body)).refusals == ()


async def test_an_axis_of_the_request_is_bounded_with_its_indices(tmp_path: Path) -> None:
    axis, ids = parameter("axis", [1], DataType.INT32), parameter("ids", [1, 1], DataType.INT32)
    data, update = constant(np.zeros((2, 3)), np.float32), constant([[5]], np.float32)
    scattered = op.scatter_elements_update(data, ids, update, axis)
    model = load(save(tmp_path, [result("y", scattered)], [axis, ids]))

    def inputs(axis: int, index: int) -> dict[str, Array]:
        return {"axis": np.array([axis], np.int32), "ids": np.array([[index]], np.int32)}

    assert await answer(model, inputs(0, 1)) == [[0, 0, 0], [5, 0, 0]]
    assert await answer(model, inputs(1, 2)) == [[0, 0, 5], [0, 0, 0]]
    with pytest.raises(InvalidTensor, match="out of range"):
        await answer(model, inputs(0, 2))
    with pytest.raises(InvalidRequest):
        await answer(model, inputs(9, 0))
    assert await answer(model, inputs(-1, -1)) == [[0, 0, 5], [0, 0, 0]]


def test_the_flags_bear_the_names_of_the_operations(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        top = op.topk(positive(x), constant(1), 0, "max", "value")
        top.set_friendly_name("best")
        return top.output(0)

    hazards = hazards_of(open_input(tmp_path, body))
    assert hazards.by_values
    assert hazards.flagged[-1] == "best"


def test_a_model_that_could_not_be_compiled_anew_answers_nothing(tmp_path: Path) -> None:
    """Each use fails until a renewal succeeds; memory of before is never read."""
    (draft,) = read(open_input(tmp_path, positive), OpenVinoOptions()).drafts
    ports = prepare(draft, draft.model, EngineOptions())
    hazards, _ = guard(draft.model, ports.inputs)
    broken = False

    def make() -> ov.InferRequest:
        if broken:
            raise RuntimeError("out of memory")
        return ov.Core().compile_model(draft.model, "CPU").create_infer_request()

    slot = Slot(make, ports.inputs, ports.outputs, hazards)
    slot.fill(floats(1, 2))
    assert slot.run()["y"].tolist() == [1.0, 2.0]
    broken = True
    with pytest.raises(RuntimeError, match="out of memory"):
        slot.renew()
    slot.fill(floats(3))
    with pytest.raises(RuntimeError, match="could not be compiled anew"):
        slot.run()
    broken = False
    slot.renew()
    slot.fill(floats(3))
    assert slot.run()["y"].tolist() == [3.0]
