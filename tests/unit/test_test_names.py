"""How tests are written: their names, the rows of their tables, and the names that they read."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
PRONOUNS = re.compile(r"def (test_(?:what|who|whom|whose|which|how)_\w+)")
"""A relative clause has no subject that a failure can be read by."""
LONG = 4
"""Rows from which a table has ids: shorter ones are read at a glance."""
PRINTED = (
    ast.Constant,
    ast.UnaryOp,
    ast.BinOp,
    ast.JoinedStr,
    ast.Name,
    ast.Attribute,
    ast.Starred,
)
"""Rows of one value that pytest prints as they are: numbers, texts, functions and enumerations."""
OF_LIBRARIES = {
    *("_asdict", "_fields", "_replace"),  # of tuples with names
    *("_exit", "_scheduled"),  # of `os`, and of the event loop, which does not tell its timers
    *("_SubParsersAction", "_actions"),  # of `argparse`, which does not list its flags
    "_bucket_metadata_cache",  # of Google's client: `gcs.py` empties it
}
"""Names of other projects: public in spite of their form, or without another way."""


def tables(tree: ast.Module) -> Iterator[Sequence[ast.expr]]:
    """Find the rows of each `parametrize` that has no `ids`, written out or as a constant."""
    rows = {}
    calls = []
    for node in of_classes(tree.body):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                rows[name] = value
                calls.append(value)
        calls += getattr(node, "decorator_list", [])
    for call in calls:
        match call:
            case ast.Call(ast.Attribute(attr="parametrize"), [_, given], []):
                found = rows.get(given.id) if isinstance(given, ast.Name) else given
                if isinstance(found, ast.List | ast.Tuple):
                    yield found.elts


def of_classes(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef):
            yield from of_classes(node.body)


def is_named(row: ast.expr) -> bool:
    match row:
        case ast.Call(ast.Attribute(attr="param"), _, keywords):
            return "id" in [each.arg for each in keywords]
    return isinstance(row, PRINTED)


def test_names_of_tests_begin_with_no_pronoun() -> None:
    paths = sorted(TESTS.rglob("*.py"))
    found = {str(path): PRONOUNS.findall(path.read_text()) for path in paths}
    assert {path: names for path, names in found.items() if names} == {}


def test_each_row_of_a_long_table_has_an_id() -> None:
    """By `pytest.param(..., id=...)`, by `ids`, or by a column of its own (`tests/tables.py`)."""
    lacking = []
    for path in sorted(TESTS.rglob("*.py")):
        for rows in tables(ast.parse(path.read_text())):
            if len(rows) >= LONG and not all(map(is_named, rows)):
                lacking.append(f"{path}:{rows[0].lineno}")
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
        for line, name in private_names(ast.parse(path.read_text())):
            if re.match("_[a-zA-Z]", name) and name not in OF_LIBRARIES:
                found.append(f"{path}:{line}: {name}")
    assert found == []
