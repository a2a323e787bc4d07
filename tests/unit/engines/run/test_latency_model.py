"""Short requests run on the event loop, long ones beside it, by what was measured."""

import pytest

from ie_serving.engines.run.latency_model import INLINE_MAX_S, LatencyModel

SMALL, BIG = (10).bit_length(), (10_000).bit_length()
SHORT, LONG = INLINE_MAX_S / 10, INLINE_MAX_S * 10


@pytest.mark.parametrize(("execution", "inline"), [("inline", True), ("async", False)])
def test_a_set_execution_is_kept(execution: str, inline: bool) -> None:
    model = LatencyModel(execution)
    for seconds in (SHORT, LONG):
        model.learn_at_load(10, seconds)
        assert model.inline(SMALL) is inline


def test_what_was_never_measured_runs_lane() -> None:
    assert not LatencyModel("auto").inline(SMALL)


def test_what_is_short_at_load_is_short_for_smaller_requests_only() -> None:
    model = LatencyModel("auto")
    model.learn_at_load(10, SHORT)
    assert model.inline(SMALL)
    assert model.inline(1)
    assert not model.inline(BIG)


def test_a_size_that_proves_short_runs_inline() -> None:
    model = LatencyModel("auto")
    model.learn(BIG, SHORT)
    assert model.inline(BIG)


def test_one_disturbed_measurement_decides_nothing() -> None:
    model = LatencyModel("auto")
    model.learn_at_load(10, SHORT)
    model.learn(SMALL, 100 * LONG)
    assert model.inline(SMALL)


def test_a_model_that_turns_slow_leaves_the_loop() -> None:
    model = LatencyModel("auto")
    model.learn_at_load(10, SHORT)
    for _ in range(30):
        model.learn(SMALL, LONG)
    assert not model.inline(SMALL)
