"""`docs/security.md`, and the faults of OpenVINO in `docs/design.md`, name tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ENGINE = "tests/unit/engines/openvino"
DESIGN = (ROOT / "docs" / "design.md").read_text().partition("## 11. ")[2]
FAULTS = DESIGN.partition("### What is not kept")[0]
TITLES = ("| fault |", "| operations |", "|---|")
OF_ENGINE = [
    line for line in FAULTS.splitlines() if line.startswith("| ") and not line.startswith(TITLES)
]
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


@pytest.mark.parametrize("row", OF_ENGINE, ids=lambda row: row.split(" | ")[0])
def test_every_fault_of_the_engine_has_tests_that_exist(row: str) -> None:
    cell = row.removesuffix(" |").rsplit(" | ", maxsplit=1)[-1]
    tests = re.findall(r"`(\S+\.py)::(\w+)`", cell)
    assert tests or (cell == "none" and row.startswith("| what else is not named here"))
    assert [name for path, name in tests if name not in functions(f"{ENGINE}/{path}")] == []
