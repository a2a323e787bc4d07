"""The loop stays awake for a moment after something came, unless that was in vain lately."""

import asyncio

import pytest

from ie_serving.server.transport.busy_poll import SKIPPED, BusyPoll

WINDOW_S = 0.0002


class Clock:
    """A time that passes when the test says so."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def polls(clock: Clock, turns: int = 5) -> bool:
    """Whether the loop would poll without waiting, for all of some turns, while time stands."""
    loop = asyncio.get_running_loop()
    due = 0
    call_soon = loop.call_soon

    def counted(*arguments: object, **options: object) -> object:
        nonlocal due
        due += getattr(arguments[0], "__self__", None).__class__ is BusyPoll
        return call_soon(*arguments, **options)  # type: ignore[arg-type]

    loop.call_soon = counted  # type: ignore[assignment]
    try:
        for _ in range(turns):
            await asyncio.sleep(0)
    finally:
        loop.call_soon = call_soon  # type: ignore[method-assign]
    assert due in (0, turns)
    return due > 0


async def wait_in_vain(clock: Clock) -> None:
    """Let a window pass in which nothing arrives."""
    clock.time += 1.1 * WINDOW_S
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_the_loop_polls_until_the_window_is_over(clock: Clock) -> None:
    poll = BusyPoll(WINDOW_S, clock)
    assert poll.arrived() == clock.time
    assert await polls(clock)
    await wait_in_vain(clock)
    assert not await polls(clock)


async def test_a_window_in_vain_is_followed_by_arrivals_without(clock: Clock) -> None:
    """So a client that seldom asks costs one window in many requests."""
    poll = BusyPoll(WINDOW_S, clock)
    poll.arrived()
    await wait_in_vain(clock)
    for _ in range(SKIPPED):
        poll.arrived()
        assert not await polls(clock)
    poll.arrived()
    assert await polls(clock)


async def test_an_arrival_in_time_begins_the_window_anew(clock: Clock) -> None:
    """A client that comes back at once is always polled for."""
    poll = BusyPoll(WINDOW_S, clock)
    poll.arrived()
    for _ in range(5):
        clock.time += 0.9 * WINDOW_S
        poll.arrived()
        assert await polls(clock)
    await wait_in_vain(clock)
    assert not await polls(clock)


async def test_0_turns_it_off(clock: Clock) -> None:
    """As where processors are shared and every one of their cycles is paid for."""
    poll = BusyPoll(0.0, clock)
    assert poll.arrived() == clock.time
    assert not await polls(clock)
