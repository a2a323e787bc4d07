"""What the pages name exists: files, links with their anchors, targets of make, tests.

Their tables are whole.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ie_serving"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
MADE = ROOT / "docs" / "reference" / "api"
"""Pages made from the conformance table, whose cases name paths of requests."""

PROSE = [page for page in PAGES if page.parent != MADE]
WIDEST_CELL = 200
"""Characters of a table's cell: it holds a fact. More is prose."""

WRITTEN = {"build", "dist"}
"""Folders that `make` writes; which of their files exist depends on the targets made so far."""

TOP = {path.name for folder in (ROOT, PACKAGE) for path in folder.iterdir()} - WRITTEN
OF_USERS = (
    "examples/models/digits/3",
    "models/resnet",
    "models/mine",
    "models/age_gender",
    "models/reviews",
    "models/digits",
    "models/iris",
    "models/risk",
    "config/...",
)
"""Paths in commands that the reader makes."""

SIZES = {"docs/start": 120, "docs/design": 250}
"""Lines of a page at most, by folder."""

TARGETS = set(re.findall(r"^([a-z_-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def folder(page: Path) -> str:
    return str(page.parent.relative_to(ROOT))


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def paths(text: str) -> Iterator[str]:
    """Yield what looks like a path into this project: `models/stream.py`, `{a,b}` spelled out."""
    for word in re.findall(r"(?<![\w/:$.<{\"=-])[\w.]+/(?:\{[\w, ]+\}|[\w./-]*[\w/])", text):
        braces = re.search(r"\{(.+)\}", word)
        parts = braces[1].split(", ") if braces else [""]
        for part in parts:
            path = word.replace(braces[0], part) if braces else word
            if path.split("/")[0] in TOP and not path.startswith(OF_USERS):
                yield path


@cache
def exists(path: str) -> bool:
    """A module may be named without `.py`, and with a class of it."""
    path = re.sub(r"\.[A-Z].*", "", path)
    places = (ROOT / path, PACKAGE / path, PACKAGE / f"{path}.py")
    return any(place.exists() for place in places)


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_every_file_that_is_named_exists(page: Path) -> None:
    assert [path for path in paths(page.read_text()) if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            linked = page.parent / file if file else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_every_target_of_make_exists(page: Path) -> None:
    named = re.findall(r"(?:^|`)make ((?:[a-z][a-z_-]*(?: |\b))+)", page.read_text(), re.MULTILINE)
    assert [name for names in named for name in names.split() if name not in TARGETS] == []


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_every_test_that_is_named_exists(page: Path) -> None:
    """In `pytest FILE -k WORD` the file has a test with that word."""
    for file, word in re.findall(
        r"pytest (?:-\w )?(tests/\S+\.py)(?: -k (\w+))?", page.read_text()
    ):
        assert word in (ROOT / file).read_text()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_row_belongs_to_a_table(page: Path) -> None:
    """A row behind a blank line would show as text: a table begins with a head and dashes."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert [block for block in blocks if not re.match(r".*\n\|[-:| ]+\|\n", block)] == []


def rows(page: Path) -> Iterator[str]:
    """Yield the lines of tables, also of tables within lists."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"^ *\|.*\|$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_cell_is_a_fact(page: Path) -> None:
    cells = (cell.strip() for row in rows(page) for cell in re.split(r"(?<!\\)\|", row))
    assert [cell for cell in cells if len(cell) > WIDEST_CELL] == []


@pytest.mark.parametrize("page", [page for page in PAGES if folder(page) in SIZES], ids=named)
def test_a_page_is_as_long_as_its_readers_read(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= SIZES[folder(page)]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
