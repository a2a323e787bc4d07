"""Repositories as the schedule of listings sees them, under the test's control."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from ie_serving.core.runtime.threads import NamedPools
from ie_serving.core.values.errors import StorageError
from ie_serving.models.listing.notices import WatchedDirectory
from ie_serving.models.listing.polled_model import List, ListingDue
from ie_serving.models.listing.schedule import MOST_THREADS, Polls
from ie_serving.models.repository.source import Listing
from tests.unit.models.stand_ins import AtOnce

NOTHING = Listing({}, moving=False)


class Repository:
    """A model of which each listing does what the test says, and is noted with its thread.

    Attributes:
        threads: of all listings, those in a round included.
        own_turns: how many listings were turns of its own.
        told: outcomes that the event loop has handed over.
        is_quiet: whether it may be looked at in a round.
        news: what the next look in a round finds; None: nothing.
    """

    def __init__(
        self,
        name: str = "m",
        interval_s: float | None = None,
        store: str = "file",
        during: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self.store = store
        self.interval_s = interval_s
        self.is_quiet = False
        self.news: Listing | None = None
        self.threads: list[int] = []
        self.own_turns = 0
        self.told: list[Listing | StorageError] = []
        self.changed = asyncio.Event()
        self._during = during

    def to_list(self) -> List:
        self.own_turns += 1
        return self._list

    def _list(self) -> Listing:
        self.threads.append(threading.get_ident())
        self._during()
        return NOTHING

    def watched(self) -> Collection[WatchedDirectory]:
        return ()

    def announce(self, after_s: float) -> bool:
        return True

    def look(self) -> Listing | None:
        if not self.is_quiet:
            raise ListingDue
        self._list()
        return self.news

    def next_poll_s(self) -> float | None:
        return self.interval_s

    def listed(self, listing: Listing) -> None:
        self.told.append(listing)
        self.changed.set()

    def not_listed(self, error: StorageError) -> None:
        self.told.append(error)
        self.changed.set()

    async def until_told(self, times: int) -> None:
        while len(self.told) < times:
            self.changed.clear()
            await self.changed.wait()


@contextmanager
def schedule() -> Iterator[Polls]:
    pools = NamedPools(MOST_THREADS, "list")
    try:
        yield Polls(pools.of)
    finally:
        pools.shutdown()


class Counting(AtOnce):
    """Counts what it is given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(call, *args, **named)
