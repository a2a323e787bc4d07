"""Each example that another server documents is a test, or a sentence of the guide."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.documented_examples import EXAMPLES, Example

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("migration*.md"))
PAGE = " ".join(word for page in PAGES for word in page.read_text().split())


@cache
def _tests_of(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(), re.M))


@pytest.mark.parametrize("system", EXAMPLES)
def test_every_example_is_run_or_explained(system: str) -> None:
    lacking = [each for each in EXAMPLES[system] if not is_shown(each)]
    assert lacking == []


def is_shown(example: Example) -> bool:
    file, is_test, name = example.shown_by.partition("::")
    return name in _tests_of(file) if is_test else file in PAGE


def test_a_sentence_or_test_that_is_not_there_is_found() -> None:
    assert not is_shown(Example(1, "none", "this sentence stands nowhere on that page"))
    assert not is_shown(Example(1, "none", "tests/unit/test_documented_examples.py::test_none"))
