"""Live tuning never serves what is worse for longer than its probe."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.engines.layers.live_tuning import (
    ALARM,
    MARGIN,
    REST,
    TIMES,
    Interval,
    LiveTuner,
    Verdict,
    Window,
    rivals,
)

CONFIGURED = Window(0.0, 4)
FAST, SLOW = Window(0.002, 4), Window(0.0, 1)
OTHERS = [FAST, SLOW]


def taking(mean_s: float, p99_s: float = 0.0) -> Interval:
    return Interval(mean_s, p99_s or 3 * mean_s)


def served(
    tuner: LiveTuner, intervals: int, take: Callable[[int, Window], Interval]
) -> tuple[list[Window], list[Verdict]]:
    """Serve so many intervals; give the setting of each, and what was decided."""
    windows, verdicts = [], []
    for number in range(intervals):
        windows.append(tuner.current)
        verdict = tuner.ended(take(number, tuner.current))
        verdicts += [verdict] if verdict else []
    return windows, verdicts


def test_what_is_better_is_adopted_and_what_is_worse_is_served_once_in_a_probe() -> None:
    seconds = {CONFIGURED: 1.0, FAST: 0.5, SLOW: 2.0}
    tuner = LiveTuner(CONFIGURED, OTHERS)
    windows, verdicts = served(tuner, 100, lambda _, window: taking(seconds[window]))
    assert tuner.kept == FAST
    assert verdicts.count(Verdict.ADOPTED) == 1
    assert Verdict.UNDONE not in verdicts
    assert windows.count(SLOW) <= 100 // REST
    assert not any(pair == (SLOW, SLOW) for pair in pairwise(windows))


def test_what_is_as_good_is_not_adopted() -> None:
    tuner = LiveTuner(CONFIGURED, OTHERS)
    _, verdicts = served(tuner, 100, lambda _, window: taking(1.0))
    assert tuner.kept == CONFIGURED
    assert set(verdicts) == {Verdict.REFUSED}


def adopted(target_s: float = 0.0) -> LiveTuner:
    """Give a tuner that has taken `FAST`."""
    tuner = LiveTuner(CONFIGURED, [FAST], target_s)
    _, verdicts = served(tuner, 20, lambda _, w: taking(0.5 if w == FAST else 1.0))
    assert (tuner.kept, verdicts[0]) == (FAST, Verdict.ADOPTED)
    return tuner


def test_where_traffic_has_changed_the_configured_setting_is_taken_back_at_once() -> None:
    tuner = adopted()
    assert tuner.ended(taking(ALARM * 1.0 + 0.1)) is Verdict.UNDONE
    assert tuner.current == tuner.kept == CONFIGURED


def test_what_was_adopted_must_go_on_being_better() -> None:
    tuner = adopted()
    windows, verdicts = served(tuner, 3 * (REST + 2 * TIMES), lambda _, w: taking(0.9))
    assert Verdict.UNDONE in verdicts
    assert windows.index(CONFIGURED) <= 2 * REST


def test_a_setting_that_misses_the_target_is_never_better() -> None:
    tuner = LiveTuner(CONFIGURED, [FAST], target_s=2.0)

    def take(_: int, window: Window) -> Interval:
        return taking(0.1, 3.0) if window == FAST else taking(1.0, 1.5)

    assert served(tuner, 50, take)[1] == [Verdict.REFUSED] * 4
    assert tuner.kept == CONFIGURED


def test_one_that_meets_the_target_is_better_than_one_that_does_not() -> None:
    tuner = LiveTuner(CONFIGURED, [FAST], target_s=2.0)

    def take(_: int, window: Window) -> Interval:
        return taking(1.2, 1.5) if window == FAST else taking(1.0, 3.0)

    served(tuner, 20, take)
    assert tuner.kept == FAST


MEANS = st.lists(st.floats(0.01, 10.0), min_size=60, max_size=90)


@given(MEANS)
def test_whatever_requests_take_no_rival_is_served_twice_in_a_row(means: list[float]) -> None:
    """And one is adopted only after it was better, twice, than the interval before it."""
    tuner = LiveTuner(CONFIGURED, OTHERS)
    before, won, last = 0.0, 0, CONFIGURED
    for mean_s in means:
        current, kept = tuner.current, tuner.kept
        is_rival = current != kept
        if is_rival:
            assert last == kept
        verdict = tuner.ended(taking(mean_s))
        if is_rival and current != CONFIGURED:
            won = won + 1 if mean_s < before * (1 - MARGIN) else 0
        if verdict is Verdict.ADOPTED:
            assert won == TIMES
            assert tuner.kept == current
        won = 0 if verdict else won
        before, last = mean_s, current


@given(MEANS)
def test_what_is_configured_is_never_left_for_long_unless_it_is_worse(means: list[float]) -> None:
    """Whatever is adopted is measured beside it again, or given up at once."""
    tuner = LiveTuner(CONFIGURED, OTHERS)
    away = 0
    for mean_s in means:
        away = 0 if tuner.current == CONFIGURED else away + 1
        assert away <= 2 * (REST + 2 * TIMES)
        tuner.ended(taking(mean_s))


@pytest.mark.parametrize(
    ("configured", "at_once", "found"),
    [
        (Window(0.0, 1), 1, []),
        (Window(0.0, 4), 4, [Window(0.0005, 4), Window(0.002, 4), Window(0.0, 1)]),
        (Window(0.0, 1), 2, [Window(0.0, 2), Window(0.0005, 2), Window(0.002, 2)]),
        (Window(0.001, 1), 1, [Window(0.0, 1)]),
    ],
    ids=["one lane", "four lanes", "fewer lanes than could be", "a window of one lane"],
)
def test_rivals(configured: Window, at_once: int, found: list[Window]) -> None:
    assert rivals(configured, at_once) == found
