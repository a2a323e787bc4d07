"""Carries the counters of ended workers on, so that the sum over all workers never falls.

To Prometheus a falling sum looks like a restart of the whole server, and `rate()` would count the
other workers' numbers again. So each worker stores its counters in its slot whenever it tells them,
and the worker that replaces it adds them to its own. Counts between the last page and a worker's
death are lost, as with any process.
"""

import pickle
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ie_serving.server.workers.crew import Crew, Keeper

Numbers = Mapping[str, float]
"""Values of counters and histograms, by the name of the sample with its labels."""


class Counted:
    """Stores this worker's counters, and returns those of ended workers.

    Attributes:
        before: counters of all earlier workers of this slot.
    """

    def __init__(self, crew: Crew, slot: int) -> None:
        self._places = crew.counted
        self._slot = slot
        self.before = _stored(self._places[slot])

    def store(self, own: Numbers) -> None:
        """Store the counters of this worker, before they are told."""
        with suppress(OSError):  # no memory: a replacement begins with those stored before
            self._places[self._slot].write(pickle.dumps(_sum([self.before, own])))

    def of_the_gone(self, told: Mapping[int, Numbers]) -> Numbers:
        """Return the counters that are on no worker's page.

        Args:
            told: `before` of each worker whose page is there, by slot.
        """
        missing = (place for slot, place in enumerate(self._places) if slot not in told)
        return _sum([*told.values(), *map(_stored, missing)])


def _stored(place: Keeper) -> Numbers:
    found: Numbers = pickle.loads(place.read() or _NOTHING)
    return found


def _sum(each: Iterable[Numbers]) -> Numbers:
    total: dict[str, float] = {}
    for numbers in each:
        for name, number in numbers.items():
            total[name] = total.get(name, 0.0) + number
    return total


_NOTHING = pickle.dumps({})
