"""What is wanted while the files of the only version are still being written."""

import pytest

from ie_serving.models.repository.source import Listing
from ie_serving.models.repository.version_policy import Latest
from ie_serving.models.repository.wanted_versions import WantedVersions
from tests.unit.models.stand_ins import candidate


@pytest.mark.parametrize(
    ("offered", "moving", "aspired"),
    [
        pytest.param((), True, {1}, id="the one that serves goes on, also a stand-in"),
        pytest.param((), False, set(), id="nothing is there, and nothing comes"),
        pytest.param((7,), True, {7}, id="another one is there"),
    ],
)
def test_versions_that_serve_go_on_until_one_is_written(
    offered: tuple[int, ...], moving: bool, aspired: set[int]
) -> None:
    wanted = WantedVersions(Latest(1), {})
    wanted.listing = Listing({2: candidate(2)}, False, frozenset({2}))
    wanted.choose()
    there = {number: candidate(number) for number in offered}
    wanted.listing = Listing(there, moving, frozenset(offered))
    assert [each.version for each in wanted.choose(serving={1})] == [*offered]
    assert wanted.aspired == aspired
