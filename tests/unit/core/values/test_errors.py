"""Texts of errors: TensorFlow Serving's part, which clients compare, and all of it."""

import pickle

import pytest

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
