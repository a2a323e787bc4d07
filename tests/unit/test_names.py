"""ChangeKind tests are written: their names, the rows of their tables, and the names that they read."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.unit.test_docstrings import tree
from tests.unit.test_imports import MODULES, PACKAGE

NO_NOUN = re.compile(
    "_?(?:Alike|Beside|Direct|Dense|Expect|Gathers|How|Initial|Inside|Keeps|Kept|Later|Left|Lends"
    "|Live|Off|One|Others|Own|Plain|Ran|Ready|Runs|Secure|Seen|Sent|Several|Sparse|Tries|Verify"
    "|Which|Whole|Writes)"
)
"""Rows of one value that pytest prints as they are: numbers, texts, functions and enumerations."""
OF_LIBRARIES = {
    *("_asdict", "_fields", "_replace"),  # of tuples with names
    *("_exit", "_scheduled"),  # of `os`, and of the event loop, which does not tell its timers
    *("_SubParsersAction", "_actions"),  # of `argparse`, which does not list its flags
    "_bucket_metadata_cache",  # of Google's client: `gcs.py` empties it
}
"""Names of other projects: public in spite of their form, or without another way."""


@cache
def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


def classes() -> list[tuple[str, str]]:
    """The module and the name of each class."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node.name)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]


def test_a_class_of_one_word_has_a_noun_for_its_name() -> None:
    for path, name in classes():
        assert not NO_NOUN.fullmatch(name), f"{path}: {name} is no noun"
        assert NOUN.fullmatch(name) or not FORM_OF_A_VERB.fullmatch(name), f"{path}: {name} what?"


def test_no_name_of_a_class_begins_with_a_preposition() -> None:
    for path, name in classes():
        assert not PREPOSITION.match(name), f"{path}: {name}"


def test_each_row_of_a_long_table_has_an_id() -> None:
    """By `pytest.param(..., id=...)`, by `ids`, or by a column of its own (`tests/tables.py`)."""
    lacking = []
    for path in sorted(TESTS.rglob("*.py")):
        for table in tables(parsed(path)):
            rows = table.args[1].elts  # type: ignore[attr-defined]
            if len(rows) >= LONG and not all(map(is_named, rows)):
                lacking.append(f"{path}:{table.lineno}")
    assert lacking == []


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find names of others that begin with one underscore, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("self" | "cls") | ast.Call(ast.Name("super"))):
                continue
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("ie_serving"):
                yield from ((node.lineno, each.name) for each in names)
            case ast.Call(ast.Attribute(attr="setattr"), [_, ast.Constant(str(name)), *_]):
                yield node.lineno, name


def test_unit_tests_read_and_replace_no_private_name() -> None:
    """What a test needs is the unit's contract, and has a public name, or is seen from outside."""
    found = []
    for path in sorted((TESTS / "unit").rglob("*.py")):
        for line, name in private_names(parsed(path)):
            if re.match("_[a-zA-Z]", name) and name not in OF_LIBRARIES:
                found.append(f"{path}:{line}: {name}")
    assert found == []
