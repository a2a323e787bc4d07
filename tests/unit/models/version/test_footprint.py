"""What a load adds to memory is told where nothing else was loaded meanwhile."""

import pytest

from ie_serving.models.version.loader import Loads


def test_memory_that_a_load_has_added_is_told() -> None:
    resident = iter([100, 350])
    with Loads(lambda: next(resident)).measured() as footprint:
        assert footprint.size is None
    assert footprint.size == 250


@pytest.mark.parametrize("after", [90, 100])
def test_a_load_into_freed_memory_adds_nothing(after: int) -> None:
    resident = iter([100, after])
    with Loads(lambda: next(resident)).measured() as footprint:
        pass
    assert footprint.size == 0


def test_of_loads_side_by_side_nothing_is_told() -> None:
    loads = Loads(lambda: 100)
    with loads.measured() as first, loads.measured() as second:
        pass
    assert (first.size, second.size) == (None, None)
    with loads.measured() as third:
        pass
    assert third.size == 0


def test_a_failed_load_is_not_under_way_any_more() -> None:
    loads = Loads(lambda: 100)
    with pytest.raises(LookupError), loads.measured():
        raise LookupError
    with loads.measured() as next_one:
        pass
    assert next_one.size == 0


def test_a_system_that_does_not_say_is_not_believed() -> None:
    with Loads(lambda: 0).measured() as footprint:
        pass
    assert footprint.size is None
