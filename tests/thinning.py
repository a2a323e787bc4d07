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
    """Leave to `make soak` the cases of these tests, and of those marked `thinned`, not `chosen`.

    A test marked `thinned(3)`, whose longest parameter lists forms of one thing, keeps one in three
    of these forms. A case that is `soak` already stands for no value.
    """
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if not hasattr(item, "callspec") or item.get_closest_marker("soak"):
            continue
        # As text: paths of 17,000 tests, compared part by part, took 1.3 s of each process.
        if str(item.path).startswith(COMPILING) or item.get_closest_marker("thinned"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for items_of_test in tests.values():
        mark = items_of_test[0].get_closest_marker("thinned")
        kept = chosen([_case(each) for each in items_of_test], *(mark.args if mark else ()))
        for place in {*range(len(items_of_test))} - kept:
            items_of_test[place].add_marker(pytest.mark.soak)


def _case(item: pytest.Function) -> Case:
    values = {name: id(value) for name, value in item.callspec.params.items()}
    case = dict[str, object]()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = [each.strip() for each in names.split(",")] if isinstance(names, str) else names
        case["-".join(names)] = tuple(values.pop(name, None) for name in names)
    return case | values


def chosen(cases: Sequence[Case], one_in: int = 1) -> set[int]:
    """Give the places of the cases that are kept: each time the one with the most new values.

    Of the parameter that has most values, every `one_in`-th occurs; of the others, each.
    """
    forms = max((dict.fromkeys((name, case[name]) for case in cases) for name in cases[0]), key=len)
    left_out = set[object](forms) - {*list(forms)[::one_in]}
    values = [set(case.items()) for case in cases]
    offered = [place for place, each in enumerate(values) if not each & left_out]
    kept, missing = set[int](), set[object]().union(*(values[place] for place in offered))
    while missing:
        best = max(offered, key=lambda place: len(values[place] & missing))
        kept.add(best)
        missing -= values[best]
    return kept
