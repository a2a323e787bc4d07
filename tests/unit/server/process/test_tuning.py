"""What is set for the whole process."""

import gc

import pytest

from ie_serving.server.process.tuning import lasting_objects


def test_what_is_made_at_the_start_is_not_looked_through_again() -> None:
    before = gc.get_freeze_count()
    try:
        with pytest.raises(LookupError), lasting_objects():
            assert not gc.isenabled()
            made = [object() for _ in range(3)]
            raise LookupError
        assert gc.isenabled()
        assert gc.is_tracked(made)
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
