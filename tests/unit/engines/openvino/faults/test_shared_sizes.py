"""Products whose operands do not fit together, in sizes that values or a trial's zeros decide.

OpenVINO 2026.4 alone answers with what lies behind the operand in memory, or ends the process.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor
from ie_serving.core.values.tensors import Array, DataType
from ie_serving.engines.run import latency_model
from tests.thinning import repeated
from tests.unit.engines.openvino.models import load, parameter, result, run, save

WIDTH = 48
"""Of the weights; a multiple of what the plugin computes at once."""


def constant(*shape: int, dtype: type = np.float32) -> Any:
    return op.constant(np.ones(shape, dtype))


def chosen(x: Any, *shape: int) -> Any:
    """Give the values that are not 0, in a shape with one size that is left open."""
    places = op.squeeze(op.non_zero(x, "i64"), op.constant(np.array([0])))
    picked = op.gather(x, places, op.constant(np.int64(0)))
    return op.reshape(picked, op.constant(np.array(shape)), False)


def in_branch(x: Any) -> Any:
    inner, other = parameter("inner", [-1]), parameter("other", [-1])
    product = op.matmul(chosen(inner, 1, -1), constant(WIDTH, 16), False, False)
    results = op.result(product), op.result(op.reshape(other, op.constant([1, -1]), False))
    total = op.reduce_sum(x, op.constant(np.array([0])), False)
    branch = op.if_op(op.greater(total, op.constant(np.float32(0))).output(0))
    branch.set_then_body(ov.Model([results[0]], [inner], "then"))
    branch.set_else_body(ov.Model([results[1]], [other], "else"))
    branch.set_input(x.output(0), inner, other)
    return op.multiply(branch.set_output(*results), op.constant(np.float32(1)))


def compressed(x: Any) -> Any:
    weights = op.multiply(op.convert(constant(WIDTH, 16, dtype=np.int8), "f32"), constant(1, 16))
    return op.matmul(chosen(x, 1, -1), weights, False, False)


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: op.matmul(chosen(x, 1, -1), constant(WIDTH, 16), False, False),
    "three dimensions": lambda x: op.matmul(
        chosen(x, 1, 1, -1), constant(3, WIDTH, 16), False, False
    ),
    "one dimension": lambda x: op.matmul(chosen(x, -1), constant(WIDTH, 16), False, False),
    "turned values": lambda x: op.matmul(chosen(x, -1, 1), constant(WIDTH, 16), True, False),
    "turned weights": lambda x: op.matmul(chosen(x, 1, -1), constant(16, WIDTH), False, True),
    "weights first": lambda x: op.matmul(constant(16, WIDTH), chosen(x, -1, 1), False, False),
    "compressed weights": compressed,
    "both by values": lambda x: op.matmul(
        chosen(x, 1, -1), chosen(op.relu(op.subtract(x, constant(1))), -1, 1), False, False
    ),
    "Einsum": lambda x: op.einsum([chosen(x, 1, -1), constant(WIDTH, 16)], "ab,bc->ac"),
    "Einsum of any rank": lambda x: op.einsum(
        [chosen(x, 1, 1, -1), constant(WIDTH, 16)], "...b,bc->...c"
    ),
    "width of attention": lambda x: op.scaled_dot_product_attention(
        chosen(x, 1, 1, 1, -1), constant(1, 1, 6, WIDTH), constant(1, 1, 6, WIDTH)
    ),
    "length of attention": lambda x: op.scaled_dot_product_attention(
        constant(1, 1, 2, 8), constant(1, 1, WIDTH, 8), chosen(x, 1, 1, -1, 1)
    ),
    "in a branch": in_branch,
}


async def answer(model: Any, values: Array) -> Any:
    return (await asyncio.wait_for(run(model, {"x": values}), 30.0))["y"].tolist()


@pytest.mark.thinned(2)
@repeated(2, 4)
@pytest.mark.parametrize("name", PRODUCTS)
def test_operands_that_values_leave_unfit_are_refused(
    tmp_path: Path, name: str, rounds: int
) -> None:
    x = parameter("x", [-1])
    save(tmp_path, [result("y", PRODUCTS[name](x))], [x])
    model = load(tmp_path, inference_precision="f32")
    both = name == "both by values"
    fit = np.full(WIDTH, 2.0 if both else 1.0, np.float32)

    async def ask() -> None:
        expected = await answer(model, fit)
        for given in (5, 3000, 1, 2 * WIDTH)[:rounds]:
            unfit = np.ones(given, np.float32)
            with pytest.raises(InvalidRequest):
                await answer(model, np.append(unfit, np.float32(2)) if both else unfit)
            assert await answer(model, fit) == expected

    asyncio.run(ask())
    model.close()


def test_shapes_that_do_not_fit_are_not_tried_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try of 64 rows and columns read beyond its 64 columns, and ended one start in 60."""
    tried: list[tuple[int, ...]] = []
    latency = latency_model.latency

    def noted(make: Any, inputs: Any, failures: Any) -> Any:
        tried.extend(array.shape for array in inputs.values())
        return latency(make, inputs, failures)

    monkeypatch.setattr(latency_model, "latency", noted)
    for columns in (-1, WIDTH):
        x = parameter("x", [-1, columns])
        directory = save(
            tmp_path / str(columns),
            [result("y", op.matmul(x, constant(WIDTH, 16), False, False))],
            [x],
        )
        model = load(directory, inference_precision="f32")
        with pytest.raises(InvalidTensor):
            asyncio.run(answer(model, np.ones((1, WIDTH + 1), np.float32)))
        model.close()
    assert tried
    assert {shape[1] for shape in tried} == {WIDTH}


def cut(name: str, shape: list[int], dtype: DataType = DataType.FP32) -> tuple[list[Any], Any]:
    """Give inputs, and the first of them cut to the sizes that the second tells."""
    rank = len(shape)
    x = parameter(name, [-1] * rank, dtype)
    sizes = parameter(f"{name}_sizes", [rank], DataType.INT32)
    begin, step, axes = (op.constant(np.array(v)) for v in ([0] * rank, [1] * rank, range(rank)))
    part = op.slice(x, begin, sizes, step, axes)
    known = [size if size > 0 else 0 for size in shape]
    return [x, sizes], op.reshape(part, op.constant(np.array(known)), True)


LAST_AXIS = op.constant(np.int64(2))
ALIGNED = (1, 1, 1, 1.0, "avg")
"""One pixel of one sample for each region."""

Shapes = list[list[int]]
SHARED: dict[str, tuple[Callable[..., Any], Shapes, Shapes, list[Shapes]]] = {
    "Gather": (
        lambda x, at: op.gather(x, op.convert(at, "i32"), LAST_AXIS, 1),
        [[-1, -1, -1], [-1, -1]],
        [[2, 3, 3], [2, 2]],
        [[[4, 3, 3], [2, 2]], [[2, 3, 3], [4, 2]], [[1, 3, 3], [4, 2]], [[4, 3, 3], [1, 2]]],
    ),
    "Gather of two": (
        lambda x, at: op.gather(x, op.convert(at, "i32"), LAST_AXIS, -1),
        [[-1, -1, -1], [-1, -1, -1]],
        [[2, 2, 3], [2, 2, 1]],
        [[[2, 3, 3], [2, 2, 1]], [[2, 1, 3], [2, 4, 1]], [[4, 3, 3], [6, 2, 1]]],
    ),
    "GatherND": (
        lambda x, at: op.gather_nd(x, op.convert(at, "i32"), 1),
        [[-1, -1, -1], [-1, 2]],
        [[2, 3, 3], [2, 2]],
        [[[4, 3, 3], [2, 2]], [[2, 3, 3], [4, 2]], [[1, 3, 3], [4, 2]]],
    ),
    "CTCGreedyDecoderSeqLen": (
        lambda x, size: op.ctc_greedy_decoder_seq_len(x, op.convert(size, "i32")).output(0),
        [[-1, -1, -1], [-1]],
        [[2, 3, 4], [2]],
        [[[2, 3, 4], [1]], [[2, 3, 4], [3]]],
    ),
    "GroupNormalization": (
        lambda x, scale: op.group_normalization(x, scale, scale, 2, 1e-5),
        [[-1, -1, -1], [-1]],
        [[1, 4, 2], [4]],
        [[[1, 4, 2], [1]], [[1, 4, 2], [2]], [[1, 4, 2], [8]]],
    ),
    "attention of widths": (
        lambda x, y: op.scaled_dot_product_attention(x, y, y),
        [[-1, -1, -1], [-1, -1, -1]],
        [[2, 3, 4], [2, 3, 4]],
        [[[2, 3, 4], [2, 3, 5]], [[2, 3, 5], [2, 3, 4]]],
    ),
    "attention of lengths": (
        lambda x, y: op.scaled_dot_product_attention(x, x, y),
        [[-1, -1, -1], [-1, -1, -1]],
        [[2, 3, 4], [2, 3, 4]],
        [[[2, 3, 4], [2, 5, 4]], [[2, 3, 4], [2, 2, 4]]],
    ),
    "ScatterElementsUpdate": (
        lambda x, at: op.scatter_elements_update(
            x, op.convert(at, "i32"), at, op.constant(np.int64(0))
        ),
        [[-1, -1], [-1, -1]],
        [[3, 2], [5, 2]],
        [[[3, 2], [1, 4]], [[3, 1], [1, 100_000]]],
    ),
    "ROIAlign": (
        lambda x, at: op.roi_align(
            op.constant(np.ones((1, 1, 4, 4), np.float32)), x, op.convert(at, "i32"), *ALIGNED
        ),
        [[-1, 4], [-1]],
        [[2, 4], [2]],
        [[[2, 4], [1]], [[1, 4], [2]]],
    ),
}
"""By operation: it of two operands, their shapes, sizes that fit, and sizes that do not."""


@repeated(1, 4)
@pytest.mark.parametrize("name", SHARED)
async def test_operands_share_the_sizes_that_values_decide(
    tmp_path: Path, name: str, rounds: int
) -> None:
    """`Gather` gave rows of no batch, or left some out; others read what lay behind in memory."""
    build, shapes, good, bad = SHARED[name]
    (xs, x), (ys, y) = cut("x", shapes[0]), cut("y", shapes[1])
    model = load(save(tmp_path, [result("z", op.convert(build(x, y), "f32"))], [*xs, *ys]))

    def inputs(sizes: Shapes) -> dict[str, Array]:
        first, second = (np.array(each, np.int32) for each in sizes)
        ones, zeros = np.ones(first, np.float32), np.zeros(second, np.float32)
        return {"x": ones, "x_sizes": first, "y": zeros, "y_sizes": second}

    expected = (await run(model, inputs(good)))["z"]
    for sizes in bad[-rounds:]:
        with pytest.raises(InvalidRequest):
            await run(model, inputs(sizes))
        assert (await run(model, inputs(good)))["z"].tolist() == expected.tolist()


async def test_a_scatter_reaches_no_farther_than_its_data(tmp_path: Path) -> None:
    """Four columns for data of two were written behind each row; 100,000 ended the process."""
    x, at = parameter("x", [-1, -1]), parameter("at", [-1, -1], DataType.INT32)
    axis = op.constant(np.int64(0))
    y = op.scatter_elements_update(x, at, op.convert(at, "f32"), axis)
    model = load(save(tmp_path, [result("y", y)], [x, at]))
    data = np.ones((3, 2), np.float32)
    for columns in 4, 100_000:
        with pytest.raises(InvalidTensor):
            await run(model, {"x": data, "at": np.zeros((1, columns), np.int32)})
        fits = await run(model, {"x": data, "at": np.zeros((5, 2), np.int32)})
        assert fits["y"].tolist() == [[0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("cut", ["slice", "strided_slice"])
async def test_ends_of_other_axes_are_refused(tmp_path: Path, cut: str) -> None:
    x, ends = parameter("x", [-1, -1]), parameter("ends", [-1])
    count = op.convert(chosen(ends, -1), "i64")
    begins, steps = (op.constant(np.array([each] * 2)) for each in (0, 1))
    masks = [[0, 0]] * 4 + [[]] if cut == "strided_slice" else []
    y = getattr(op, cut)(x, begins, count, steps, *masks)
    model = load(save(tmp_path, [result("y", y)], [x, ends]))
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    for few in ([0, 0, 0], [0, 2, 0], [1, 2, 3]):
        with pytest.raises((InvalidRequest, InvalidTensor)):
            await run(model, {"x": values, "ends": np.array(few, np.float32)})
        answer = await run(model, {"x": values, "ends": np.array([2, 0, 3], np.float32)})
        assert answer["y"].tolist() == values[:2, :3].tolist()
