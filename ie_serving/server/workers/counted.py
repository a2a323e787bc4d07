"""Keeps the counters of ended workers, so that the sum over all workers never falls.

To Prometheus a falling sum looks like a restart of the whole server, and `rate()` would count the
other workers' numbers again. So each metrics page stores what every worker had counted, and the
stored numbers of ended workers are added to later pages. Counts between the last page and a
worker's death are lost, as with any process.

Concurrent pages may arrive here in another order than that in which the workers were asked: one
page may have the numbers of a process whose successor another page has already stored. So processes
are told apart by their start time, and their numbers by the time at which they were read.
"""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ie_serving.server.workers.crew import Crew
from ie_serving.server.workers.turn import Turn

KEPT: Final = 4
"""Newest processes of one slot whose numbers are stored separately; those of older processes are
added up. A page with numbers of an older one would count them twice, but that page would have to
last while the slot's worker dies and starts four times, which takes seconds each time."""

Numbers = Mapping[str, float]
"""Values of counters and histograms, by the name of the sample with its labels."""


class Counts(NamedTuple):
    """The counters of one worker.

    Attributes:
        born: start time of its process, which tells it from others in the same slot.
        told: time at which the numbers were read, by the same clock.
        numbers: its counters.
    """

    born: int
    told: int
    numbers: Numbers


class _Slot(NamedTuple):
    """The stored numbers of one slot.

    Attributes:
        before: sum over processes that ended long ago.
        newest: last numbers of each of the latest processes, by start time.
    """

    before: Numbers
    newest: Mapping[int, Counts]


class Counted:
    """Stores and returns the numbers of ended workers. Lives on one event loop of each worker.

    Args of the constructor:
        crew: has the place where the numbers are stored.
        check: see `Turn`.
    """

    def __init__(self, crew: Crew, check: Callable[[int], None]) -> None:
        self._place = crew.counted
        self._turn = Turn(crew.counting, check)

    async def of_the_gone(self, found: Mapping[int, Counts]) -> Numbers:
        """Store the numbers found, and return those of processes that have ended.

        Args:
            found: counters of the running workers, by slot.
        """
        async with self._turn.taken():
            return await asyncio.to_thread(self._noted, found)

    def _noted(self, found: Mapping[int, Counts]) -> Numbers:
        kept: dict[int, _Slot] = pickle.loads(self._place.read() or _NOTHING)
        for slot, counts in found.items():
            kept[slot] = _with(kept.get(slot, _Slot({}, {})), counts)
        self._place.write(pickle.dumps(kept))
        gone: Numbers = {}
        for slot, (before, newest) in kept.items():
            gone = _added(gone, before)
            here = found[slot].born if slot in found else None
            for born, counts in newest.items():
                gone = gone if born == here else _added(gone, counts.numbers)
        return gone


def _with(slot: _Slot, counts: Counts) -> _Slot:
    known = slot.newest.get(counts.born)
    if known and known.told > counts.told:
        return slot
    before, newest = slot.before, {**slot.newest, counts.born: counts}
    while len(newest) > KEPT:
        before = _added(before, newest.pop(min(newest)).numbers)
    return _Slot(before, newest)


def _added(some: Numbers, others: Numbers) -> Numbers:
    if not others:
        return some
    return {name: some.get(name, 0.0) + others.get(name, 0.0) for name in {**some, **others}}


_NOTHING = pickle.dumps({})
