"""Gives memory back to the kernel after large requests.

The worker keeps what is freed (`core/runtime/heaps.py`), so that the next large request finds it.
When no large request has come for a while, glibc is asked to give it back: it looks through its
heaps, which takes a millisecond for each few megabytes, in a thread. Where requests may hold
little, as in a small container, what the last ones have left must not lie beside what the next
ones take: there it is given back while they come.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Budget
from ie_serving.core.runtime.heaps import HEAPS, SMALL_BUDGET, resident_bytes

LOOK_S: Final = 10.0
"""Seconds between two looks at what requests have taken."""
SOON_S: Final = 1.0
"""The same with a small budget. Under all hostile requests at once the private memory of a server
with a budget of 256 MB rose to 410 to 450 MB with looks every 10 s, and to 360 to 370 with this."""
LARGE_WORK: Final = 32 << 20
"""Bytes that requests have taken since memory was given back last. Below, little is to be won."""
MOST_LOOKS: Final = 5
"""Looks after which memory is given back although large requests go on to come. What a burst has
left is then given back within a minute; what the others need is faulted in anew, 0.25 ms a MB."""

EXCESS: Final = 1.15
"""Factor of what was resident after memory was given back last, up to which it stays as it is: the
next large request would only fault it in anew, a third of the time of a 4 MB request."""


async def give_back(
    budget: Budget = BUDGET,
    pause: Callable[[], Awaitable[object]] | None = None,
    trim: Callable[[], object] = HEAPS.give_back,
    resident: Callable[[], int] = resident_bytes,
) -> None:
    """Give memory back whenever large requests have ended; runs until it is cancelled.

    Args:
        budget: counts what requests take.
        pause: waits between two looks; None for as long as fits the budget.
        trim: gives memory back.
        resident: tells what the process has in memory.
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
