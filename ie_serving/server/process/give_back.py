"""Returns freed memory to the kernel after large requests.

The worker keeps freed memory (`core/runtime/heaps.py`) for the next large request. When no large
request has come for a while, a thread makes glibc search its heaps and return free memory, which
takes a millisecond for each few megabytes. With a small budget, as in a small container, memory
that past requests have freed must not add to the memory of the next ones: there it is returned
while requests come.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Budget
from ie_serving.core.runtime.heaps import HEAPS, SMALL_BUDGET, resident_bytes

LOOK_S: Final = 10.0
"""Seconds between two checks of how much memory requests have taken."""
SOON_S: Final = 1.0
"""The same with a small budget. Under all hostile requests at once the private memory of a server
with a budget of 256 MB rose to 410 to 450 MB with checks every 10 s, to 360 to 370 MB with this."""
LARGE_WORK: Final = 32 << 20
"""Bytes that requests have taken since the last return, from which the next is worth its time."""
MOST_LOOKS: Final = 5
"""Checks after which memory is returned even if large requests keep coming. Memory freed by a burst
is then returned within a minute; the other requests fault theirs in anew, at 0.25 ms a MB."""

EXCESS: Final = 1.15
"""Memory is returned when resident memory exceeds that after the last return by this factor. Below,
the next large request would fault it in anew, which is a third of the time of a 4 MB request."""


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
    pause = pause or partial(asyncio.sleep, SOON_S if is_small else LOOK_S)
    given_back_at = before = budget.taken
    looks = least = 0
    while True:
        await pause()
        taken = budget.taken
        looks = looks + 1 if taken - given_back_at >= LARGE_WORK else 0
        if looks and (taken == before or looks > MOST_LOOKS or is_small):
            given_back_at, looks = taken, 0
            is_over = taken == before
            if is_small or not is_over or resident() > EXCESS * least:
                await asyncio.to_thread(trim)
                least = resident() if is_over else least
        before = taken
