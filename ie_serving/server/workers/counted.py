"""What workers that have ended had counted, so that the sum of all does not fall when one dies.

A sum that falls looks to Prometheus like a restart of the whole server, and `rate()` would count
everything again that the others have. So each page notes what every worker had counted; what a
worker had when it was read last is added for its slot once another process has that. What came
between the last page and its death is lost, as with any process.
"""

import asyncio
import pickle
from collections.abc import Mapping
from typing import NamedTuple

from ie_serving.server.workers.crew import Crew
from ie_serving.server.workers.turn import Turn

Numbers = Mapping[str, float]
"""Numbers of counters and histograms, by the name of the sample with its labels."""


class Counts(NamedTuple):
    """What one worker tells of itself.

    Attributes:
        pid: of its process.
        numbers: what it has counted.
    """

    pid: int
    numbers: Numbers


class _Slot(NamedTuple):
    """What is known of a slot.

    Attributes:
        before: what the processes have counted that had it before.
        last: what its process told last.
    """

    before: Numbers
    last: Counts


class Counted:
    """Lives on one event loop of each worker.

    Args of the constructor:
        crew: has the place where it is kept.
    """

    def __init__(self, crew: Crew) -> None:
        self._place = crew.counted
        self._turn = Turn(crew.counting)

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
            known = kept.get(slot, _Slot({}, counts))
            is_other = known.last.pid != counts.pid
            before = _added(known.before, known.last.numbers) if is_other else known.before
            kept[slot] = _Slot(before, counts)
        self._place.write(pickle.dumps(kept))
        gone: Numbers = {}
        for slot, (before, last) in kept.items():
            gone = _added(gone, before)
            gone = gone if slot in found else _added(gone, last.numbers)
        return gone


def _added(some: Numbers, others: Numbers) -> Numbers:
    if not others:
        return some
    return {name: some.get(name, 0.0) + others.get(name, 0.0) for name in {**some, **others}}


_NOTHING = pickle.dumps({})
