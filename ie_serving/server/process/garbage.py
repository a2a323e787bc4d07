"""Schedules Python's garbage collection of reference cycles.

A full collection visits every list and dictionary, and blocks the interpreter meanwhile: 0.1 s for
each million. Large JSON bodies become as many lists, and while they are built Python would collect
each time their number has grown by a quarter: with four such bodies at once the event loop was
blocked for up to 0.7 s. None of these lists is garbage before its request is answered, so full
collections wait until no large request is in flight.

10,000 models on demand that are not loaded are a million objects, which a full collection visits
for 0.6 s. So what has survived a long one is exempt from the next ones, and so is what the start of
many models has made.

Collections of the two young generations free nearly all cycles. By default the first is collected
after 700 more objects were made than freed, so in every wave of some 30 requests that wait for a
batch: that took a twentieth of the time of small requests of 64 clients. `YOUNG` has room for such
a wave. In return a cycle, and all it refers to, may live six times as long; so no object of a
request should be part of a cycle.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Budget

LOOK_S: Final = 10.0
"""Seconds between two checks whether a full collection is due."""
DUE: Final = 100
"""Collections of the middle generation after which a full one is due: 800,000 objects have survived
these."""
DUE_IN_TIME: Final = 10
"""The same threshold when there was no full one for `QUIET_LOOKS`; Python's own number. Loads leave
few objects, but these hold a model's graph: 30 KB for each load of a small model."""
QUIET_LOOKS: Final = 6
"""Checks without a collection, one minute, after which `DUE_IN_TIME` applies."""
LARGE_WORK: Final = 32 << 20
"""Bytes held by requests, from which a collection waits for the end of these requests."""
MOST_LOOKS: Final = 30
"""Checks after which a collection waits no longer: 5 minutes, so that old cycles do not pile up."""
YOUNG: Final = 4000
"""Objects made and not freed that start a collection of the first generation, of some 0.1 ms."""
MIDDLE: Final = 0
"""Further collections of the first generation until the second is collected as well: with every
second one, after 8,000 objects. By default that is every twelfth, after 8,400."""
LONG_S: Final = 0.05
"""Seconds that a full collection takes before its survivors are exempt from later ones: half a
million objects."""
GROWN: Final = 1.1
"""Growth of the exempt objects after which they are visited once more, since cycles among them may
have become garbage: 20 MB where 10,000 models are idle."""
EXEMPT_S: Final = 3600.0
"""Seconds after which they are visited in any case: models that are removed leave garbage, too."""
_NEVER: Final = 1 << 30


def collect_on_request() -> None:
    """Switch off Python's own full collections, and make those of young generations rarer."""
    gc.set_threshold(YOUNG, MIDDLE, _NEVER)


class FullCollection:
    """Collects cycles of all ages, and exempts what survives if that takes long."""

    def __init__(
        self,
        spent: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spent = spent
        self._clock = clock
        self._exempt = 0
        self._visited = 0  # exempt objects when all were visited last
        self._due = clock() + EXEMPT_S

    def exempt_start(self) -> None:
        """Exempt all objects without a visit where the start has made many: few are garbage.

        To call once the server is ready, before requests come. A start with few models exempts
        nothing: their visit is short, and each of them may be replaced.
        """
        if gc.get_count()[2] < DUE_IN_TIME:
            return
        gc.freeze()
        self._exempt = self._visited = gc.get_freeze_count()
        self._due = self._clock() + EXEMPT_S

    def __call__(self) -> None:
        """Collect; blocks the interpreter for as long."""
        has_grown = self._exempt > GROWN * self._visited
        again = has_grown or (self._exempt > 0 and self._clock() >= self._due)
        if again:
            gc.unfreeze()
        began = self._spent()
        gc.collect()
        if not again and self._spent() - began < LONG_S:
            return
        # `gc.get_freeze_count` would visit all that is exempt: 60 ms of 300,000 objects.
        survivors = len(gc.get_objects())
        gc.freeze()
        self._exempt = survivors if again else self._exempt + survivors
        if again or not self._visited:
            self._visited = self._exempt
            self._due = self._clock() + EXEMPT_S


async def _pause() -> None:
    await asyncio.sleep(LOOK_S)


async def collect_garbage(
    budget: Budget = BUDGET,
    pause: Callable[[], Awaitable[object]] = _pause,
    since: Callable[[], int] = lambda: gc.get_count()[2],
    collect: Callable[[], object] | None = None,
) -> None:
    """Collect whenever it is due and no large request is in flight; runs until it is cancelled.

    Args:
        budget: counts the bytes that requests hold.
        pause: waits between two checks.
        since: counts collections of the middle generation since the last full one.
        collect: runs a full collection.
    """
    collect = collect or FullCollection()
    looks = quiet = 0
    while True:
        await pause()
        quiet += 1
        due = DUE if quiet < QUIET_LOOKS else DUE_IN_TIME
        looks = looks + 1 if since() >= due else 0
        if looks and (budget.held < LARGE_WORK or looks > MOST_LOOKS):
            collect()
            looks = quiet = 0
