"""Waiting for an event for a limited time, and a back-off that grows and is bounded."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.runtime.waits import Backoff, set_within

PATIENCE_S = 10


async def test_an_event_that_is_set_is_not_waited_for() -> None:
    event = asyncio.Event()
    event.set()
    assert await set_within(event, 0)


async def test_an_event_that_is_set_meanwhile_ends_the_wait() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await set_within(event, PATIENCE_S)


async def test_the_time_is_over_first() -> None:
    assert not await set_within(asyncio.Event(), 0)


async def test_a_cancellation_counts_though_the_event_is_set_with_it() -> None:
    """The end of a connection does both."""
    event = asyncio.Event()
    waiting = asyncio.create_task(set_within(event, PATIENCE_S))
    asyncio.get_running_loop().call_soon(event.set)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting


chances = st.floats(0, 1, allow_nan=False)


@given(failures=st.integers(0, 10_000), chance=chances)
def test_a_delay_is_half_to_all_of_a_doubling_limited_wait(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.2, longest_s=10)
    longest = min(10, 0.2 * 2 ** max(0, min(failures - 1, 100)))
    assert longest / 2 <= backoff.delay_s(failures, chance) <= longest
