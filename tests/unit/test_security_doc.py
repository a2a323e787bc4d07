"""`docs/reference/attacks.md` names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "attacks.md").read_text()
ATTACKS = re.findall(r"^- \*\*(.+?)\*\*\n((?:    - .*\n)+)", PAGE, re.MULTILINE)


@cache
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


def test_every_attack_is_read() -> None:
    assert len(ATTACKS) == PAGE.count("\n- **") > 90


def test_every_attack_has_tests_that_exist() -> None:
    for attack, facts in ATTACKS:
        lines = [line for line in facts.splitlines() if not line.startswith("    - Attack: ")]
        bound, *_, last = lines
        assert bound.startswith("    - Bound: ") and last.startswith("    - Tests: "), attack
        tests = re.findall(r"`(tests/\S+\.py)::(\w+)`", last)
        assert tests, attack
        assert [name for path, name in tests if name not in functions(path)] == [], attack
