"""The tables of docs/design.md section 2 are an allow-list: what they do not name is refused."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ie_serving"
DESIGN = (ROOT / "docs" / "design.md").read_text()
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.stat().st_size)
OWN = "ie_serving"
EVERY_ROOM = ("core", "telemetry")
"""Rooms that all others may import, but for those two, whose rows say what they may."""


def rows(table: str) -> dict[str, list[str]]:
    """Read the Markdown table between two comments: first column to the words of the second."""
    text = DESIGN.split(f"<!-- {table}: begin -->")[1].split(f"<!-- {table}: end -->")[0]
    found = {}
    for line in text.strip().splitlines()[2:]:
        name, words = (cell.strip() for cell in line.strip("|").split("|")[:2])
        found[name.strip("`")] = re.findall(r"`([^`]+)`", words)
    return found


ROOMS = rows("rooms")
LIBRARIES = rows("libraries")


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


PLACES = {place(path) for path in MODULES}


def room(module: str) -> str:
    """The folder a module stands in; a module at the top is a room of its own."""
    return module.rpartition("/")[0] or module


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever in it; typing-only imports too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_module(name: str) -> str | None:
    """The module of this package that a full name lies in."""
    if not name.startswith(f"{OWN}."):
        return None
    inner = name.removeprefix(f"{OWN}.").replace(".", "/")
    return inner if inner in PLACES else inner.rpartition("/")[0]


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_room_imports_only_the_rooms_in_its_row(path: Path) -> None:
    here = room(place(path))
    if here == "__init__":
        return
    assert here in ROOMS, f"docs/design.md has no row for {here}"
    allowed = {here, *ROOMS[here], *(() if here in EVERY_ROOM else EVERY_ROOM)}
    for name in imported(path):
        module = own_module(name)
        if module:  # `ie_serving.__version__` lies in no module
            assert room(module) in allowed or module in allowed, f"{place(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_library_is_imported_only_where_its_row_says(path: Path) -> None:
    here = place(path)
    for name in imported(path):
        top = name.split(".")[0]
        if top == OWN or top in sys.stdlib_module_names:
            continue
        known = [library for library in LIBRARIES if f"{name}.".startswith(f"{library}.")]
        assert known, f"{here} imports {name}, which docs/design.md does not list"
        homes = LIBRARIES[max(known, key=len)]
        assert any(f"{here}/".startswith(f"{home}/") for home in homes), f"{here} imports {name}"


def test_every_row_names_what_exists_and_is_used() -> None:
    used: dict[str, set[str]] = {name: set() for name in ROOMS}
    for path in MODULES:
        for name in imported(path):
            module = own_module(name)
            if module and place(path) != "__init__":
                used[room(place(path))] |= {room(module), module}
    for name, allowed in ROOMS.items():
        assert set(allowed) <= used[name], f"{name} no longer imports {set(allowed) - used[name]}"


def test_no_two_rooms_import_each_other() -> None:
    def leads(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for name in ROOMS[ahead.pop()]:
                following = name if name in ROOMS else room(name)
                if following not in seen:
                    seen.add(following)
                    ahead.append(following)
        return seen

    assert [name for name in ROOMS if name in leads(name)] == []
