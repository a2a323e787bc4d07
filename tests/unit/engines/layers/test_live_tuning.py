"""Faster ways to compute a model are found on requests, which are answered alike all the time."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset15 as op
import pytest

from ie_serving.core.values.errors import InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.base import REHEARSED, CompiledModel
from ie_serving.engines.layers import live_tuning
from ie_serving.engines.layers.layer import Layer
from ie_serving.engines.layers.live_tuning import COMPARISONS, TURNS, LiveTuningLayer, Way
from tests.process import PATIENCE_S
from tests.unit.engines.openvino.models import copies, load, parameter, result, save

MANY, SIZE = 80, 256
FOUND, NONE = 'live tuning done way="way 1"', 'live tuning done way="as loaded"'
NEEDED = 2 + COMPARISONS + 2 * TURNS
ROW = {"x": np.ones((1, SIZE), np.float32)}


def write(directory: Path, layers: int, rows: int = -1, factor: float = 1.0) -> Path:
    """Write y = factor * x by so many products, each of which takes time."""
    x = parameter("x", [rows, SIZE])
    y = op.multiply(x, np.float32(factor))
    for _ in range(layers):
        y = op.relu(op.matmul(y, op.constant(np.eye(SIZE, dtype=np.float32)), False, False))
    return save(directory, [result("y", y)], [x])


class Other:
    """Compiles another directory for known shapes; counts what is opened and closed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[Mapping[str, tuple[int, ...]]] = []
        self.closed = 0

    def __call__(self, shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        self.asked.append(shapes)
        model = load(self.directory)
        close = model.close

        def counted() -> None:
            self.closed += 1
            close()

        model.close = counted  # type: ignore[method-assign]
        return model


def layer_of(directory: Path, *ways: Any) -> LiveTuningLayer:
    named = [Way(f"way {number}", opens) for number, opens in enumerate(ways, 1)]
    return LiveTuningLayer(load(directory), named, 0.0, 1e-3)


async def infer(model: CompiledModel, inputs: Mapping[str, Array]) -> Array:
    return (await model.infer(model.signatures[SERVING_DEFAULT], inputs, copies))["y"]


async def until(
    caplog: pytest.LogCaptureFixture, text: str, model: CompiledModel, inputs: Mapping[str, Array]
) -> None:
    """Send requests until the log has a text; each answer is right."""
    caplog.set_level(logging.INFO)

    async def ask() -> None:
        while text not in caplog.text:
            np.testing.assert_allclose(await infer(model, inputs), inputs["x"], 1e-5)
            await asyncio.sleep(0)  # short inferences never wait

    await asyncio.wait_for(ask(), PATIENCE_S)


async def until_closed(other: Other, times: int = 1) -> None:
    """Wait for a thread that closes what was opened."""

    async def wait() -> None:
        while other.closed < times:
            await asyncio.sleep(0.001)

    await asyncio.wait_for(wait(), PATIENCE_S)


async def test_a_faster_way_answers_requests_of_its_shapes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Other(write(tmp_path / "other", 1, rows=1))
    model = layer_of(write(tmp_path / "own", MANY), other)
    await until(caplog, FOUND, model, ROW)
    assert other.asked == [{"x": (1, SIZE)}]
    assert NONE not in caplog.text
    np.testing.assert_array_equal(await infer(model, ROW), ROW["x"])
    others = {"x": np.full((3, SIZE), 2, np.float32)}
    np.testing.assert_array_equal(await infer(model, others), others["x"])
    assert not other.closed
    model.close()
    assert other.closed == 1


@pytest.mark.parametrize(
    ("layers", "factor", "cause"),
    [
        pytest.param(MANY, 1.0, "ms, and", id="a slower one"),
        pytest.param(1, 1.5, 'output \\"y\\"', id="one of other outputs"),
    ],
)
async def test_a_way_that_is_no_better_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, layers: int, factor: float, cause: str
) -> None:
    other = Other(write(tmp_path / "other", layers, factor=factor))
    model = layer_of(write(tmp_path / "own", 1), other)
    await until(caplog, NONE, model, ROW)
    assert cause in caplog.text
    await until_closed(other)
    for _ in range(NEEDED):
        await infer(model, ROW)
    assert len(other.asked) == 1
    model.close()
    assert other.closed == 1


async def test_the_model_answers_what_another_way_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = parameter("x", [1, SIZE])
    largest = op.topk(x, np.int64(1), 1, "max", "value").output(0)  # refuses NaN
    y = op.add(x, op.multiply(largest, np.float32(0)))
    other = Other(save(tmp_path / "other", [result("y", y)], [x]))
    model = layer_of(write(tmp_path / "own", MANY), other)
    await until(caplog, FOUND, model, ROW)
    odd = {"x": np.full((1, SIZE), np.nan, np.float32)}
    with pytest.raises(InvalidTensor, match="TopK"):
        await infer(load(other.directory), odd)
    np.testing.assert_array_equal(await infer(model, odd), await infer(model.inner, odd))
    model.close()


async def test_a_way_that_cannot_be_opened_is_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def refuse(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        asked.append(shapes)
        raise LoadFailed("the files are gone")

    model = layer_of(write(tmp_path, 1), refuse)
    await until(caplog, "the files are gone", model, ROW)
    for _ in range(NEEDED):
        await infer(model, ROW)
    assert len(asked) == 1
    model.close()


async def test_requests_of_the_server_itself_do_not_count(tmp_path: Path) -> None:
    other = Other(tmp_path)
    model = layer_of(write(tmp_path, 1), other)
    REHEARSED.set(True)
    for _ in range(NEEDED):
        await infer(model, ROW)
    assert not other.asked
    model.close()


async def test_a_model_that_is_closed_meanwhile_keeps_no_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Other(write(tmp_path / "other", 1, rows=1))
    begun, goes_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def held(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result(PATIENCE_S)
        return other(shapes)

    model = layer_of(write(tmp_path / "own", 1), held)
    for _ in range(1 + COMPARISONS):
        await infer(model, ROW)
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    model.close()
    goes_on.set()
    await until_closed(other)


async def test_the_best_of_several_ways_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slower, fast = Other(write(tmp_path / "slower", MANY // 2)), Other(write(tmp_path / "fast", 1))
    model = layer_of(write(tmp_path / "own", MANY, rows=1), slower, fast)
    await until(caplog, 'way="way 2"', model, ROW)
    await until_closed(slower)
    assert not fast.closed
    model.close()
    assert (slower.closed, fast.closed) == (1, 1)


async def test_concurrent_requests_keep_what_they_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slower, fast = Other(write(tmp_path / "slower", MANY // 2)), Other(write(tmp_path / "fast", 1))
    model = layer_of(write(tmp_path / "own", MANY), slower, fast)
    asking = (until(caplog, 'way="way 2"', model, ROW) for _ in range(8))
    await asyncio.gather(*asking)
    await until_closed(slower)
    model.close()
    assert (slower.closed, fast.closed) == (1, 1)


class Held(Layer):
    """Holds the request for which `gate` was set."""

    gate: asyncio.Event | None = None

    async def infer(self, *args: Any) -> Any:
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()
        return await self.inner.infer(*args)


async def test_a_way_closes_after_the_requests_that_it_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also after one that began while the next way was opened."""
    slower, fast = Other(write(tmp_path / "slower", MANY // 2)), Other(write(tmp_path / "fast", 1))
    held: list[Held] = []
    begun, goes_on = threading.Event(), threading.Event()

    def first(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        held.append(Held(slower(shapes)))
        return held[0]

    def second(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        begun.set()
        goes_on.wait(PATIENCE_S)
        return fast(shapes)

    model = layer_of(write(tmp_path / "own", MANY), first, second)
    while not begun.is_set():
        await infer(model, ROW)
    gate = held[0].gate = asyncio.Event()
    early = asyncio.create_task(infer(model, ROW))
    await asyncio.sleep(0)
    goes_on.set()
    await until(caplog, 'way="way 2"', model, ROW)
    await asyncio.sleep(0.05)
    assert not slower.closed
    gate.set()
    np.testing.assert_array_equal(await early, ROW["x"])
    await until_closed(slower)
    model.close()
    assert (slower.closed, fast.closed) == (1, 1)


async def test_no_way_is_tried_for_short_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "LEAST_S", PATIENCE_S)
    other = Other(tmp_path)
    model = layer_of(write(tmp_path, 0), other)
    for _ in range(NEEDED):
        await infer(model, ROW)
    assert not other.asked
    model.close()


async def test_ways_of_one_shape_are_opened_at_a_time(tmp_path: Path) -> None:
    other, goes_on = Other(write(tmp_path / "other", 1)), threading.Event()

    def held(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        opened = other(shapes)
        goes_on.wait(PATIENCE_S)
        return opened

    model = layer_of(write(tmp_path / "own", MANY), held)
    try:
        for _ in range(NEEDED):
            for rows in (1, 2, 3):
                await infer(model, {"x": np.ones((rows, SIZE), np.float32)})
        assert other.asked == [{"x": (1, SIZE)}]
        assert sum(each.name == "live tuning" for each in threading.enumerate()) == 1
    finally:
        goes_on.set()
    model.close()


async def test_a_trial_whose_requests_end_makes_room_for_other_shapes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "MOST_MISSED", COMPARISONS)
    other = Other(write(tmp_path / "other", 1))
    model = layer_of(write(tmp_path / "own", MANY), other)
    others = {"x": np.ones((2, SIZE), np.float32)}
    while not other.asked:
        await infer(model, ROW)
    await until(caplog, NONE, model, others)
    assert "clients stopped sending these shapes" in caplog.text
    await until(caplog, FOUND, model, others)
    assert other.asked == [{"x": (1, SIZE)}, {"x": (2, SIZE)}]
    model.close()
    await until_closed(other, 2)


class HeldAnswer(Layer):
    """Holds the first request that it answers, after those of the comparison."""

    def __init__(self, inner: CompiledModel) -> None:
        super().__init__(inner)
        self.asked, self.goes_on = 0, asyncio.Event()

    async def infer(self, *args: Any) -> Any:
        self.asked += 1
        if self.asked == COMPARISONS + 1:
            await self.goes_on.wait()
        return await self.inner.infer(*args)


async def test_a_request_of_an_abandoned_trial_chooses_no_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "MOST_MISSED", 2)
    monkeypatch.setattr(live_tuning, "TURNS", 1)
    caplog.set_level(logging.INFO)
    other, held = Other(write(tmp_path / "other", 1)), list[HeldAnswer]()

    def opens(shapes: Mapping[str, tuple[int, ...]]) -> CompiledModel:
        held.append(HeldAnswer(other(shapes)))
        return held[0]

    model = layer_of(write(tmp_path / "own", MANY), opens)
    pending: list[asyncio.Task[Array]] = []
    while not held or held[0].asked <= COMPARISONS:
        pending.append(asyncio.create_task(infer(model, ROW)))
        await asyncio.sleep(0.001)
    for rows in range(2, 2 + live_tuning.MOST_MISSED):
        await infer(model, {"x": np.ones((rows, SIZE), np.float32)})
    assert NONE in caplog.text
    held[0].goes_on.set()
    for task in pending:
        np.testing.assert_array_equal(await task, ROW["x"])
    await until_closed(other)
    np.testing.assert_array_equal(await infer(model, ROW), ROW["x"])
    assert FOUND not in caplog.text
    model.close()
    assert other.closed == 1


async def test_no_way_is_tried_for_large_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "MOST_SAMPLE", 2 * ROW["x"].nbytes - 1)
    other = Other(tmp_path)
    model = layer_of(write(tmp_path, MANY), other)
    await until(caplog, NONE, model, ROW)
    assert "have 2048 bytes, above 2047" in caplog.text
    assert not other.asked
    model.close()


async def test_few_shapes_are_kept_and_watched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tuning, "MOST_KEPT", 1)
    other = Other(write(tmp_path / "other", 1))
    model = layer_of(write(tmp_path / "own", MANY), other)
    await until(caplog, FOUND, model, ROW)
    for _ in range(NEEDED):
        await infer(model, {"x": np.ones((2, SIZE), np.float32)})
    assert other.asked == [{"x": (1, SIZE)}]
    model.close()
