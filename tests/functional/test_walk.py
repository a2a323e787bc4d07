"""The way of a small request is short enough to be followed. `make walk` prints it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from benchmarks.walk import Way, documented, fenced, page, ways


@dataclass(frozen=True)
class Limit:
    """How long a way may be.

    Attributes:
        functions: entries of functions.
        files: files that are met.
        changes: changes of file.
        visits: how often the file that is met most often may be met.
    """

    functions: int
    files: int
    changes: int
    visits: int


GOAL = Limit(functions=36, files=16, changes=22, visits=2)
"""Where both shall be. A limit below is lowered when a way becomes shorter, and never raised."""
LIMITS = {
    "REST": Limit(functions=34, files=16, changes=21, visits=2),
    "gRPC": Limit(functions=33, files=16, changes=21, visits=3),
}


@pytest.fixture(scope="module")
def followed() -> Mapping[str, Way]:
    return ways()


@pytest.mark.parametrize("interface", LIMITS)
def test_a_small_predict_has_a_short_way(interface: str, followed: Mapping[str, Way]) -> None:
    way, limit = followed[interface], LIMITS[interface]
    _, most = way.visits_of.most_common(1)[0]
    found = Limit(way.functions, way.files, way.changes, most)
    too_long = [name for name in vars(limit) if vars(found)[name] > vars(limit)[name]]
    assert not too_long, f"{found}\n{way.page()}"


def test_the_design_shows_the_way_as_it_is(followed: Mapping[str, Way]) -> None:
    """`make walk` writes it there."""
    assert documented() == fenced(page(followed))
