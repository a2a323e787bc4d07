"""Shapes that were never seen are tried beside the event loop, each combination once."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor, QueueFull
from ie_serving.core.values.tensors import DataType
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.faults.hazards import guard
from ie_serving.engines.openvino.graphs.weightless import weightless_copy
from ie_serving.engines.openvino.interface.tensor_specs import prepare
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reading.read import read
from ie_serving.engines.openvino.running import shape_inference
from ie_serving.engines.openvino.running.shape_inference import ShapeInference
from ie_serving.engines.run.infer_request import Shapes
from tests.unit.engines.openvino.models import parameter, result, save, unary

WAIT_S = 30.0


class Counting(ShapeInference):
    """Counts inferences, and holds them until `go` is set."""

    def __init__(self, model: ov.Model, ports: object) -> None:
        super().__init__(weightless_copy(model), ports)  # type: ignore[arg-type]
        self.go = Event()
        self.go.set()
        self.inferred: list[Shapes] = []

    def try_shapes(self, shapes: Shapes) -> tuple[bool, str | None]:
        assert self.go.wait(WAIT_S)
        self.inferred.append(shapes)
        return super().try_shapes(shapes)


@pytest.fixture
def product(tmp_path: Path) -> Counting:
    """A product of two matrices: the second dimension of one is the first of the other."""
    a, b = parameter("a", [-1, -1]), parameter("b", [-1, -1])
    save(tmp_path, [result("y", op.matmul(a, b, False, False))], [a, b])
    (draft,) = read(tmp_path, OpenVinoOptions()).drafts
    return Counting(draft.model, prepare(draft, draft.model, EngineOptions()).inputs)


@pytest.fixture(autouse=True)
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(shape_inference, "TRIAL_THREAD", threads)
        yield


FITS: Shapes = ((1, 2), (2, 3))
HUGE: Shapes = ((1_000_000, 1), (1, 1_000_000))
FAILS: Shapes = ((1, 2), (3, 3))


async def test_shapes_that_fit_are_tried_once(product: Counting) -> None:
    assert FITS not in product.known
    await product.check(FITS)
    assert FITS in product.known


async def test_shapes_that_do_not_fit_are_refused_each_time_and_tried_once(
    product: Counting,
) -> None:
    for _ in range(3):
        assert FAILS not in product.known
        with pytest.raises(InvalidTensor, match=r'"a" \(1, 2\), "b" \(3, 3\)'):
            await product.check(FAILS)
    assert product.inferred == [FAILS]


@pytest.mark.parametrize("shapes", [FITS, FAILS], ids=["fits", "does not fit"])
async def test_requests_of_one_new_shape_share_its_trial(product: Counting, shapes: Shapes) -> None:
    checks = (product.check(shapes) for _ in range(20))
    answers = await asyncio.gather(*checks, return_exceptions=True)
    assert product.inferred == [shapes]
    assert [isinstance(answer, InvalidTensor) for answer in answers] == [shapes is FAILS] * 20


async def test_the_loop_goes_on_and_the_cancelled_leave_nothing_behind(product: Counting) -> None:
    """The first is being tried; of those behind it only the last is still wanted."""
    product.go.clear()
    shapes: list[Shapes] = [((1, n), (n, 1)) for n in range(1, 51)]
    tasks = [asyncio.ensure_future(product.check(each)) for each in shapes]
    for _ in range(5):
        await asyncio.sleep(0)
    for task in tasks[:-1]:
        task.cancel()
    await asyncio.sleep(0)
    product.go.set()
    await asyncio.wait_for(tasks[-1], WAIT_S)
    assert product.inferred == [shapes[0], shapes[-1]]


async def test_a_refusal_says_nothing_of_the_request_before(product: Counting) -> None:
    """OpenVINO names an operation with the sizes that it gave last."""
    await product.check(((1234, 2), (2, 5678)))
    with pytest.raises(InvalidTensor, match=r"\(1, 2\).*\(3, 3\)") as refused:
        await product.check(FAILS)
    assert "1234" not in str(refused.value)
    assert "5678" not in str(refused.value)


async def test_the_oldest_of_too_many_is_forgotten(
    product: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_inference, "KNOWN_LIMIT", 3)
    shapes: list[Shapes] = [((1, n), (n, 1)) for n in range(1, 5)]
    for each in shapes:
        await product.check(each)
    assert [each in product.known for each in shapes] == [False, True, True, True]


async def test_the_queue_has_an_end(product: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_inference, "MOST_INFER_WAITERS", 2)
    product.go.clear()
    tasks = [asyncio.ensure_future(product.check(((1, n), (n, 1)))) for n in range(1, 3)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match="send fewer shapes"):
        await product.check(FITS)
    product.go.set()
    await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
    await product.check(FITS)


def inference(directory: Path, body: Callable[[Any], Any]) -> ShapeInference:
    """Infer shapes of y = body(x), x of one open dimension."""
    (draft,) = read(unary(directory, [-1], DataType.FP32, body), OpenVinoOptions()).drafts
    inputs = prepare(draft, draft.model, EngineOptions()).inputs
    return ShapeInference(weightless_copy(draft.model), inputs)


@pytest.mark.parametrize(
    ("most", "size", "told"),
    [(1, 0, r"nothing is left for TopK"), (3, 2, r"TopK_\d+ is asked for the first 3 of 2")],
)
async def test_shapes_that_leave_an_operation_too_little_are_refused(
    tmp_path: Path, most: int, size: int, told: str
) -> None:
    """OpenVINO skips it, whose output keeps what an earlier request left, or its plugin fails."""
    greatest = op.constant(most)
    shapes = inference(tmp_path, lambda x: op.topk(x, greatest, 0, "max", "value").output(0))
    await shapes.check(((3,),))
    with pytest.raises(InvalidTensor, match=rf'"x" \({size},\): {told}'):
        await shapes.check(((size,),))


async def test_shapes_with_which_an_operation_may_fail_are_never_known(tmp_path: Path) -> None:
    """A product of nothing is zeros, but fails where OpenVINO has fused a sum into it."""
    shapes = inference(tmp_path, lambda x: op.reduce_sum(x, op.constant([0])))
    await shapes.check(((0,),))
    assert ((0,),) not in shapes.known


def test_memory_that_shapes_ask_for_stays_within_the_budget(
    product: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 MB of two rows become an outer product of 4 TB."""
    monkeypatch.setattr(shape_inference.BUDGET, "limit", 1 << 30)
    refusal = product.try_shapes(HUGE)[1]
    assert refusal is not None
    assert "would give 4000000000000 bytes" in refusal
    assert product.try_shapes(FITS) == (True, None)


def test_sizes_beyond_64_bits_are_too_large_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO's own size of such a tensor is 0."""
    monkeypatch.setattr(shape_inference.BUDGET, "limit", 1 << 30)
    shapes = inference(tmp_path, lambda x: op.einsum([x, x, x, x], "i,j,k,l->ijkl"))
    refusal = shapes.try_shapes(((1 << 16,),))[1]
    assert refusal is not None
    assert f"would give {4 << 64} bytes" in refusal
    assert shapes.try_shapes(((2,),)) == (True, None)


async def test_sizes_that_were_not_found_at_load_are_taken_when_they_come(tmp_path: Path) -> None:
    """No size that is tried at load is 7; the copy is open again then, and takes it."""
    seven = op.constant(np.ones((7, 2), np.float32))

    def product(x: Any) -> Any:
        return op.matmul(x, seven, False, False)

    (draft,) = read(unary(tmp_path, [1, -1], DataType.FP32, product), OpenVinoOptions()).drafts
    inputs = prepare(draft, draft.model, EngineOptions()).inputs
    hazards, twin = guard(draft.model, inputs)
    assert hazards.by_values, "where no size is known all of them count as such"
    shapes = ShapeInference(twin or weightless_copy(draft.model), inputs)
    with pytest.raises(InvalidTensor):
        await shapes.check(((1, 8),))
    await shapes.check(((1, 7),))
    assert list(shapes.known) == [((1, 7),)]


async def test_shapes_that_flags_read_are_tried_as_well(tmp_path: Path) -> None:
    """The copy that shows hazards serves here, too: it has the flags of what it shows."""
    table = op.constant([1.0, 2.0])

    def looked_up(x: Any) -> Any:
        return op.gather(table, op.convert(x, "i64"), op.constant(0))

    (draft,) = read(unary(tmp_path, [-1], DataType.FP32, looked_up), OpenVinoOptions()).drafts
    inputs = prepare(draft, draft.model, EngineOptions()).inputs
    hazards, twin = guard(draft.model, inputs)
    assert hazards.refusals
    assert twin is not None
    shapes = ShapeInference(twin, inputs)
    await shapes.check(((2,),))
    await shapes.check(((0,),))
    assert list(shapes.known) == [((2,),)]
