"""Copies of requests beside the requests: how many are kept, and what becomes of each."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.errors import InvalidTensor
from ie_serving.core.values.tensors import SERVING_DEFAULT, size_of
from ie_serving.engines.base import REHEARSED, EngineOptions
from ie_serving.engines.layers.sampling import ShadowLayer
from ie_serving.inference import shadows
from ie_serving.inference.shadows import AnsweredRequest, Shadows
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.served_models import ServedModel, ServedModels
from ie_serving.models.traffic.shadow import MOST_COPIES, Shadow
from ie_serving.models.version.handle import Servable
from tests.stand_in_engine import StandInEngine, StandInModel
from tests.unit.inference.stand_ins import MODEL, Loaded

WAIT_S = 10.0
MIB = 1 << 20


def copies() -> list[AnsweredRequest]:
    """Find the copies of requests in memory, wherever they are."""
    gc.collect()
    found = [each for each in gc.get_objects() if type(each) is AnsweredRequest]
    return [each for each in found if each.taken]  # a shadow's answers have no such time


class Pair:
    """Version 1 answers, and version 2 is its shadow, with the same arithmetic.

    Attributes:
        engine: of both.
        stream: of the model.
        shadows: what is tested.
        counts: of sampled requests.
    """

    def __init__(self, tolerance: float = 1e-3) -> None:
        self.engine = StandInEngine()
        versions = [self._version(number) for number in (1, 2)]
        self.stream: Any = Loaded(MODEL, versions, {"next": 2})
        served = ServedModels()
        config = ModelConfig(
            name=MODEL,
            base_path="/nowhere",
            shadow=Shadow(label="next", sampling_rate=1.0, tolerance=tolerance),
        )
        served.entries = {MODEL: ServedModel(config, self.stream)}
        self.counts: Counter[str] = Counter()
        self.shadows = Shadows(served, ShadowLayer, lambda name: self.counts, lambda rule: None)  # type: ignore[arg-type, return-value]
        self.shadows.follow([config])

    def _version(self, number: int) -> Servable:
        model = StandInModel(self.engine, Path("/nowhere"), {}, EngineOptions())
        return Servable(MODEL, number, model, model.signatures)

    async def ask(self, size: int = 1, version: int = 1) -> None:
        """Let a version answer a request of so many floats."""
        model = self.stream.available[version].compiled
        inputs = {"x": np.zeros(size, np.float32)}
        await model.infer(model.signatures[SERVING_DEFAULT], inputs, lambda outputs: None)

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for it."""

        async def looks() -> None:
            while not done():
                await asyncio.sleep(0.005)

        await asyncio.wait_for(looks(), WAIT_S)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    found = Pair()
    yield found
    found.shadows.close()


async def test_copies_of_requests_under_way_are_bounded_as_those_that_wait(pair: Pair) -> None:
    goes_on = asyncio.Event()
    pair.engine.before_infer = goes_on.wait  # type: ignore[assignment]
    asked = [asyncio.create_task(pair.ask(4 * MIB)) for _ in range(8)]
    await pair.until(lambda: pair.counts["shed"] > 0)
    assert pair.counts["shed"] == 4  # 4 of 16 MB each are kept
    goes_on.set()
    await asyncio.gather(*asked)
    await asyncio.sleep(0)
    assert len(copies()) >= 1
    assert sum(size_of(each.inputs, each.outputs) for each in copies()) <= 64 * MIB


async def test_a_request_that_fails_gives_its_place_back(pair: Pair) -> None:

    async def fails() -> None:
        raise InvalidTensor("as it is")

    pair.engine.before_infer = fails
    for _ in range(2 * MOST_COPIES):
        with pytest.raises(InvalidTensor):
            await pair.ask()
    assert pair.counts["shed"] == 0


async def test_the_drain_after_the_end_copies_nothing(pair: Pair) -> None:
    copied: list[object] = []

    async def looks() -> None:
        found = [each for each in gc.get_objects() if type(each) is AnsweredRequest]
        copied.extend(each for each in found if not each.outputs)  # as long as it is under way

    pair.engine.before_infer = looks
    pair.shadows.close()
    await pair.ask()
    assert not copied
    assert not any(pair.counts.values())


async def test_a_defect_ends_no_comparison_but_its_own(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    models = [each.compiled.inner for each in pair.stream.available.values()]
    for model in models:
        model.at_once = lambda signature: 1 / 0
    await pair.ask()
    await pair.until(lambda: pair.counts["failed"] == 1)
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()  # its frames hold the copy
    for model in models:
        del model.at_once
    await pair.ask()
    await pair.until(lambda: pair.counts["same"] == 1)


async def test_a_version_is_not_compared_with_itself_after_its_label_has_moved(pair: Pair) -> None:
    await pair.ask()
    pair.stream.labels["next"] = 1
    await pair.ask(version=2)
    await pair.until(lambda: not copies())
    assert pair.counts["same"] == 1
    assert pair.shadows.remark(MODEL, 1).startswith(f"shadow of {MODEL}: 0 of 1 answers differ")


async def test_a_publication_leaves_the_layers_of_versions_as_they_are(pair: Pair) -> None:
    before = [each.compiled for each in pair.stream.available.values()]
    pair.shadows.wrap(MODEL, pair.stream.available.values())
    assert before == [each.compiled for each in pair.stream.available.values()]
    pair.shadows.follow([])
    after = [each.compiled for each in pair.stream.available.values()]
    assert all(isinstance(each, StandInModel) for each in after)


async def test_the_first_answer_of_a_version_makes_no_pause(pair: Pair) -> None:
    async def slow() -> None:
        if REHEARSED.get():
            await asyncio.sleep(0.02)  # 20 s of pause

    pair.engine.before_infer = slow
    for _ in range(2):
        await pair.ask()
    await pair.until(lambda: pair.counts["same"] == 2)


async def test_a_copy_older_than_the_longest_pause_is_dropped(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadows, "LONGEST_REST_S", 0.0)
    await pair.ask()
    await pair.until(lambda: pair.counts["shed"] == 1)
    assert pair.counts["same"] == 0
