"""What a compiled model promises for each dtype, shape, failure and cancellation."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed, ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.faults.hazards import Hazards
from ie_serving.engines.openvino.interface.tensor_specs import prepare
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.read import read
from ie_serving.engines.openvino.running.slot import Slot
from ie_serving.engines.run.program import CompiledPrograms
from tests.thinning import repeated
from tests.unit.engines.openvino.models import (
    add_one,
    copies,
    load,
    ov_type,
    parameter,
    result,
    run,
    save,
    unary,
)

WAIT_S = 30.0
BOTH_WAYS = pytest.mark.parametrize("execution", ["inline", "async"])
NUMERIC = [d for d in DataType if d is not DataType.STRING]


def values(dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Give values of `dtype`, its extremes among them."""
    count = int(np.prod(shape))
    if dtype is DataType.STRING:
        texts = [b"", b"\xff\xfe", b"a\0b", "ü".encode(), b"x" * 100]
        return np.array([texts[i % 5] for i in range(count)], np.object_).reshape(shape)
    if dtype is DataType.BOOL:
        return (np.arange(count) % 2 == 0).reshape(shape)
    if dtype.numpy.kind in "iu":
        info = np.iinfo(dtype.numpy)
        ends = [info.max, info.min, 1]
        return np.array([ends[i % 3] for i in range(count)], dtype.numpy).reshape(shape)
    return (np.arange(count) * 0.5).astype(dtype.numpy).reshape(shape)


@BOTH_WAYS
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0, 2)], ids=str)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "fixed"])
@pytest.mark.parametrize("dtype", DataType, ids=lambda d: d.name)
async def test_every_dtype_passes_unchanged(
    tmp_path: Path, dtype: DataType, shape: tuple[int, ...], is_open: bool, execution: str
) -> None:
    dims = [-1] * len(shape) if is_open else shape
    model = load(unary(tmp_path, dims, dtype, lambda x: x), execution=execution)
    (spec,) = model.signatures[SERVING_DEFAULT].inputs.values()
    assert (spec.dtype, spec.shape) == (dtype, tuple(dims))
    given_values = values(dtype, shape)
    (answer,) = (await run(model, {"x": given_values})).values()
    assert answer.dtype == dtype.numpy
    assert answer.shape == shape
    assert np.array_equal(answer, given_values)


@pytest.mark.parametrize("dtype", [d for d in NUMERIC if d is not DataType.BOOL], ids=str)
async def test_every_number_can_be_computed_with(tmp_path: Path, dtype: DataType) -> None:
    def body(x: Any) -> Any:
        return op.add(x, op.convert(op.constant(np.int32(1)), ov_type(dtype)))

    model = load(unary(tmp_path, [-1, 2], dtype, body))
    answer = await run(model, {"x": np.array([[1, 2]], dtype.numpy)})
    assert answer["y"].dtype == dtype.numpy
    assert answer["y"].tolist() == [[2, 3]]


@given(
    arrays=st.lists(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)),
        max_size=6,
    )
)
def test_requests_of_any_shape_follow_one_another_without_a_trace(
    arrays: list[Array], any_shape: CompiledPrograms
) -> None:
    """Tensors are kept between requests; nothing of an earlier one may show."""

    async def ask() -> None:
        for array in arrays:
            answer = await run(any_shape, {"x": array})
            assert np.array_equal(answer["y"], array + np.float32(1), equal_nan=True)

    asyncio.run(ask())


@pytest.fixture(scope="module")
def any_shape(tmp_path_factory: pytest.TempPathFactory) -> CompiledPrograms:
    path = add_one(tmp_path_factory.mktemp("model"), (-1, -1))
    return load(path, execution="inline", inference_precision="f32")


async def test_arrays_need_not_be_contiguous_or_writeable(tmp_path: Path) -> None:
    model = load(add_one(tmp_path))
    array = np.arange(8, dtype=np.float32).reshape(2, 4).T[:, :2]
    array.flags.writeable = False
    assert np.array_equal((await run(model, {"x": array}))["y"], array + 1)


async def test_an_open_rank_is_compiled_for_the_ranks_of_requests(tmp_path: Path) -> None:
    model = load(add_one(tmp_path, None))
    assert model.signatures["serving_default"].inputs["x"].shape is None
    for shape in ((2,), (1, 2, 1)):
        answer = await run(model, {"x": np.ones(shape, np.float32)})
        assert answer["y"].tolist() == np.full(shape, 2.0).tolist()
    model.close()


async def test_several_inputs_and_outputs_keep_apart(tmp_path: Path) -> None:
    a, b = parameter("a", [-1]), parameter("b", [2], DataType.INT32)
    save(tmp_path, [result("twice", op.add(a, a)), result("less", op.negative(b))], [a, b])
    answer = await run(
        load(tmp_path), {"b": np.array([1, 2], np.int32), "a": np.array([0.5], np.float32)}
    )
    assert {name: array.tolist() for name, array in answer.items()} == {
        "twice": [1.0],
        "less": [-1, -2],
    }


async def test_an_input_can_be_an_output_as_well(tmp_path: Path) -> None:
    x = parameter("x", [-1])
    save(tmp_path, [op.result(x), result("y", op.add(x, x))], [x])
    answer = await run(load(tmp_path), {"x": np.array([3], np.float32)})
    assert {name: array.tolist() for name, array in answer.items()} == {"x": [3.0], "y": [6.0]}


async def test_strings_that_padding_would_make_huge_are_refused(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [-1], DataType.STRING, lambda x: x))
    texts = np.array([b"x" * 1_000_000, *[b"y"] * 100], np.object_)
    with pytest.raises(InvalidTensor, match=r'"x" holds 101 strings of up to 1000000 bytes'):
        await run(model, {"x": texts})


async def test_a_string_that_the_engine_would_cut_is_refused(tmp_path: Path) -> None:
    model = load(unary(tmp_path, [-1], DataType.STRING, lambda x: x))
    with pytest.raises(InvalidTensor, match=r'"x".*zero byte'):
        await run(model, {"x": np.array([b"a\0"], np.object_)})


async def test_a_size_outside_a_range_is_refused_with_the_range(tmp_path: Path) -> None:
    model = load(add_one(tmp_path, ((1, 4), 2)))
    with pytest.raises(InvalidTensor, match=r'"x" has shape \(5, 2\); the model takes \(1\.\.4, 2'):
        await run(model, {"x": np.ones((5, 2), np.float32)})
    assert (await run(model, {"x": np.ones((4, 2), np.float32)}))["y"].shape == (4, 2)


def test_a_dtype_without_a_name_on_the_wire_fails_to_load(tmp_path: Path) -> None:
    unary(tmp_path, [4], DataType.FP32, lambda x: op.convert(op.convert(x, "u8"), "u4"))
    with pytest.raises(LoadFailed, match="u4"):
        load(tmp_path)


def write_product(directory: Path) -> Path:
    """Write y = a @ b, whose shapes fit or not only at run time."""
    a, b = parameter("a", [-1, -1]), parameter("b", [-1, -1])
    return save(directory, [result("y", op.matmul(a, b, False, False))], [a, b])


@BOTH_WAYS
async def test_shapes_that_do_not_fit_are_refused_each_time_and_harm_nothing(
    tmp_path: Path, execution: str
) -> None:
    """OpenVINO itself would now and then answer the next request from freed memory."""
    model = load(write_product(tmp_path), execution=execution)
    bad = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    good = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 1), np.float32)}
    for _ in range(20):
        for _ in range(2):
            with pytest.raises(InvalidTensor, match=r'"a" \(2, 3\), "b" \(2, 3\)') as failure:
                await asyncio.wait_for(run(model, bad), WAIT_S)
            assert "\n" not in str(failure.value)
            assert ".cpp" not in str(failure.value)
        assert (await asyncio.wait_for(run(model, good), WAIT_S))["y"].tolist() == [[3], [3]]


@given(
    shapes=st.lists(st.tuples(*[st.integers(1, 3)] * 4), max_size=10),
)
def test_after_any_shapes_a_product_is_right_or_refused(
    shapes: list[tuple[int, int, int, int]], product: CompiledPrograms
) -> None:
    async def ask_all() -> None:
        for rows, inner, other, columns in shapes:
            a = np.full((rows, inner), 2, np.float32)
            b = np.full((other, columns), 3, np.float32)
            try:
                answer = await run(product, {"a": a, "b": b})
            except InvalidTensor:
                assert inner != other
            else:
                assert np.array_equal(answer["y"], a @ b)

    asyncio.run(ask_all())


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> CompiledPrograms:
    return load(write_product(tmp_path_factory.mktemp("product")), execution="inline")


@BOTH_WAYS
async def test_a_refusal_while_the_engine_computes_is_one_clean_line(
    tmp_path: Path, execution: str
) -> None:
    x, shape = parameter("x", [-1]), parameter("shape", [2], DataType.INT32)
    save(tmp_path, [result("y", op.reshape(x, shape, False))], [x, shape])
    model = load(tmp_path, execution=execution)
    for rows in (1, 2, 2, 3, 3) * 2:
        bad = {"x": np.ones(6, np.float32), "shape": np.array([4, 4], np.int32)}
        with pytest.raises(InvalidRequest, match="Error occurred during inference") as failure:
            await asyncio.wait_for(run(model, bad), WAIT_S)
        assert "\n" not in str(failure.value)
        assert ".cpp" not in str(failure.value)
        values = np.arange(6, dtype=np.float32)
        good = {"x": values, "shape": np.array([rows, 6 // rows], np.int32)}
        answer = await asyncio.wait_for(run(model, good), WAIT_S)
        assert np.array_equal(answer["y"], values.reshape(rows, -1))


@BOTH_WAYS
async def test_an_error_of_read_is_not_taken_for_the_engines(
    tmp_path: Path, execution: str
) -> None:
    model = load(add_one(tmp_path), execution=execution)

    def read(outputs: Mapping[str, Array]) -> None:
        raise RuntimeError("of read")

    with pytest.raises(RuntimeError, match="of read") as failure:
        await model.infer(
            model.signatures[SERVING_DEFAULT], {"x": np.ones((1, 2), np.float32)}, read
        )
    assert not isinstance(failure.value, ServingError)


def test_the_first_requests_zeros_need_not_be_valid(tmp_path: Path) -> None:
    """The measurement at load must not fail a model that takes no input of size one."""
    a, b = parameter("a", [-1, 3]), parameter("b", [2, -1])
    save(
        tmp_path,
        [result("y", op.matmul(a, op.reshape(b, op.constant([3, 2]), False), False, False))],
        [a, b],
    )
    assert load(tmp_path).signatures


@repeated(10, 40)
@BOTH_WAYS
@pytest.mark.parametrize("nireq", [1, 3])
async def test_a_storm_of_cancellations_loses_no_request(
    tmp_path: Path, execution: str, nireq: int, rounds: int
) -> None:
    """Each round cancels callers at another point; the rest get their own answers."""
    model = load(slow(tmp_path), execution=execution, nireq=nireq)
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        tasks = [asyncio.ensure_future(ask(model, i)) for i in range(12)]
        for _ in range(int(rng.integers(0, 8))):
            await asyncio.sleep(0)
        if rng.random() < 0.5:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_S)
        doomed = {int(i) for i in rng.integers(0, 12, 6)}
        for i in doomed:
            tasks[i].cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
        survivors = [value for i, value in enumerate(done) if i not in doomed]
        assert survivors == [float(i) for i in range(12) if i not in doomed]
    together = asyncio.gather(*(ask(model, i) for i in range(3 * nireq)))
    assert await asyncio.wait_for(together, WAIT_S) == [float(i) for i in range(3 * nireq)]
    model.close()


async def test_a_cancelled_inference_ends_early(tmp_path: Path) -> None:
    """The engine stops between two layers and gives no outputs; the next request has its own."""
    (draft,) = read(slow(tmp_path, 500, 40), OpenVinoOptions()).drafts
    ports = prepare(draft, draft.model, EngineOptions())
    compiled = ov.Core().compile_model(draft.model, "CPU")
    slot = Slot(compiled.create_infer_request, ports.inputs, ports.outputs, Hazards())
    slot.fill({"x": np.ones((500, 500), np.float32)})
    running = asyncio.ensure_future(asyncio.to_thread(slot.run))
    # Again and again: before the inference has begun a cancellation has no effect.
    while not running.done():
        slot.cancel()
        await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match=r"(?i)cancel"):
        await running
    slot.fill({"x": np.full((500, 500), 2, np.float32)})
    assert slot.run()["y"].max() == 2


def slow(directory: Path, size: int = 300, layers: int = 3) -> Path:
    """Write y = x through products with the unit matrix, which take a while."""

    def body(x: Any) -> Any:
        for _ in range(layers):
            x = op.relu(op.matmul(x, op.constant(np.eye(size, dtype=np.float32)), False, False))
        return x

    return unary(directory, [size, size], DataType.FP32, body)


async def ask(model: CompiledPrograms, value: int, size: int = 300) -> float:
    inputs = {"x": np.full((size, size), value, np.float32)}
    return float((await run(model, inputs))["y"][0, 0])


async def test_reads_see_no_later_request(tmp_path: Path) -> None:
    """`read` runs before its memory is lent again, however many wait."""
    model = load(slow(tmp_path), execution="async", nireq=2)
    signature = model.signatures[SERVING_DEFAULT]
    calls = [
        model.infer(signature, {"x": np.full((300, 300), i, np.float32)}, copies) for i in range(20)
    ]
    answers = await asyncio.wait_for(asyncio.gather(*calls), WAIT_S)
    assert [float(a["y"].min()) for a in answers] == list(range(20))
    assert [float(a["y"].max()) for a in answers] == list(range(20))


async def test_loading_leaves_the_loop_free(tmp_path: Path) -> None:
    """Compiling releases the interpreter: the loop goes on turning meanwhile."""
    slow(tmp_path, 1000, 12)
    loading = asyncio.ensure_future(asyncio.to_thread(load, tmp_path, execution="async"))
    turns = 0
    while not loading.done():
        await asyncio.sleep(0.001)
        turns += 1
    (await loading).close()
    assert turns > 10
