"""Of the product of a test's parameters, a few cases in which each two values meet."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import pytest

Case = Mapping[str, int]
"""What tells the value of each parameter from others."""


def thin(items: Iterable[pytest.Item]) -> None:
    """Leave to `make soak` what tests marked `pairwise` have beside such cases."""
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("pairwise"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        given = (each.callspec.params for each in cases)
        kept = chosen([{name: id(value) for name, value in each.items()} for each in given])
        for place in {*range(len(cases))} - kept:
            cases[place].add_marker(pytest.mark.soak)


def chosen(cases: Sequence[Case]) -> set[int]:
    """Give the places of the cases that are kept: each time the one with the most new pairs."""
    pairs = [set(combinations(sorted(case.items()), 2)) for case in cases]
    kept, missing = set[int](), set[object]().union(*pairs)
    while missing:
        best = max(range(len(cases)), key=lambda place: len(pairs[place] & missing))
        kept.add(best)
        missing -= pairs[best]
    return kept
