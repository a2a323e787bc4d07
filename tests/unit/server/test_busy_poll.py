"""The loop stays awake for a moment after something came, unless that was in vain lately."""

import asyncio
import time

import pytest

from ie_serving.server.busy_poll import LEFT_OUT, BusyPoll

LONGEST_S = 0.02
PATIENCE_S = 5.0


class Turns:
    """Counts how often the loop turns without waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon

        def counted(*arguments: object, **options: object) -> object:
            self.count += 1
            return call_soon(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon", counted)


@pytest.fixture
async def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


async def watch(poll: BusyPoll, turns: Turns) -> int:
    """Let something arrive, and count the turns until the loop has been asleep."""
    turns.count = 0
    poll.arrived()
    await asyncio.wait_for(asyncio.sleep(2 * LONGEST_S), PATIENCE_S)
    return turns.count


async def test_the_loop_turns_until_the_time_is_over(turns: Turns) -> None:
    """Many turns, and none after it."""
    poll = BusyPoll(LONGEST_S)
    assert await watch(poll, turns) > 10
    turns.count = 0
    await asyncio.sleep(2 * LONGEST_S)
    assert turns.count < 5


async def test_a_watch_in_vain_is_followed_by_arrivals_without(turns: Turns) -> None:
    """So a seldom client costs one watch in many requests."""
    poll = BusyPoll(LONGEST_S)
    await watch(poll, turns)
    for _ in range(LEFT_OUT):
        assert await watch(poll, turns) < 5
    assert await watch(poll, turns) > 10


async def test_an_arrival_in_time_begins_the_watch_anew(turns: Turns) -> None:
    """A client that comes back at once is always watched for."""
    poll = BusyPoll(LONGEST_S)
    began = time.monotonic()
    poll.arrived()
    while time.monotonic() - began < 5 * LONGEST_S:
        poll.arrived()
        turns.count = 0
        await asyncio.sleep(LONGEST_S / 10)
        assert turns.count > 2


async def test_0_turns_it_off(turns: Turns) -> None:
    """As where processors are shared and every one of their cycles is paid for."""
    assert await watch(BusyPoll(0.0), turns) < 5
