"""The declared faults of OpenVINO name modules and tests that exist; their page has them all."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from ie_serving.engines.openvino.compiling import lone_row
from ie_serving.engines.openvino.faults import hazards, shared_sizes
from ie_serving.engines.openvino.faults.integers import exact
from ie_serving.engines.openvino.graphs.rules import Rules
from ie_serving.engines.openvino.reading import onnx_graph
from ie_serving.engines.openvino.running import shape_inference
from tests.canaries import __main__ as canaries
from tests.canaries import page
from tests.canaries.declared import FAULTS

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "ie_serving" / "engines"
TESTS = ROOT / "tests" / "unit" / "engines"


@cache
def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_the_page_has_what_is_declared() -> None:
    text = (ROOT / "docs" / "reference" / "openvino-faults.md").read_text()
    assert page.printed(text, FAULTS.values()) == text, "run python -m tests.canaries --write"


def test_the_tests_and_modules_of_each_exist() -> None:
    assert {name for name, fault in FAULTS.items() if not fault.tests} <= {"norms"}
    for fault in FAULTS.values():
        for test in fault.tests:
            file, _, name = test.partition("::")
            (path,) = _found(file, TESTS)
            assert name in _functions(path), fault.name
        for module in re.findall(r"`(\S+\.py)`", fault.done):
            assert _found(module, ENGINE, ENGINE.parent), fault.name


def _found(file: str, *folders: Path) -> list[Path]:
    own = (folders[0] / "openvino" / "faults", folders[0] / "openvino")
    return [each / file for each in (*own, *folders) if (each / file).exists()]


def test_each_rule_names_the_canaries_that_show_its_fault() -> None:
    passes = (shared_sizes.RULES, shape_inference.RULES, lone_row.RULES, exact.ALL_RULES)
    walks = [each for each in vars(hazards).values() if isinstance(each, Rules)]
    rules = [each for rules in (*passes, *walks) for group in rules.groups for each in group]
    named = {name for each in (*rules, *onnx_graph.RULES) for name in each.faults.split()}
    assert len(named) > 50
    assert named <= FAULTS.keys()


def test_a_canary_that_never_ends_shows_its_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "PATIENCE_S", 0.01)  # shorter than the start of a process
    assert canaries.repeated("a_scatter_writes_behind_its_rows") == canaries.HANGS
