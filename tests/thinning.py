"""Of the product of a test's parameters, a few cases in which each value of each occurs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

COMPILING = f"{Path(__file__).parent}/unit/engines/"
"""Whose tests are thinned. Most of their cases compile a model, for 0.1 s of processor time."""

Case = Mapping[str, object]
"""What tells the value of each parameter from others; parameters given together are one."""


def repeated(few: int, many: int) -> pytest.MarkDecorator:
    """Let a test repeat what it does `few` times, and `many` times in `make soak`."""
    return pytest.mark.parametrize("rounds", [few, pytest.param(many, marks=pytest.mark.soak)])


def thin(items: Iterable[pytest.Item]) -> None:
    """Leave to `make soak` what those tests, and those marked `thinned`, have beside such cases.

    Of a test marked `thinned(3)`, whose values are forms of one thing, a third of these is kept.
    """
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        # As text: paths of 17,000 tests, compared part by part, took 1.3 s of each process.
        if hasattr(item, "callspec") and (
            str(item.path).startswith(COMPILING) or item.get_closest_marker("thinned")
        ):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("thinned")
        one_of = mark.args[0] if mark and mark.args else 1
        kept = {*sorted(chosen([_case(each) for each in cases]))[::one_of]}
        for place in {*range(len(cases))} - kept:
            cases[place].add_marker(pytest.mark.soak)


def _case(item: pytest.Function) -> Case:
    values = {name: id(value) for name, value in item.callspec.params.items()}
    case = dict[str, object]()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = [each.strip() for each in names.split(",")] if isinstance(names, str) else names
        case["-".join(names)] = tuple(values.pop(name, None) for name in names)
    return case | values


def chosen(cases: Sequence[Case]) -> set[int]:
    """Give the places of the cases that are kept: each time the one with the most new values."""
    values = [set(case.items()) for case in cases]
    kept, missing = set[int](), set[object]().union(*values)
    while missing:
        best = max(range(len(cases)), key=lambda place: len(values[place] & missing))
        kept.add(best)
        missing -= values[best]
    return kept
