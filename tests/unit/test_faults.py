"""The declared faults of OpenVINO name modules and tests that exist; their page has them all."""

import ast
import re
from pathlib import Path

import pytest

from tests.canaries import page
from tests.canaries.declared import FAULTS
from tests.canaries.fault import Fault

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "ie_serving" / "engines"
TESTS = ROOT / "tests" / "unit" / "engines" / "openvino"
EACH = pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_the_page_has_what_is_declared() -> None:
    text = (ROOT / "docs" / "reference" / "openvino-faults.md").read_text()
    assert page.printed(text, FAULTS.values()) == text, "run python -m tests.canaries --write"


@EACH
def test_its_tests_exist(fault: Fault) -> None:
    assert fault.tests or fault.name in {"norms"}
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert name in _functions(TESTS / file)


@EACH
def test_the_modules_that_keep_it_from_answers_exist(fault: Fault) -> None:
    named = re.findall(r"`(\S+\.py)`", fault.done)
    assert [
        name
        for name in named
        if not (ENGINE / "openvino" / name.removeprefix("engines/")).exists()
        and not (ENGINE.parent / name).exists()
    ] == []
