import os
import sys
from itertools import product
from pathlib import Path

from tests.process import output_of
from tests.thinning import chosen

CONFTEST = """
from tests import thinning

def pytest_collection_modifyitems(items):
    thinning.thin(items)
"""
REPEATED = """
import pytest
from tests.thinning import repeated

@pytest.mark.thinned
@repeated(25, 100)
@pytest.mark.parametrize("way", ["one", "other"])
def test_each_way(way, rounds):
    pass
"""


def test_each_value_occurs_in_few_cases() -> None:
    cases = [dict(zip("abcd", each, strict=True)) for each in product(range(4), repeat=4)]
    kept = [cases[place] for place in chosen(cases)]
    assert len(kept) == 4
    for name in "abcd":
        assert {each[name] for each in kept} == {*range(4)}


def test_of_one_in_three_forms_each_value_of_other_parameters_occurs() -> None:
    cases = [{"form": form, "open": is_open} for is_open, form in product((0, 1), range(7))]
    kept = [cases[place] for place in chosen(cases, 3)]
    assert sorted(each["form"] for each in kept) == [0, 3, 6]
    assert {each["open"] for each in kept} == {0, 1}


def test_a_value_that_is_soak_already_stands_for_no_value(tmp_path: Path) -> None:
    """A test that repeats more often in `make soak` runs in `make test` with each other value."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_repeated.py").write_text(REPEATED)
    command = ("-m", "pytest", "--collect-only", "-qc", os.devnull, "-m", "not soak", tmp_path)
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    lines = output_of(sys.executable, *command, cwd=Path(__file__).parents[2], env=alone)
    found = [line.partition("::")[2] for line in lines if "::" in line]
    assert found == ["test_each_way[one-25]", "test_each_way[other-25]"]
