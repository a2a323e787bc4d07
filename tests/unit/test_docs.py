"""What the pages name exists: files, links with their anchors, targets of make, tests.

Their tables are whole.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.tables import named_by

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

SIZES = {"README.md": 110, "docs/start": 120, "docs/design": 250}
"""Lines of a page at most, by page or folder."""

TARGETS = set(re.findall(r"^([a-z_-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


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


Found = Iterator[object]
"""What is wrong on a page; a test of all pages takes a fraction of the time of one for each."""


def paths_without_a_file(page: Path) -> Found:
    return (path for path in paths(page.read_text()) if not exists(path))


def links_to_nowhere(page: Path) -> Found:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            linked = page.parent / file if file else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                yield target


def targets_that_make_lacks(page: Path) -> Found:
    named = re.findall(r"(?:^|`)make ((?:[a-z][a-z_-]*(?: |\b))+)", page.read_text(), re.MULTILINE)
    return (name for names in named for name in names.split() if name not in TARGETS)


def words_that_no_test_has(page: Path) -> Found:
    """In `pytest FILE -k WORD` the file has a test with that word."""
    told = r"pytest (?:-\w )?(tests/\S+\.py)(?: -k (\w+))?"
    return (
        (file, word)
        for file, word in re.findall(told, page.read_text())
        if word not in (ROOT / file).read_text()
    )


def rows_outside_of_tables(page: Path) -> Found:
    """A row behind a blank line would show as text: a table begins with a head and dashes."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return (block for block in blocks if not re.match(r".*\n\|[-:| ]+\|\n", block))


def rows(page: Path) -> Iterator[str]:
    """Yield the lines of tables, also of tables within lists."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"^ *\|.*\|$", text, re.MULTILINE)


def cells_of_more_than_a_fact(page: Path) -> Found:
    cells = (cell.strip() for row in rows(page) for cell in re.split(r"(?<!\\)\|", row))
    return (cell for cell in cells if len(cell) > WIDEST_CELL)


def lines_beyond_what_its_readers_read(page: Path) -> Found:
    place = page.relative_to(ROOT)
    most = SIZES.get(str(place)) or SIZES.get(str(place.parent))
    return iter(page.read_text().splitlines()[most:] if most else ())


def files_that_an_item_names_twice(page: Path) -> Found:
    """An item of `where*.md` leads from file to file: one named again sends its reader back."""
    for item in re.split(r"^- ", page.read_text(), flags=re.MULTILINE)[1:]:
        named = Counter(re.findall(r"`([\w./-]+\.\w+)`", item))
        yield from (file for file, times in named.items() if times > 1)


@named_by(
    "faults",
    ("faults", "pages"),
    [
        (paths_without_a_file, PROSE),
        (links_to_nowhere, PAGES),
        (targets_that_make_lacks, PROSE),
        (words_that_no_test_has, PROSE),
        (rows_outside_of_tables, PAGES),
        (cells_of_more_than_a_fact, PAGES),
        (lines_beyond_what_its_readers_read, PAGES),
        (files_that_an_item_names_twice, sorted((ROOT / "docs" / "design").glob("where*.md"))),
    ],
)
def test_no_page_has(faults: Callable[[Path], Found], pages: Sequence[Path]) -> None:
    assert [(str(page.relative_to(ROOT)), each) for page in pages for each in faults(page)] == []
