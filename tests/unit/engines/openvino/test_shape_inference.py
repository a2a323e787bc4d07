"""Shapes that were never seen are tried beside the event loop, each combination once."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino import shape_inference
from ie_serving.engines.openvino.read import read
from ie_serving.engines.openvino.shape_inference import ShapeInference, Shapes
from ie_serving.engines.openvino.specs import prepare
from ie_serving.errors import InvalidTensor, QueueFull
from tests.unit.engines.openvino.models import parameter, result, save

WAIT_S = 30.0


class Counting(ShapeInference):
    """Counts inferences, and holds them until `go` is set."""

    def __init__(self, model: ov.Model, ports: object) -> None:
        super().__init__(model, ports)  # type: ignore[arg-type]
        self.go = Event()
        self.go.set()
        self.inferred: list[Shapes] = []

    def _infer(self, shapes: Shapes) -> str | None:
        assert self.go.wait(WAIT_S)
        self.inferred.append(shapes)
        return super()._infer(shapes)


@pytest.fixture
def product(tmp_path: Path) -> Counting:
    """A product of two matrices: the second dimension of one is the first of the other."""
    a, b = parameter("a", [-1, -1]), parameter("b", [-1, -1])
    save(tmp_path, [result("y", op.matmul(a, b, False, False))], [a, b])
    (draft,) = read(tmp_path)
    return Counting(draft.model, prepare(draft, EngineOptions()).inputs)


@pytest.fixture(autouse=True)
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(shape_inference, "_thread", threads)
        yield


FITS: Shapes = ((1, 2), (2, 3))
FAILS: Shapes = ((1, 2), (3, 3))


def arrays(shapes: Shapes) -> dict[str, np.ndarray]:
    return {name: np.zeros(shape) for name, shape in zip("ab", shapes, strict=True)}


async def test_what_fits_is_tried_once(product: Counting) -> None:
    assert product.unknown(arrays(FITS)) == FITS
    await product.check(FITS)
    assert product.unknown(arrays(FITS)) is None


async def test_what_does_not_fit_is_refused_each_time_and_tried_once(product: Counting) -> None:
    for _ in range(3):
        assert product.unknown(arrays(FAILS)) == FAILS
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


async def test_the_oldest_of_too_many_is_forgotten(
    product: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_inference, "KNOWN_LIMIT", 3)
    shapes: list[Shapes] = [((1, n), (n, 1)) for n in range(1, 5)]
    for each in shapes:
        await product.check(each)
    assert [product.unknown(arrays(each)) is None for each in shapes] == [False, True, True, True]


async def test_the_queue_has_an_end(product: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_inference, "MOST_WAITING", 2)
    product.go.clear()
    tasks = [asyncio.ensure_future(product.check(((1, n), (n, 1)))) for n in range(1, 3)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull, match="send fewer shapes"):
        await product.check(FITS)
    product.go.set()
    await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
    await product.check(FITS)
