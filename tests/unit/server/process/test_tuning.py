"""What is set for the whole process."""

import sys

from tests.process import output_of

STARTS = """
import gc
from ie_serving.server.process.tuning import lasting_objects

try:
    with lasting_objects():
        print(gc.isenabled())
        made = [object() for _ in range(3)]
        raise LookupError
except LookupError:
    print(gc.isenabled(), gc.is_tracked(made), gc.get_freeze_count() > 1000)
"""
"""A program of its own: garbage that is frozen in the tests' process would stay there, with what it
holds of the budget, and to thaw it would thaw what the tests have frozen (tests/conftest.py)."""


def test_objects_made_at_the_start_are_not_looked_through_again() -> None:
    assert output_of(sys.executable, "-c", STARTS) == ["False", "True True True"]
