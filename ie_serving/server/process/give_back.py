"""Gives memory back to the kernel after large requests.

The worker keeps what is freed (`tuning.py`), so that the next large request finds it. When no
large request has come for a while, glibc is asked to give it back: it looks through its heaps,
which takes a millisecond for each few megabytes, in a thread.
"""

import asyncio
import ctypes
from collections.abc import Awaitable, Callable
from typing import Final

from ie_serving.core.budget import BUDGET, Budget

LOOK_S: Final = 10.0
"""Seconds between two looks at what requests have taken."""
LARGE_WORK: Final = 32 << 20
"""Bytes that requests have taken since memory was given back last. Below, little is to be won."""
MOST_LOOKS: Final = 5
"""Looks after which memory is given back although large requests go on to come. What a burst has
left is then given back within a minute; what the others need is faulted in anew, 0.25 ms a MB."""


async def _pause() -> None:
    await asyncio.sleep(LOOK_S)


async def give_back(
    budget: Budget = BUDGET,
    pause: Callable[[], Awaitable[object]] = _pause,
    trim: Callable[[], object] | None = None,
) -> None:
    """Give memory back whenever large requests have ended; runs until it is cancelled.

    Args:
        budget: counts what requests take.
        pause: waits between two looks.
        trim: gives memory back; None for glibc's way.
    """
    trim = trim or trimmer()
    given_back_at = before = budget.taken
    looks = 0
    while True:
        await pause()
        taken = budget.taken
        looks = looks + 1 if taken - given_back_at >= LARGE_WORK else 0
        if looks and (taken == before or looks > MOST_LOOKS):
            await asyncio.to_thread(trim)
            given_back_at, looks = taken, 0
        before = taken


def trimmer() -> Callable[[], object]:
    """Give what gives memory back; on another C library than glibc it does nothing."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return lambda: None
    return lambda: malloc_trim(0)
