"""Each size of batch is inferred before a client asks for it, within bounds."""

import asyncio
from typing import Any

import pytest

from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT
from ie_serving.engines.base import GATHERED
from ie_serving.engines.layers import batching
from ie_serving.engines.layers.batching import warm
from ie_serving.engines.layers.gathering import BatchRules
from tests.unit.engines.layers.models import Model


class Streams(Model):
    """Infers two requests at once. Attributes: `together`, the most that were under way."""

    def __init__(self, *shape: int) -> None:
        super().__init__(lambda x: x, *shape)
        self.together = self._under_way = 0

    async def infer(self, signature: Any, inputs: Any, read: Any) -> Any:
        self._under_way += 1
        self.together = max(self.together, self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        return await super().infer(signature, inputs, read)

    def at_once(self, signature: Any) -> int:
        return 2


def test_each_size_is_inferred_alone_first_and_then_in_every_stream() -> None:
    model = Streams(-1, 3)
    assert warm(model, model.signatures[SERVING_DEFAULT], [1, 4], 2) == 2
    assert model.batches == [1, 1, 1, 4, 4, 4]
    assert model.together == 2


def test_a_single_row_is_inferred_as_the_rest_of_a_batch_is() -> None:
    """What a model has for requests that come alone is not what batches are to find prepared."""
    seen: list[bool] = []
    model = Model(lambda x: seen.append(GATHERED.get()) or x, -1, 3)
    assert warm(model, model.signatures[SERVING_DEFAULT], [1, 4], 2) == 2
    assert set(seen) == {True}
    assert not GATHERED.get()


def test_rows_of_open_shape_are_not_guessed() -> None:
    model = Streams(-1, -1)
    assert warm(model, model.signatures[SERVING_DEFAULT], [1, 4], 2) == 0
    assert model.batches == []


def test_a_slow_model_is_not_warmed_for_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "MOST_S", 0.0)
    model = Model(lambda x: x, -1, 3)
    assert warm(model, model.signatures[SERVING_DEFAULT], [1, 4], 2) < 2


def test_a_size_beyond_the_memory_is_left_cold_before_any_is_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(batching.BUDGET, "limit", 1 << 30)
    model = Streams(-1, 3)
    assert warm(model, model.signatures[SERVING_DEFAULT], [4, 1_000_000_000], 2) == 1
    assert "12000000000 bytes" in caplog.text


def test_sizes_without_end_are_not_listed(caplog: pytest.LogCaptureFixture) -> None:
    """BatchingParameters take 64 bits; before, a list of as many sizes ended the load."""
    rules = BatchRules(rows=(1 << 63) - 1)
    model = Model(lambda x: x, -1, 3)
    signature = model.signatures[SERVING_DEFAULT]
    assert warm(model, signature, rules.likely_sizes, rules.count_of_sizes) == 0
    assert "batch sizes left cold" in caplog.text


def test_a_failure_ends_the_warm_up_and_not_the_load(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(x: Any) -> Any:
        if len(x) > 2:
            raise ServingError("no room")
        return x

    model = Model(refuse, -1, 3)
    assert warm(model, model.signatures[SERVING_DEFAULT], [1, 2, 4, 8], 4) == 2
    assert "no room" in caplog.text
