"""For any shares and versions that serve the ranges are whole, and decisions are right."""

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from ie_serving.models.traffic.policy import (
    SLOW_SHARE,
    Rollback,
    SeenVersion,
    TrafficRule,
    judge,
    point_of,
    ranges_of,
)
from ie_serving.models.traffic.split import SplitTraffic

POINTS = range(100)


@st.composite
def some_weights(draw: st.DrawFn) -> list[tuple[int | None, int]]:
    """Shares of versions, some of which share one, or are of labels that are not assigned."""
    ends = sorted(draw(st.lists(st.integers(0, 100), max_size=4)))
    shares = [end - begin for begin, end in zip([0, *ends], [*ends, 100], strict=True)]
    return [(draw(st.none() | st.integers(1, 5)), share) for share in shares]


USABLE = st.frozensets(st.integers(1, 6))


@given(some_weights(), USABLE)
def test_usable_versions_alone_answer_and_each_has_its_share(
    weights: list[tuple[int | None, int]], usable: frozenset[int]
) -> None:
    own = Counter[int]()
    for version, share in weights:
        if version is not None and version in usable and share:
            own[version] += share
    ranges = ranges_of(weights, usable)
    if ranges is None:
        assert not own
        return
    found = Counter(ranges.version_at(point) for point in POINTS)
    assert found == ranges.shares
    assert own[ranges.main] == max(own.values())
    lost = 100 - own.total()
    assert found == own + Counter({ranges.main: lost})


@given(some_weights(), USABLE, st.integers(1, 5))
def test_a_version_that_goes_moves_its_own_requests_alone(
    weights: list[tuple[int | None, int]], usable: frozenset[int], gone: int
) -> None:
    before, after = ranges_of(weights, usable), ranges_of(weights, usable - {gone})
    assume(before and after and before.main == after.main)
    assert before
    assert after
    for point in POINTS:
        if before.version_at(point) != gone:
            assert after.version_at(point) == before.version_at(point)


@given(st.integers(0, 49), st.integers(0, 49))
def test_a_share_that_grows_keeps_its_points(small: int, more: int) -> None:
    share = min(49, small + more)
    before, after = (ranges_of([(1, 100 - n), (2, n)], {1, 2}) for n in (small, share))
    assert before
    assert after
    kept = {point for point in POINTS if before.version_at(point) == 2}
    assert all(after.version_at(point) == 2 for point in kept)


@given(st.text(), st.integers(1, 99))
def test_equal_values_go_to_one_version(value: str, share: int) -> None:
    splits = [
        SplitTraffic("m", TrafficRule(shares={"1": 100 - share, "2": share}), Counter())
        for _ in "ab"
    ]
    for each in splits:
        each.resolve({}, {1, 2})
    assert len({each.choose(value) for each in splits for _ in range(3)}) == 1
    assert 0 <= point_of("m", value) < 100


@given(st.integers(0, 100), st.integers(1, 400))
def test_any_run_of_requests_is_divided_by_the_shares(share: int, count: int) -> None:
    split = SplitTraffic("m", TrafficRule(shares={"1": 100 - share, "2": share}), Counter())
    split.resolve({}, {1, 2})
    found = sum(split.choose(None) == 2 for _ in range(count))
    assert abs(found - count * share / 100) < 4


RATES = st.none() | st.floats(0, 1)


@given(RATES, st.booleans(), st.integers(1, 50), st.integers(0, 200), st.data())
def test_a_share_is_taken_beyond_a_limit_alone(
    rate: float | None, has_latency: bool, least: int, count: int, data: st.DataObject
) -> None:
    rule = Rollback(error_rate=rate, latency_ms=20.0 if has_latency else None, min_requests=least)
    failed, slow = (data.draw(st.integers(0, count)) for _ in "ab")
    beyond = (rate is not None and failed > rate * count) or (
        has_latency and slow > SLOW_SHARE * count
    )
    action = judge(rule, SeenVersion(count, failed, slow))
    assert (action is not None) == (beyond and count >= least)
