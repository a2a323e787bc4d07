"""Texts of errors: TensorFlow Serving's part, which clients compare, and all of it."""

import pickle
import re
from collections.abc import Iterator

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

LOST = NotFound(advised("Servable not found", ": no such model"))


@pytest.mark.parametrize(
    ("error", "said", "whole"),
    [
        (LOST, "Servable not found", "Servable not found: no such model"),
        (placed("x", LOST), "x: Servable not found", "x: Servable not found: no such model"),
        (portable(LOST), "Servable not found", "Servable not found: no such model"),
        (ConfigError([advised("a", ", b"), "c"]), "a; c", "a, b; c"),
        (InvalidRequest("a", "b"), "ab", "ab"),
    ],
)
def test_texts(error: ServingError, said: str, whole: str) -> None:
    """Also of an error that comes from another process."""
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.said, str(each)) == (said, whole)


def drawn(kind: type[ServingError], depth: int = 0) -> Iterator[tuple[int, str]]:
    yield depth, kind.__name__
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from drawn(each, depth + 1)


def test_the_tree_in_the_docstring_has_every_class_at_its_depth() -> None:
    """Those of other modules, which it names with their place, apart."""
    told = re.findall(r"^    ([│├└─ ]*)(\w+)(?!.*\(`)", str(errors.__doc__), re.MULTILINE)
    assert sorted((len(lines) // 4, name) for lines, name in told) == sorted(drawn(ServingError))
