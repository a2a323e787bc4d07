"""What is kept of equal inputs, and for whom."""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import QueueFull
from ie_serving.engines.run import cache
from ie_serving.engines.run.cache import OutputCache
from tests.process import PATIENCE_S
from tests.unit.models.stand_ins import settle


class Work:
    """Counts how often it is begun; ends when it may."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self._error = error

    async def __call__(self) -> dict[str, Any]:
        self.begun += 1
        await self.may_end.wait()
        if self._error:
            raise self._error
        return {"y": np.array(self.begun)}


def arrays(x: object) -> dict[str, Any]:
    return {"x": np.asarray(x)}


async def get(kept: OutputCache, work: Callable[[], Any], x: object, whose: str = "1") -> int:
    return int((await asyncio.wait_for(kept.get(whose, arrays(x), work), PATIENCE_S))["y"])


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def kept(now: list[float]) -> Iterator[OutputCache]:
    found = OutputCache(10.0, lambda: now[0])
    yield found
    found.close()


TEXTS = np.array([b"ab", b"c"], np.object_), np.array([b"a", b"bc"], np.object_)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([1.0], [2.0], id="values"),
        pytest.param([1.0], [[1.0]], id="shapes"),
        pytest.param(np.float32([0]), np.int32([0]), id="dtypes"),
        pytest.param(*TEXTS, id="texts"),
        pytest.param(
            np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)[::-1], id="the order in memory"
        ),
    ],
)
async def test_inputs_that_differ_have_answers_of_their_own(
    kept: OutputCache, one: Any, other: Any
) -> None:
    work = Work()
    work.may_end.set()
    assert [await get(kept, work, x) for x in (one, other, one, other)] == [1, 2, 1, 2]
    assert await get(kept, work, one, whose="2") == 3


async def test_an_answer_is_given_for_so_long(kept: OutputCache, now: list[float]) -> None:
    work = Work()
    work.may_end.set()
    assert [await get(kept, work, 0) for _ in range(2)] == [1, 1]
    now[0] = 10.0
    assert await get(kept, work, 0) == 2


async def test_every_caller_that_waits_gets_the_error_and_it_is_not_kept(kept: OutputCache) -> None:
    work = Work(QueueFull("full"))
    asked = [asyncio.create_task(get(kept, work, 0)) for _ in range(3)]
    await settle()
    work.may_end.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(each) for each in found] == ["full"] * 3
    assert work.begun == 1
    with pytest.raises(QueueFull):
        await get(kept, work, 0)
    assert work.begun == 2


async def test_a_client_that_goes_leaves_the_work_to_the_next(kept: OutputCache) -> None:
    work = Work()
    first, second = (asyncio.create_task(get(kept, work, 0)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    work.may_end.set()
    assert await asyncio.wait_for(second, PATIENCE_S) == 2
    assert first.cancelled()


async def test_it_keeps_so_many(kept: OutputCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_KEPT", 2)
    work = Work()
    work.may_end.set()
    assert [await get(kept, work, x) for x in (0, 1, 2, 0, 2)] == [1, 2, 3, 4, 3]


async def test_large_inputs_are_compared_too(kept: OutputCache) -> None:
    work = Work()
    work.may_end.set()
    large = np.zeros(1 << 18, np.float32)
    assert [await get(kept, work, x) for x in (large, large + 1, large)] == [1, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), max_size=60))
async def test_answers_are_kept_within_their_bytes_and_the_least_recent_goes(
    asked: list[tuple[int, int]],
) -> None:
    kept = OutputCache(math.inf, most_bytes=100)
    sizes: dict[int, int] = {}
    expected: dict[int, int] = {}
    for key, size in asked:
        sizes.setdefault(key, size)
        computed = []

        async def compute(size: int = sizes[key]) -> dict[str, Any]:
            computed.append(size)  # noqa: B023
            return {"y": np.zeros(size, np.uint8)}

        answer = await kept.get("1", arrays(key), compute)
        assert answer["y"].nbytes == sizes[key]
        assert bool(computed) is (key not in expected)
        expected[key] = expected.pop(key, sizes[key])
        while sum(expected.values()) > 100:
            del expected[next(iter(expected))]
    kept.close()


async def test_an_answer_larger_than_all_that_is_kept_displaces_nothing() -> None:
    kept = OutputCache(math.inf, most_bytes=10)
    small, large = Sized(10), Sized(11)
    for _ in range(2):
        await kept.get("1", arrays(1), small)
        await kept.get("1", arrays(2), large)
    assert (small.begun, large.begun) == (1, 2)


class Sized:
    """Computes so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.begun = 0

    async def __call__(self) -> dict[str, Any]:
        self.begun += 1
        return {"y": np.zeros(self.size, np.uint8)}


async def test_an_answer_too_large_to_keep_is_given_to_all_waiting_requests() -> None:
    kept, work = OutputCache(math.inf, most_bytes=1), Work()
    asked = [asyncio.create_task(get(kept, work, 1)) for _ in range(3)]
    await settle()
    work.may_end.set()
    assert await asyncio.gather(*asked) == [1, 1, 1]
    assert await get(kept, work, 1) == 2
