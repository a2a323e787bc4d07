"""`docs/security.md` names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = re.findall(r"^\| (?!attack|---)(.*) \|$", PAGE, re.MULTILINE)


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return names | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0])
def test_every_attack_has_tests_that_exist(row: str) -> None:
    tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", row.rsplit(" | ", maxsplit=1)[-1])
    assert tests
    assert [name for path, name in tests if name not in functions(path)] == []
