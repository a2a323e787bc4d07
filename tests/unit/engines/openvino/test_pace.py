"""Short requests run on the event loop, long ones beside it, by what was measured."""

import pytest

from ie_serving.engines.openvino.pace import INLINE_MAX_S, Pace

SHORT, LONG = INLINE_MAX_S / 10, INLINE_MAX_S * 10


@pytest.mark.parametrize(("execution", "inline"), [("inline", True), ("async", False)])
def test_a_set_execution_is_kept(execution: str, inline: bool) -> None:
    pace = Pace(execution)
    for seconds in (SHORT, LONG):
        pace.learn_at_load(10, seconds)
        assert pace.inline(10) is inline


def test_what_was_never_measured_runs_apart() -> None:
    assert not Pace("auto").inline(10)


def test_what_is_short_at_load_is_short_for_smaller_requests_only() -> None:
    pace = Pace("auto")
    pace.learn_at_load(10, SHORT)
    assert pace.inline(10)
    assert pace.inline(1)
    assert not pace.inline(10_000)


def test_a_size_that_proves_short_runs_inline() -> None:
    pace = Pace("auto")
    pace.learn(10_000, SHORT)
    assert pace.inline(10_000)


def test_one_disturbed_measurement_decides_nothing() -> None:
    pace = Pace("auto")
    pace.learn_at_load(10, SHORT)
    pace.learn(10, 100 * LONG)
    assert pace.inline(10)


def test_a_model_that_turns_slow_leaves_the_loop() -> None:
    pace = Pace("auto")
    pace.learn_at_load(10, SHORT)
    for _ in range(30):
        pace.learn(10, LONG)
    assert not pace.inline(10)
