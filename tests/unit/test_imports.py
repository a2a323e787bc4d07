"""The tables of docs/design/imports.md hold: rooms, folders that keep apart, libraries."""

import ast
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ie_serving"
DESIGN = (ROOT / "docs" / "design" / "imports.md").read_text()
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.stat().st_size)
OWN = "ie_serving"
HOLDS_IMPORTS = (ast.stmt, ast.excepthandler, ast.match_case)
FOR_ALL = "telemetry"
"""A room that all others may import, but `core`, which it imports itself."""


def rows(table: str) -> dict[str, list[str]]:
    """Read the Markdown table between two comments: first column to the words of the second."""
    text = DESIGN.split(f"<!-- {table}: begin -->")[1].split(f"<!-- {table}: end -->")[0]
    found = {}
    for line in text.strip().splitlines()[2:]:
        name, words = (cell.strip() for cell in line.strip("|").split("|")[:2])
        found[name.strip("`")] = re.findall(r"`([^`]+)`", words)
    return found


ROOMS = rows("rooms")
APART = rows("apart")
LIBRARIES = rows("libraries")


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


PLACES = {place(path) for path in MODULES}


def room(module: str) -> str:
    """What lies directly in the package."""
    return module.partition("/")[0]


def lies_in(module: str, folder: str) -> bool:
    return f"{module}/".startswith(f"{folder}/")


@cache
def imported(path: Path) -> dict[str, bool]:
    """Full names of what a module imports, wherever in it, and whether also at run time."""
    found: dict[str, bool] = {}
    ahead: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), True)]
    while ahead:
        node, runs = ahead.pop()
        names: Sequence[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                runs = False
            children = ast.iter_child_nodes(node)
            ahead += ((each, runs) for each in children if isinstance(each, HOLDS_IMPORTS))
        for name in names:
            found[name] = found.get(name, False) or runs
    return found


def own_module(name: str) -> str | None:
    """The module of this package that a full name lies in."""
    if not name.startswith(f"{OWN}."):
        return None
    inner = name.removeprefix(f"{OWN}.").replace(".", "/")
    return inner if inner in PLACES else inner.rpartition("/")[0]


@cache
def edges() -> dict[str, set[str]]:
    """What each module imports of this package."""
    return {
        place(path): {module for name in imported(path) if (module := own_module(name))}
        for path in MODULES
    }


def test_a_room_imports_only_the_rooms_in_its_row() -> None:
    for module, others in edges().items():
        here = room(module)
        if here == "__init__":
            continue
        assert here in ROOMS, f"docs/design/imports.md has no row for {here}"
        allowed = {here, *ROOMS[here], *([] if here == "core" else [FOR_ALL]), "__init__"}
        assert {room(other) for other in others if other} <= allowed, module


@pytest.mark.parametrize("folder", APART)
def test_a_folder_imports_nothing_that_it_keeps_apart_from(folder: str) -> None:
    inside = [module for module in edges() if lies_in(module, folder)]
    assert inside, f"docs/design/imports.md names {folder}, which does not exist"
    for module in inside:
        for other in APART[folder]:
            assert not [each for each in edges()[module] if lies_in(each, other)], module


def test_a_library_is_imported_only_where_its_row_says() -> None:
    for here, name in ((place(path), name) for path in MODULES for name in imported(path)):
        top = name.split(".")[0]
        if top == OWN or top in sys.stdlib_module_names:
            continue
        known = [library for library in LIBRARIES if f"{name}.".startswith(f"{library}.")]
        assert known, f"{here} imports {name}, which docs/design/imports.md does not list"
        homes = LIBRARIES[max(known, key=len)]
        assert any(f"{here}/".startswith(f"{home}/") for home in homes), f"{here} imports {name}"


def test_every_row_names_what_exists_and_is_used() -> None:
    used: dict[str, set[str]] = {name: set() for name in ROOMS}
    for module, others in edges().items():
        if room(module) in used:
            used[room(module)] |= {room(other) for other in others if other}
    for name, allowed in ROOMS.items():
        assert set(allowed) <= used[name], f"{name} no longer imports {set(allowed) - used[name]}"
    places = {*edges(), *(module.rpartition("/")[0] for module in edges())}
    for folder, others in APART.items():
        assert not [each for each in (folder, *others) if not any(lies_in(p, each) for p in places)]


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Name what can be come back to, each with where its way leads."""

    def leads(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for following in graph.get(ahead.pop(), set()) - seen:
                seen.add(following)
                ahead.append(following)
        return seen

    return sorted(name for name in graph if name in leads(name))


def test_no_two_rooms_import_each_other() -> None:
    assert circles({name: {*allowed} - {name} for name, allowed in ROOMS.items()}) == []


def test_no_two_modules_import_each_other() -> None:
    at_run_time = {
        place(path): {
            module for name, runs in imported(path).items() if runs and (module := own_module(name))
        }
        - {place(path)}
        for path in MODULES
    }
    assert circles(at_run_time) == []


def test_no_two_folders_import_each_other() -> None:
    """A folder may use what lies in one above it, and that one what lies in it."""
    folders: dict[str, set[str]] = {}
    for module, others in edges().items():
        here = module.rpartition("/")[0]
        there = {other.rpartition("/")[0] for other in others if other}
        folders.setdefault(here, set()).update(
            each for each in there if not lies_in(each, here) and not lies_in(here, each)
        )
    assert circles(folders) == []
