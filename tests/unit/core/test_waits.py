"""Waiting for an event for a limited time."""

import asyncio

from ie_serving.core.waits import set_within

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
