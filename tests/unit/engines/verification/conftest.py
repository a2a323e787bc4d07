"""One process that compares engines, for the tests of a module."""

from collections.abc import Iterator

import pytest

from ie_serving.engines.verification.verifier import Verifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier()
    yield made
    made.close()
