"""What is composed for a version is composed once, and goes with the version."""

import gc
import weakref
from typing import Any

import pytest

from ie_serving.errors import PreconditionFailed
from ie_serving.models.handle import Servable
from ie_serving.server.bindings import Bindings


class Composed:
    """What a binding makes."""


def servable(version: int = 1) -> Servable:
    compiled: Any = None
    return Servable("m", version, compiled, {})


def test_it_is_made_once_for_each_version_and_signature() -> None:
    bindings = Bindings(lambda servable, signature: Composed())
    one, two = servable(1), servable(2)
    asked = [(one, "a"), (one, "b"), (two, "a")]
    first = [bindings.of(*each) for each in asked]
    assert [bindings.of(*each) for each in asked] == first
    assert len(set(first)) == 3


def test_two_who_bind_do_not_meet() -> None:
    of = servable()
    assert Bindings(lambda s, name: 1).of(of, "a") == 1
    assert Bindings(lambda s, name: 2).of(of, "a") == 2


def test_it_goes_with_the_version() -> None:
    bindings = Bindings(lambda servable, signature: Composed())
    of = servable()
    gone = weakref.ref(bindings.of(of, "a"))
    del of
    gc.collect()
    assert gone() is None


def test_what_cannot_be_made_is_asked_again() -> None:
    answers: list[Exception | Composed] = [PreconditionFailed("no"), Composed()]

    def bind(servable: Servable, signature: str) -> Composed:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    bindings, of = Bindings(bind), servable()
    with pytest.raises(PreconditionFailed):
        bindings.of(of, "a")
    assert isinstance(bindings.of(of, "a"), Composed)
