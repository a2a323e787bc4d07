"""Which settings are tried, and what wins, on made-up measurements."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.commands.tune.search import MARGIN, Keys, Measurement, SearchSpace, search, wins

SPACE = SearchSpace(cpus=8, rows=16, precisions=("bf16", "f16"))


def found(requests_s: float, p99_ms: float = 10.0, at_once: int = 2) -> Measurement:
    return Measurement(
        requests=100, requests_s=requests_s, p50_ms=p99_ms / 2, p99_ms=p99_ms, at_once=at_once
    )


def searched(
    space: SearchSpace, measure: Callable[[Keys], Measurement | None]
) -> tuple[Keys, dict[str, Measurement | None]]:
    """Search to the end; give the best, and everything that was tried in its order."""
    steps, tried = search(space), {}
    keys = next(steps)
    while True:
        tried[repr(keys)] = measure(keys)
        try:
            keys = steps.send(tried[repr(keys)])
        except StopIteration as end:
            return end.value, tried


def test_where_nothing_wins_the_configuration_stays_as_it_is() -> None:
    best, tried = searched(SPACE, lambda keys: found(100.0 * (1 + MARGIN / 2 * bool(keys))))
    assert best == {}
    assert len(tried) <= 12


def test_each_step_keeps_the_best_so_far() -> None:
    def measure(keys: Keys) -> Measurement:
        speed = 100.0 * (2 if "max_batch_size" in keys else 1)
        streams = keys.get("plugin_config", {}).get("NUM_STREAMS")
        return found(speed * (1.5 if streams == "4" else 1))

    best, tried = searched(SPACE, measure)
    assert best == {"max_batch_size": 8, "plugin_config": {"NUM_STREAMS": "4"}}
    assert repr({"max_batch_size": 16}) in tried
    assert repr({**best, "nireq": 4}) in tried
    assert repr({**best, "batch_timeout_micros": 500}) in tried
    assert repr({**best, "inference_precision": "bf16"}) in tried


def test_other_properties_of_the_plugin_stay() -> None:
    space = SearchSpace(cpus=1, rows=0, plugin_config={"ENABLE_CPU_PINNING": "true"})
    best, _ = searched(space, lambda keys: found(200.0 if "plugin_config" in keys else 100.0))
    assert best == {"plugin_config": {"ENABLE_CPU_PINNING": "true", "NUM_STREAMS": "1"}}


@pytest.mark.parametrize(
    ("space", "never"),
    [
        pytest.param(SearchSpace(cpus=0, rows=16), "plugin_config", id="another device"),
        pytest.param(
            SearchSpace(cpus=8, rows=0), "max_batch_size", id="rows that depend on each other"
        ),
        pytest.param(SearchSpace(cpus=8, rows=1), "max_batch_size", id="one caller with one row"),
        pytest.param(SearchSpace(cpus=8, rows=16), "inference_precision", id="no lower precision"),
    ],
)
def test_settings_that_cannot_win_are_not_tried(space: SearchSpace, never: str) -> None:
    _, tried = searched(space, lambda keys: found(100.0))
    assert not any(never in keys for keys in tried)


def test_a_setting_beyond_the_latency_is_not_kept() -> None:
    def measure(keys: Keys) -> Measurement:
        return found(500.0, p99_ms=50.0) if "max_batch_size" in keys else found(100.0)

    space = SearchSpace(cpus=0, rows=16, latency_ms=20.0)
    assert searched(space, measure)[0] == {}
    assert searched(SearchSpace(cpus=0, rows=16), measure)[0] == {"max_batch_size": 8}


def test_where_none_meets_the_latency_the_nearest_is_kept() -> None:
    def measure(keys: Keys) -> Measurement:
        return found(50.0, p99_ms=30.0) if keys.get("nireq") else found(100.0, p99_ms=50.0)

    assert searched(SearchSpace(cpus=0, rows=0, latency_ms=20.0), measure)[0] == {"nireq": 4}


def test_settings_that_cannot_be_measured_are_passed_over() -> None:
    best, tried = searched(SPACE, lambda keys: None if "nireq" in keys else found(100.0))
    assert best == {}
    assert any(each is None for each in tried.values())
    assert searched(SPACE, lambda keys: None) == ({}, {"{}": None})


RATES = st.floats(1.0, 1000.0)


@given(st.data())
def test_the_best_was_measured_and_nothing_that_was_kept_was_slower(data: Any) -> None:
    rates: dict[str, float] = {}

    def measure(keys: Keys) -> Measurement:
        rates[repr(keys)] = data.draw(RATES)
        return found(rates[repr(keys)])

    best, _ = searched(SPACE, measure)
    assert rates[repr(best)] >= rates[repr({})]
    assert rates[repr(best)] * (1 + MARGIN) >= max(rates.values())


ROUNDS = 5


def rounds(*rates: float, p99_ms: float = 10.0) -> list[Measurement]:
    return [found(rate, p99_ms) for rate in rates]


@pytest.mark.parametrize(
    ("changed", "as_it_is", "won"),
    [
        pytest.param(rounds(200, 210, 190), rounds(100, 99, 101), True, id="in every round"),
        pytest.param(rounds(200, 95, 190), rounds(100, 99, 101), False, id="but for one"),
        pytest.param(rounds(30, 210, 190), rounds(15, 99, 101), True, id="in a slow one too"),
        pytest.param(rounds(101, 100, 102), rounds(100, 99, 101), False, id="by too little"),
    ],
)
def test_settings_win_by_being_faster_in_every_round(
    changed: list[Measurement], as_it_is: list[Measurement], won: bool
) -> None:
    assert wins(SPACE, changed, as_it_is) == won


def test_settings_that_meet_the_latency_win_over_faster_ones_that_do_not() -> None:
    space = SearchSpace(cpus=8, rows=0, latency_ms=20.0)
    slow, late = rounds(50, 50, 50), rounds(100, 100, 100, p99_ms=30.0)
    assert wins(space, slow, late)
    assert not wins(space, late, late)
    assert not wins(space, [*slow[:2], late[0]], late)
    assert not wins(space, late, slow)


@given(st.lists(st.tuples(RATES, RATES), min_size=ROUNDS, max_size=ROUNDS))
def test_of_two_settings_at_most_one_wins_over_the_other(pairs: list[tuple[float, float]]) -> None:
    first, second = (rounds(*rates) for rates in zip(*pairs, strict=True))
    assert not (wins(SPACE, first, second) and wins(SPACE, second, first))
    assert not wins(SPACE, first, first)
