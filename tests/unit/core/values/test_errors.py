"""Texts of errors: TensorFlow Serving's part, which clients compare, and all of it."""

import ast
import pickle
import re
from pathlib import Path

import pytest

from ie_serving.core.values import errors
from ie_serving.core.values.errors import (
    ConfigError,
    InvalidRequest,
    NotFound,
    ServingError,
    advised,
    placed,
    portable,
)
from tests.unit.test_imports import MODULES, place

LOST = NotFound(advised("Servable not found", ": no such model"))


@pytest.mark.parametrize(
    ("error", "said", "whole"),
    [
        pytest.param(
            LOST, "Servable not found", "Servable not found: no such model", id="an error"
        ),
        pytest.param(
            placed("x", LOST),
            "x: Servable not found",
            "x: Servable not found: no such model",
            id="an error with its place",
        ),
        pytest.param(
            portable(LOST),
            "Servable not found",
            "Servable not found: no such model",
            id="a portable error",
        ),
        pytest.param(
            ConfigError([advised("a", ", b"), "c"]), "a; c", "a, b; c", id="several faults"
        ),
        pytest.param(InvalidRequest("a", "b"), "ab", "ab", id="advice"),
    ],
)
def test_an_error_has_its_own_text_and_a_whole_one(
    error: ServingError, said: str, whole: str
) -> None:
    """Also of an error that comes from another process."""
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.said, str(each)) == (said, whole)


PATTERN = re.compile(r"^    ([│├└─ ]*)(\w+)(?:.*\(`(.*)`\))?", re.MULTILINE)


def test_the_tree_in_the_docstring_has_every_public_class_below_its_base_with_its_file() -> None:
    """Without those of `compat/`, whose folders can be deleted."""
    bases = {
        node.name: (ast.unparse(node.bases[0]).rpartition(".")[2], place(path))
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.bases and node.name[0] != "_"
    }
    expected = {("ServingError", "Exception", place(Path(errors.__file__)))}
    while (
        more := {
            (name, base, file)
            for name, (base, file) in bases.items()
            if any(base == above for above, _, _ in expected) and not file.startswith("compat/")
        }
        - expected
    ):
        expected |= more
    drawn, above = set(), ["Exception"]
    for lines, name, file in PATTERN.findall(str(errors.__doc__)):
        del above[len(lines) // 4 + 1 :]
        drawn.add((name, above[-1], file.removesuffix(".py") or place(Path(errors.__file__))))
        above.append(name)
    assert drawn == expected
