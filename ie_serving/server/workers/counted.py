"""What workers that have ended had counted, so that the sum of all does not fall when one dies.

A sum that falls looks to Prometheus like a restart of the whole server, and `rate()` would count
everything again that the others have. So each page notes what every worker had counted; what a
worker had when it was read last is added to pages that do not have it. What came between the last
page and its death is lost, as with any process.

Several who read at once may come here in another order than that in which the workers told: one
may bring the numbers of a process whose successor another one has noted already. So processes are
told apart by when they were born, and their numbers by when they were told.
"""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ie_serving.server.workers.crew import Crew
from ie_serving.server.workers.turn import Turn

KEPT: Final = 4
"""Processes of one slot whose numbers are kept apart, the newest ones; those of older processes are
added up. A page with numbers of an older one would be counted twice: it would have to be under way
while the slot's worker dies and starts four times, which takes seconds each time."""

Numbers = Mapping[str, float]
"""Numbers of counters and histograms, by the name of the sample with its labels."""


class Counts(NamedTuple):
    """What one worker tells of itself.

    Attributes:
        born: when its process began, by which it differs from others that had its slot.
        told: when it was asked, by the same clock.
        numbers: what it has counted.
    """

    born: int
    told: int
    numbers: Numbers


class _Slot(NamedTuple):
    """What is known of a slot.

    Attributes:
        before: sum of what processes had counted that are long gone.
        newest: what each of the last ones has told last, by when it was born.
    """

    before: Numbers
    newest: Mapping[int, Counts]


class Counted:
    """Lives on one event loop of each worker.

    Args of the constructor:
        crew: has the place where it is kept.
        check: see `Turn`.
    """

    def __init__(self, crew: Crew, check: Callable[[int], None]) -> None:
        self._place = crew.counted
        self._turn = Turn(crew.counting, check)

    async def of_the_gone(self, found: Mapping[int, Counts]) -> Numbers:
        """Give what is counted nowhere else any more; note what is found.

        Args:
            found: what the workers have counted that run now, by slot.
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
