"""When Python looks for cycles of objects that nobody refers to any more.

A full collection looks at every list and dictionary there is, and holds the interpreter meanwhile:
0.1 s for each million. The lists of large JSON bodies are as many, and while they are made Python
would collect whenever a quarter more has come: with four such bodies at once the event loop stood
still for up to 0.7 s. Nothing of theirs is garbage before they are answered, so full collections
wait until no large request is under way.

Two young generations free nearly all cycles. By default the first is looked at whenever 700 more
objects were made than freed, which is in every wave of some 30 requests that wait for a batch: that
took a twentieth of the time of small requests of 64 clients. `YOUNG` has room for such a wave. The
price is that a cycle, and what it holds, may live six times as long; so nothing of a request is to
be part of one.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, Budget

LOOK_S: Final = 10.0
"""Seconds between two looks at whether a collection is due."""
DUE: Final = 100
"""Collections of the middle generation from which a full one is due: 800,000 objects have come to
stay."""
DUE_IN_TIME: Final = 10
"""The same when there was none for `QUIET_LOOKS`; Python's own number. What loads and reloads leave
is little in number, but holds a model's graph: 30 KB for each load of a small model."""
QUIET_LOOKS: Final = 6
"""Looks without a collection, a minute, after which `DUE_IN_TIME` counts."""
LARGE_WORK: Final = 32 << 20
"""Bytes that requests hold, from which a collection waits for their end."""
MOST_LOOKS: Final = 30
"""Looks after which it waits no longer, 5 minutes, lest cycles that have become old pile up."""
YOUNG: Final = 4000
"""Objects made and not freed, from which the first generation is looked at, for some 0.1 ms."""
MIDDLE: Final = 0
"""Such looks, beside the one before, from which the second generation is looked at as well: at each
second one, after 8,000 objects. By default that is each twelfth, after 8,400."""
_NEVER: Final = 1 << 30


def collect_on_request() -> None:
    """Let Python collect the old generation no more by itself, and the young ones less often."""
    gc.set_threshold(YOUNG, MIDDLE, _NEVER)


async def _pause() -> None:
    await asyncio.sleep(LOOK_S)


async def collect_garbage(
    budget: Budget = BUDGET,
    pause: Callable[[], Awaitable[object]] = _pause,
    since: Callable[[], int] = lambda: gc.get_count()[2],
    collect: Callable[[], object] = gc.collect,
) -> None:
    """Collect whenever it is due and no large request is under way; runs until it is cancelled.

    Args:
        budget: counts what requests hold.
        pause: waits between two looks.
        since: counts collections of the middle generation since the last full one.
        collect: looks through all objects.
    """
    looks = quiet = 0
    while True:
        await pause()
        quiet += 1
        due = DUE if quiet < QUIET_LOOKS else DUE_IN_TIME
        looks = looks + 1 if since() >= due else 0
        if looks and (budget.held < LARGE_WORK or looks > MOST_LOOKS):
            collect()
            looks = quiet = 0
