"""A load that was interrupted stays off the interpreter for a moment, and comes to its end."""

import pytest

from ie_serving.core.runtime import spare_cpu as giving_way
from ie_serving.core.runtime.spare_cpu import (
    AT_WORK_S,
    AWAY_S,
    INTERRUPTED_S,
    YieldingList,
    give_way,
)


class Clock:
    """Stands for the clock: it goes on by what steps take, and by what is slept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Load:
    """Tells whether this thread loads."""

    this_thread_loads = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(giving_way, "time", found)
    monkeypatch.setattr(giving_way, "SPARE_CPU", Load())
    monkeypatch.setattr(giving_way.DUE, "at", 0.0)
    return found


def read(clock: Clock, steps_s: list[float]) -> int:
    """Go through steps that take so long; count how often that gives way."""
    for each in YieldingList(steps_s):
        clock.now += each
    return len(clock.slept)


def test_a_load_without_an_interruption_goes_on(clock: Clock) -> None:
    assert read(clock, [INTERRUPTED_S / 2] * 100) == 0


def test_one_that_was_interrupted_stays_away_for_a_moment(clock: Clock) -> None:
    assert read(clock, [INTERRUPTED_S / 2, INTERRUPTED_S * 2, INTERRUPTED_S / 2]) == 1
    assert clock.slept == [AWAY_S]


def test_one_that_is_interrupted_at_each_step_comes_to_its_end(clock: Clock) -> None:
    steps, each_s = 1000, INTERRUPTED_S * 2
    assert 1 <= read(clock, [each_s] * steps) <= steps * each_s / AT_WORK_S + 1


def test_it_is_away_for_half_of_the_time_at_most_whatever_it_goes_through(clock: Clock) -> None:
    for _ in range(10):
        for _ in YieldingList(range(3)):
            read(clock, [INTERRUPTED_S * 2] * 5)
            give_way()
    assert clock.slept
    assert sum(clock.slept) * (1 + AT_WORK_S / AWAY_S) <= clock.now + AT_WORK_S


def test_a_thread_that_does_not_load_never_gives_way(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Load, "this_thread_loads", False)
    give_way()
    assert read(clock, [AWAY_S] * 10) == 0
