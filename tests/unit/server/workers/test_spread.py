"""Connections are spread evenly over workers."""

from collections.abc import Sequence

import pytest

from ie_serving.server.workers.crew import NOT_ACCEPTING
from ie_serving.server.workers.spread import surplus


@pytest.mark.parametrize(
    ("numbers", "shed"),
    [
        pytest.param([8, 0], 4, id="half of all, to a new worker"),
        pytest.param([9, 0], 4, id="the odd one stays"),
        pytest.param([4, 4], 0, id="an even share"),
        pytest.param([2, 6], 0, id="fewer than the share"),
        pytest.param([6, 0, NOT_ACCEPTING], 3, id="a worker that does not accept has no share"),
        pytest.param([5, NOT_ACCEPTING], 0, id="a worker alone"),
        pytest.param([0, 0], 0, id="no connections"),
    ],
)
def test_a_worker_sheds_what_it_has_beyond_its_fair_share(
    numbers: Sequence[int], shed: int
) -> None:
    assert surplus(numbers, 0) == shed
