"""For any run of copies: none is compared too early or too often, and few ever wait."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.difference import TOLERANCE
from ie_serving.core.values.errors import ConfigError
from ie_serving.models.traffic.settings import shadow
from ie_serving.models.traffic.shadow import (
    LONGEST_REST_S,
    LOOK_S,
    MOST_COPIED_BYTES,
    MOST_COPIES,
    SETTLE_S,
    SHARE,
    Moment,
    Shadow,
    has_room,
    rest_s,
    wait_s,
)

TIMES = st.floats(0, 1000)
READY = Moment(now=100.0, taken=0.0, rested=0.0, is_spare=True, is_alone=True)


@given(TIMES, TIMES, TIMES, st.booleans(), st.booleans())
def test_a_copy_is_compared_late_and_beside_nothing_else(
    now: float, taken: float, rested: float, is_spare: bool, is_alone: bool
) -> None:
    wait = wait_s(Moment(now, taken, rested, is_spare, is_alone))
    due = now >= taken + SETTLE_S and now >= rested
    assert (wait == 0) == (due and is_spare and is_alone)
    assert wait >= 0
    if due and wait:
        assert wait == LOOK_S
    elif wait:  # and it is due when that time is over
        assert wait == pytest.approx(max(taken + SETTLE_S, rested) - now)


@given(st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=30), st.integers(1, 5))
def test_comparisons_of_all_models_take_their_share_of_the_time_at_most(
    took_s: list[float], models: int
) -> None:
    now, busy = 0.0, 0.0
    for each in took_s:
        moment = replace(READY, now=now, taken=now - SETTLE_S, rested=now)
        assert wait_s(moment) == 0  # with room and time, each is compared as soon as it may be
        now, busy = now + each, busy + each
        rested = now + rest_s(each, models)
        wait = wait_s(replace(moment, now=now, rested=rested))
        now += wait
    assert busy * models <= now * SHARE * 1.0001


def test_no_pause_is_longer_than_its_bound() -> None:
    assert rest_s(10.0, 1) == rest_s(0.7, 5) == LONGEST_REST_S
    assert rest_s(0.5, 1) < LONGEST_REST_S


@given(st.lists(st.integers(0, 2 * MOST_COPIED_BYTES), max_size=50))
def test_copies_are_bounded(sizes: list[int]) -> None:
    waiting: list[int] = []
    for size in sizes:
        if has_room(len(waiting), sum(waiting), size):
            waiting.append(size)
    assert len(waiting) <= MOST_COPIES
    # One copy alone may be larger: else a model with large requests would never be compared.
    assert sum(waiting) <= max(MOST_COPIED_BYTES, *waiting[:1], 0)
    assert not sizes or waiting


def test_the_tolerance_is_that_of_a_replay() -> None:
    assert Shadow(label="a", sampling_rate=1.0).tolerance == TOLERANCE


@pytest.mark.parametrize(
    ("given_keys", "said"),
    [
        pytest.param(
            {}, "an object with sampling_rate, with label, version or model", id="nothing"
        ),
        pytest.param({"sampling_rate": 1}, "with label, version or model", id="a rate alone"),
        pytest.param(
            {"label": "a", "version": 1, "sampling_rate": 1},
            "label and version exclude each other",
            id="label and version",
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 1, "rate": 1}, "no keys but", id="an unknown key"
        ),
        pytest.param(
            {"label": "", "sampling_rate": 1},
            "p.label: '' given; expected text that is not empty",
            id="an empty label",
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 2}, "p.sampling_rate: 2 given", id="a rate above 1"
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 0},
            "p.sampling_rate: 0 given; expected a number above 0",
            id="a rate of 0",
        ),
        pytest.param(
            {"version": -1, "sampling_rate": 1}, "p.version: -1 given", id="a negative version"
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 1, "tolerance": "much"},
            "p.tolerance",
            id="a tolerance of words",
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 1, "path": "x"},
            "an absolute path",
            id="a relative path",
        ),
        pytest.param(
            {"label": "a", "sampling_rate": 1, "max_samples": 5},
            "path beside it",
            id="samples without a path",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    given_keys: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        shadow(given_keys, "p")
    assert said in str(refused.value)


def test_a_version_of_another_model_may_be_meant() -> None:
    found = shadow({"model": "other", "label": "a", "sampling_rate": 0.5}, "p")
    assert found == Shadow(model="other", label="a", sampling_rate=0.5)
