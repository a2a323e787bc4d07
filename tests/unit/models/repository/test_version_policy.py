"""Which versions are wanted, given those that exist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy

versions = st.sets(st.integers(0, 2**63 - 1))


@pytest.mark.parametrize(
    ("policy", "found", "aspired"),
    [
        pytest.param(Latest(), {1, 3, 2}, {3}, id="the newest by default"),
        pytest.param(Latest(2), {1, 3, 20}, {3, 20}, id="the newest N, by number"),
        pytest.param(Latest(5), {1, 2}, {1, 2}, id="fewer than N exist"),
        pytest.param(All(), {1, 2}, {1, 2}, id="all"),
        pytest.param(Specific(frozenset({1, 9})), {1, 2}, {1}, id="those named that exist"),
    ],
)
def test_the_policy_chooses_the_versions_that_are_aspired(
    policy: VersionPolicy, found: set[int], aspired: set[int]
) -> None:
    assert policy.aspired(found) == aspired


@given(versions, st.integers(1, 5))
def test_latest_takes_none_below_one_that_it_leaves(found: set[int], number: int) -> None:
    aspired = Latest(number).aspired(found)
    assert len(aspired) == min(number, len(found))
    assert all(left < min(aspired) for left in found - aspired)


@pytest.mark.parametrize(
    ("policy", "failed", "chosen"),
    [
        pytest.param(Latest(), {}, {}, id="nothing has failed yet"),
        pytest.param(Latest(), {9}, {5}, id="the next lower one"),
        pytest.param(Latest(), {9, 5}, {5, 2}, id="further down, and those that failed stay"),
        pytest.param(Latest(), {9, 5, 2}, {5, 2}, id="no more"),
        pytest.param(Latest(), {5}, {}, id="the newest may still serve"),
        pytest.param(Latest(2), {9}, {}, id="one of two may still serve"),
        pytest.param(Latest(2), {9, 5}, {2}, id="below both"),
        pytest.param(All(), {9, 5, 2}, {}, id="all are aspired anyway"),
        pytest.param(Specific(frozenset({9})), {9}, {}, id="named versions alone"),
    ],
)
def test_a_lower_version_stands_in_for_one_that_failed(
    policy: VersionPolicy, failed: set[int], chosen: set[int]
) -> None:
    assert policy.stand_ins([2, 5, 9], failed) == frozenset(chosen)
