"""What all unit tests share: the budget of bytes of their process."""

import gc
from collections.abc import Iterator

import pytest

from ie_serving.core.budget import BUDGET


@pytest.fixture(autouse=True, scope="module")
def all_is_given_back() -> Iterator[None]:
    """Nothing of a module's tests holds bytes of the budget when the next one begins.

    A connection that its test leaves open is a cycle with its parser: the garbage collector ends
    it, which may come many modules later.
    """
    yield
    if BUDGET.held:
        gc.collect()
    assert BUDGET.held == 0
