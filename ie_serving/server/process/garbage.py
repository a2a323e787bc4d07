"""Memory upkeep of a worker: Python's garbage collection, freed memory given back to the kernel.

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

`give_back` returns freed memory to the kernel after large requests. The worker keeps freed memory
(`core/runtime/heaps.py`) for the next large request. When no large request has come for a while, a
thread makes glibc search its heaps and return free memory, which takes a millisecond for each few
megabytes. With a small budget, as in a small container, memory that past requests have freed must
not add to the memory of the next ones: there it is returned while requests come.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Budget
from ie_serving.core.runtime.heaps import HEAPS, SMALL_BUDGET, resident_bytes

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
LONG_S: Final = 0.25
"""Seconds that a full collection takes before its survivors are exempt from later ones: two million
objects. Where models come and go, 0.1 s visits those in memory; they are soon freed, so exempting
them would only bring nearer the visit of all that is exempt, which took 1.4 s of 10,000 models."""
GROWN: Final = 2.0
"""Growth of the exempt objects after which they are visited once more, since cycles among them may
have become garbage. With 10,000 idle models the growth is 200 MB, few of them garbage, and the
visit holds all requests for 0.6 to 1.4 s."""
EXEMPT_S: Final = 3600.0
"""Seconds after which they are visited in any case: models that are removed leave garbage, too."""
_NEVER: Final = 1 << 30
"""Collections of the middle generation before Python would begin a full one by itself. A process
does not live to see so many."""

HEAP_LOOK_S: Final = 10.0
"""Seconds between two checks of how much memory requests have taken."""
SOON_S: Final = 1.0
"""The same with a small budget. Under all hostile requests at once the private memory of a server
with a budget of 256 MB rose to 410 to 450 MB with checks every 10 s, to 360 to 370 MB with this."""
WORTH_RETURNING: Final = 32 << 20
"""Bytes that requests have taken since the last return, from which the next is worth its time."""
MOST_HEAP_LOOKS: Final = 5
"""Checks after which memory is returned even if large requests keep coming. Memory freed by a burst
is then returned within a minute; the other requests fault theirs in anew, at 0.25 ms a MB."""
EXCESS: Final = 1.15
"""Memory is returned when resident memory exceeds that after the last return by this factor. Below,
the next large request would fault it in anew, which is a third of the time of a 4 MB request."""


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


async def give_back(
    budget: Budget = BUDGET,
    pause: Callable[[], Awaitable[object]] | None = None,
    trim: Callable[[], object] = HEAPS.give_back,
    resident: Callable[[], int] = resident_bytes,
) -> None:
    """Return memory whenever large requests have ended; runs until it is cancelled.

    Args:
        budget: counts the bytes that requests take.
        pause: waits between two checks; None: as long as suits the budget.
        trim: returns memory to the kernel.
        resident: measures the resident memory of the process.
    """
    is_small = budget.limit <= SMALL_BUDGET
    pause = pause or partial(asyncio.sleep, SOON_S if is_small else HEAP_LOOK_S)
    given_back_at = before = budget.taken
    looks = least = 0
    while True:
        await pause()
        taken = budget.taken
        looks = looks + 1 if taken - given_back_at >= WORTH_RETURNING else 0
        if looks and (taken == before or looks > MOST_HEAP_LOOKS or is_small):
            given_back_at, looks = taken, 0
            is_over = taken == before
            if is_small or not is_over or resident() > EXCESS * least:
                await asyncio.to_thread(trim)
                least = resident() if is_over else least
        before = taken
