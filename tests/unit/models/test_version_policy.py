"""Which versions are wanted, given those that exist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.models.version_policy import All, Latest, Specific, VersionPolicy

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
def test_aspired(policy: VersionPolicy, found: set[int], aspired: set[int]) -> None:
    assert policy.aspired(found) == aspired


@given(versions, st.integers(1, 5))
def test_latest_takes_none_below_one_that_it_leaves(found: set[int], number: int) -> None:
    aspired = Latest(number).aspired(found)
    assert len(aspired) == min(number, len(found))
    assert all(left < min(aspired) for left in found - aspired)
