"""Any mix of requests: what is not cancelled gets the answer, or error, that it gets alone."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ie_serving.core.runtime import budget
from ie_serving.core.values.errors import InvalidTensor
from tests.unit.engines.layers.models import REFUSED, Asked, Model

WAIT_S = 20.0

VALUES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, REFUSED]), min_size=1, max_size=20)
REQUESTS = st.lists(
    st.tuples(
        VALUES,
        st.integers(1, 2),  # numbers in a row
        st.integers(0, 2),  # turns of the event loop before the next request
        st.one_of(st.none(), st.integers(0, 6)),  # turns after which it is cancelled
    ),
    max_size=20,
)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class Slow(Model):
    """A model each of whose inferences takes some turns of the event loop."""

    async def infer(self, *args: object) -> object:
        await turns(2)
        return await super().infer(*args)  # type: ignore[arg-type]


async def play(asked: Asked, requests: list[tuple[list[float], int, int, int | None]]) -> None:
    sent: list[tuple[list[float], asyncio.Task[list[float]], asyncio.Task[None] | None]] = []

    async def cancel(task: "asyncio.Task[list[float]]", after: int) -> None:
        await turns(after)
        task.cancel()

    for values, width, pause, cancelled in requests:
        task = asked.ask(*values, width=width)
        ends = None if cancelled is None else asyncio.ensure_future(cancel(task, cancelled))
        sent.append((values, task, ends))
        await turns(pause)
    tasks = [task for _, task, _ in sent]
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
    for (values, _, ends), answer in zip(sent, found, strict=True):
        if ends is not None and isinstance(answer, asyncio.CancelledError):
            continue
        if REFUSED in values:
            assert isinstance(answer, InvalidTensor)
        else:
            assert answer == [value + 1 for value in values]


@pytest.fixture(autouse=True, scope="module")
def every_byte_counted() -> Iterator[None]:
    """So that a byte that is not given back is found in the end (`tests/unit/conftest.py`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "SMALL", 1)
        yield


@settings(deadline=None)
@given(
    REQUESTS,
    st.integers(1, 2),
    st.sampled_from([(), (2, 8), (1, 3, 8)]),
    st.sampled_from([Model, Slow]),
)
def test_any_mix_of_requests(
    requests: list[tuple[list[float], int, int, int | None]],
    lanes: int,
    sizes: tuple[int, ...],
    kind: type[Model],
) -> None:
    async def run() -> None:
        asked = Asked(kind(), lanes=lanes, sizes=sizes)
        await play(asked, requests)
        assert await asyncio.wait_for(asked.ask(7.0), WAIT_S) == [8.0]
        assert all(rows <= 8 and (not sizes or rows in sizes) for rows in asked.model.batches)

    asyncio.run(run())
