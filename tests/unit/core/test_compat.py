"""What `compat/` adds is there by its folders alone."""

import importlib.util
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ie_serving import compat
from ie_serving.core.compat import FOLDERS, HOME, Additions, added, by_name, imported, registered


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    registered.cache_clear()
    yield
    registered.cache_clear()


def test_each_folder_is_in_the_table() -> None:
    (home,) = compat.__path__
    folders = {each.name for each in Path(home).iterdir() if (each / "__init__.py").is_file()}
    assert folders == {*FOLDERS}


def test_each_place_can_be_imported() -> None:
    found = list(registered())
    places = [
        place
        for each in found
        for value in (getattr(each, f.name) for f in fields(Additions) if f.name != "token_headers")
        for place in ([value] if isinstance(value, str) else value.values())
        if place
    ]
    assert len(places) > len(FOLDERS)
    for place in places:
        assert callable(imported(place)), place


@pytest.mark.parametrize("what", ["words", "kernels"])
def test_no_two_folders_have_the_same_name(what: str) -> None:
    assert len(by_name(what)) == sum(len(getattr(each, what)) for each in registered())


def test_a_folder_that_is_gone_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with_all = {what: len(list(added(what))) for what in ("routes", "drivers", "importing")}
    there = importlib.util.find_spec

    def without(name: str, *given: Any) -> Any:
        return None if name == f"{HOME}.konduit" else there(name, *given)

    monkeypatch.setattr("ie_serving.core.compat.find_spec", without)
    registered.cache_clear()
    assert {what: len(list(added(what))) + 1 for what in with_all} == with_all
    assert by_name("kernels").keys() == {"model.json"}
