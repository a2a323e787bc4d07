"""Names of tests are sentences, and each row of a long table says what is particular about it."""

import ast
import re
from collections.abc import Iterator
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


def tables(tree: ast.AST) -> Iterator[ast.Call]:
    """Find each `parametrize` whose rows are written out, and have no `ids`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(attr="parametrize"), [_, ast.List() | ast.Tuple()], []):
                yield node


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
        text = path.read_text()
        if "parametrize" not in text:
            continue
        for table in tables(ast.parse(text)):
            rows = table.args[1].elts  # type: ignore[attr-defined]
            if len(rows) >= LONG and not all(map(is_named, rows)):
                lacking.append(f"{path}:{table.lineno}")
    assert lacking == []
