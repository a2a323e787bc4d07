"""Full collections wait for large requests, and come when none is under way."""

import sys

import pytest

from ie_serving.core.runtime.budget import Budget
from ie_serving.server.process.garbage import (
    DUE,
    DUE_IN_TIME,
    LARGE_WORK,
    MOST_LOOKS,
    QUIET_LOOKS,
    collect_garbage,
)
from tests.process import output_of
from tests.unit.server.process.looks import Paced

HOLDS = """
import gc, sys
from ie_serving.server.process.garbage import collect_on_request

collect_on_request()
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
gc.collect()
made = [[0.5] for _ in range(1_000_000)]
print(len(full), gc.get_count()[2])
"""


def test_a_million_lists_are_made_without_a_full_collection() -> None:
    """Python alone makes some ten meanwhile, the last of which takes a tenth of a second."""
    phases, since = map(int, output_of(sys.executable, "-c", HOLDS)[-1].split())
    assert phases == 2  # the one that was asked for, its start and its end
    assert since >= DUE


EXEMPTS = """
import gc, weakref
from ie_serving.server.process.garbage import EXEMPT_S, FullCollection

class Node: pass

def pair():
    one, other = Node(), Node()
    one.other, other.other = other, one
    return one

seconds = iter(range(100))
now = 0.0
full = FullCollection(lambda: next(seconds), lambda: now)
made = [pair() for _ in range(100_000)]
gc.collect()
full()
print(len(gc.get_objects()) < 10_000)
seen = weakref.ref(made[0])
made.clear()
full()
print(seen() is None)
grown = [pair() for _ in range(150_000)]
full()
print(seen() is None)
full()
print(seen() is None, len(gc.get_objects()) < 10_000)
seen = weakref.ref(grown[0])
grown.clear()
full()
print(seen() is None)
now = EXEMPT_S
full()
print(seen() is None)
"""


def test_an_object_that_survives_a_long_collection_is_visited_again_after_growth() -> None:
    lasts, *left, gone, kept, in_time = output_of(sys.executable, "-c", EXEMPTS)[-6:]
    assert lasts == "True"
    assert left == ["False", "False"]
    assert gone == "True True"
    assert (kept, in_time) == ("False", "True"), "an hour later at the latest"


class Looks(Paced):
    """Lets the server look when the test says so, and counts its collections."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.since = DUE
        self.collections = 0
        super().__init__(
            lambda pause: collect_garbage(self.budget, pause, lambda: self.since, self._collect)
        )

    def _collect(self) -> None:
        self.collections += 1


@pytest.mark.parametrize(("since", "expected"), [(DUE - 1, 0), (DUE, 1)], ids=["few", "many"])
async def test_it_is_done_when_enough_has_come_to_stay(since: int, expected: int) -> None:
    looks = Looks()
    looks.since = since
    await looks.look()
    assert looks.collections == expected
    looks.end()


@pytest.mark.parametrize(("since", "expected"), [(DUE_IN_TIME - 1, 0), (DUE_IN_TIME, 1)])
async def test_little_is_collected_after_a_minute(since: int, expected: int) -> None:
    """What loads leave would otherwise stay for half an hour."""
    looks = Looks()
    looks.since = since
    for _ in range(QUIET_LOOKS - 1):
        await looks.look()
        assert looks.collections == 0
    await looks.look()
    await looks.look()
    assert looks.collections == expected
    looks.end()


async def test_it_waits_for_the_end_of_large_requests() -> None:
    looks = Looks()
    lease = looks.budget.lease(LARGE_WORK)
    await looks.look()
    await looks.look()
    assert looks.collections == 0
    lease.release()
    await looks.look()
    assert looks.collections == 1
    looks.end()


async def test_it_waits_for_some_minutes_at_most() -> None:
    looks = Looks()
    lease = looks.budget.lease(LARGE_WORK)
    for expected in (*[0] * MOST_LOOKS, 1, 0):
        before = looks.collections
        await looks.look()
        assert looks.collections - before == expected
    lease.release()
    looks.end()


START = """
import gc
from ie_serving.server.process.garbage import FullCollection, collect_on_request

collect_on_request()
gc.collect()
full = FullCollection()
few = [[0.5] for _ in range(10_000)]
full.exempt_start()
print(gc.get_freeze_count())
made = [[0.5] for _ in range(200_000)]
full.exempt_start()
print(gc.get_freeze_count() > 200_000)
full()  # visits the rest alone, and lets none of these in again
print(gc.get_freeze_count() > 200_000)
"""


def test_the_many_objects_of_a_start_are_exempt_and_few_are_not() -> None:
    assert output_of(sys.executable, "-c", START)[-3:] == ["0", "True", "True"]
