"""Watches repositories of models: lists each with the models in it, and tells of changes.

A repository is listed in the round of its store's idle models (`models/listing/polled_model.py`),
so that in a bucket one listing serves both. A listing that fails changes nothing, and neither does
an empty one after a full one: that is taken for a volume that is not mounted. A directory counts as
gone once all listings of at least `GONE_S` have lacked it, since a replacement by renames takes it
away for a moment.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import Emptied, StorageError
from ie_serving.core.values.hints import Hint
from ie_serving.models.admin.reload_requests import PollRequests
from ie_serving.models.fleet.repository import FILES, ModelRepository, Shelf
from ie_serving.models.listing.notices import WatchedDirectory
from ie_serving.models.listing.polled_model import List
from ie_serving.models.listing.schedule import Polls
from ie_serving.models.repository.relisting import ListingTrouble
from ie_serving.models.stream_rules import FIRST_BACK_OFF_S, LOCAL, LONGEST_PAUSE_S, SOON_S
from ie_serving.storage.directories import Directories, Listed

GONE_S: Final = 0.5
"""Seconds for which listings have to lack a directory before its model goes, or half a poll
interval where that is less. A count of listings would not do: any change beside it causes one."""


class RepositoryRules(NamedTuple):
    """How repositories are watched.

    Attributes:
        poll_wait_s: seconds between two listings; 0 lists once.
        unload_when_empty: believe a listing that is empty after one that was not.
        leads: tells whether this worker polls; otherwise another one does.
        count: gives how many models of a repository, by its base path, are desired now.
        clock: seconds that only grow.
    """

    poll_wait_s: float
    unload_when_empty: bool = False
    leads: Callable[[], bool] = lambda: True
    count: Callable[[str], int] = lambda base_path: 0
    clock: Callable[[], float] = time.monotonic


class WatchedRepository:
    """One repository. See `PolledModel`; lives on one event loop.

    Args of the constructor:
        repository: its place and patterns.
        directories: lists it.
        store: name of its store, for the schedule.
        rules: rules of the repository.
        on_news: called when the listing has changed.

    Attributes:
        listed_last: result of the last listing; None before the first.
        missing: entries that listings have lacked for less than `GONE_S`, and since when:
            directories or files of settings.
        is_applied: whether the models follow it; otherwise the next listing counts as news.
    """

    def __init__(
        self,
        repository: ModelRepository,
        directories: Directories,
        store: str,
        rules: RepositoryRules,
        on_news: Callable[[], None],
    ) -> None:
        self.name = f"repository {directories.url}"
        self.store = store
        self.repository = repository
        self.directories = directories
        self.listed_last: Listed | None = None
        self.missing: Mapping[str, float] = {}
        self._rules = rules
        self._on_news = on_news
        self.is_applied = True
        # The directory is told under a name that no model has.
        self._trouble = ListingTrouble(
            "*", directories.url, chance=random.random, clock=time.monotonic
        )

    def shelf(self) -> Shelf:
        """Give what was found last."""
        return Shelf(self.repository, self.directories, self.listed_last or {})

    def next_poll_s(self) -> float | None:
        """See `PolledModel`."""
        interval_s = self._rules.poll_wait_s
        if self.missing:
            interval_s = min(interval_s, SOON_S)
        return (self._trouble.retry_s or interval_s) if interval_s else None

    def to_list(self) -> List:
        """See `PolledModel`."""
        self.directories.expect()
        return self._list

    @property
    def is_quiet(self) -> bool:
        """See `PolledModel`."""
        return self._trouble.error is None and not self.missing

    def watched(self) -> Collection[WatchedDirectory]:
        """See `PolledModel`: the directories, and in each the files of settings."""
        if self.store != LOCAL or self.listed_last is None:
            return ()
        base = self.directories.url
        below = [WatchedDirectory(f"{base}/{name}", FILES) for name in self.listed_last]
        return (WatchedDirectory(base), *below)

    def announce(self, after_s: float) -> bool:
        """See `PolledModel`."""
        return self._rules.leads() and self.directories.expect(is_idle=True)

    def look(self) -> Listed | None:
        """See `PolledModel`."""
        listed = self._list()
        return listed if self._is_news(listed) else None

    def listed(self, listing: Listed) -> None:
        """See `PolledModel`."""
        self._trouble.ended()
        listing = self._with_missing(listing)
        if self._is_news(listing):
            self.listed_last = listing
            # A worker keeps unapplied news until it leads.
            self.is_applied = self._rules.leads()
            if self.is_applied:
                self._on_news()

    def _with_missing(self, listing: Listed) -> Listed:
        """Keep entries that are missing for the first time, or for less than GONE_S."""
        before, now = self.listed_last or {}, self._rules.clock()
        lacks = {n: f for n, f in before.items() if n not in listing or (f and not listing[n])}
        since, seen = {name: self.missing.get(name, now) for name in lacks}, self.missing
        least_s = min(GONE_S, self._rules.poll_wait_s / 2)
        self.missing = {n: at for n, at in since.items() if n not in seen or now - at < least_s}
        return {**listing, **{name: lacks[name] for name in self.missing}}

    def _is_news(self, listing: Listed) -> bool:
        return not self.is_applied or listing != self.listed_last

    def not_listed(self, error: StorageError) -> None:
        """See `PolledModel`."""
        longest_s = max(self._rules.poll_wait_s, LONGEST_PAUSE_S)
        first_s = self._rules.poll_wait_s or FIRST_BACK_OFF_S
        is_new = self.listed_last is None
        self._trouble.failed(error, Backoff(first_s=first_s, longest_s=longest_s), is_new=is_new)

    def _list(self) -> Listed:
        found = self.repository.chosen(self.directories)
        if found or self._rules.unload_when_empty:
            return found
        if before := self._rules.count(self.repository.base_path):
            raise Emptied(
                f"{self.directories.url}: no model is left of {before}, which is taken for a volume"
                " that is not mounted: mount it, or remove the repository from the configuration",
                Hint(", or set {server.unload_when_empty}"),
            )
        return found


OpenDirectories = Callable[[str], tuple[Directories, str]]
"""Gives what lists a repository, and the name of its store. Raises ConfigError."""


class Fleet:
    """All repositories of a server. Lives on one event loop.

    Args of the constructor:
        open_directories: function that opens a repository, an `OpenDirectories`.
        polls: the schedule of listings.
        rules: rules of the repositories.

    Attributes:
        on_news: called when the listing of a repository has changed.
        watched: what follows each repository.
    """

    def __init__(
        self, open_directories: OpenDirectories, polls: Polls, rules: RepositoryRules
    ) -> None:
        self._open = open_directories
        self._polls = polls
        self._rules = rules
        self.watched: dict[ModelRepository, WatchedRepository] = {}
        self._requests = PollRequests(self._list)
        self.on_news: Callable[[], None] = lambda: None

    def follow(self, repositories: Sequence[ModelRepository]) -> None:
        """Watch these from now on, and no others."""
        for repository in self.watched.keys() - set(repositories):
            self._polls.leave(self.watched.pop(repository))
        for repository in repositories:
            if repository not in self.watched:
                watched = self._opened_repository(repository)
                self.watched[repository] = watched
                self._polls.follow(watched)
        # Repositories keep the order of the configuration, which decides between equal names.
        self.watched = {each: self.watched[each] for each in repositories}

    def close(self) -> None:
        """Watch and list nothing any more."""
        self.follow(())
        self._requests.close()

    async def listed(self, *, anew: bool = False) -> Mapping[ModelRepository, StorageError]:
        """List those that were not listed yet; give the trouble of each that cannot be listed.

        Args:
            anew: list all; a request that comes during a listing waits for the next one.
        """
        wanted = [r for r, each in self.watched.items() if anew or each.listed_last is None]
        found = await asyncio.gather(
            *(self._requests.once(each) for each in wanted), return_exceptions=True
        )
        trouble = {}
        for repository, error in zip(wanted, found, strict=True):
            if isinstance(error, StorageError):
                trouble[repository] = error
            elif error is not None:
                raise error
        return trouble

    async def list_once(self, base_path: str) -> None:
        """List the repositories with that base path. Raises: StorageError."""
        found = [each for each in self.watched.values() if each.repository.base_path == base_path]
        await asyncio.gather(*map(self._polls.once, found))

    def shelves(self) -> Sequence[Shelf]:
        """Give all repositories as they were listed last; those that never were are left out."""
        watched = [each for each in self.watched.values() if each.listed_last is not None]
        return [each.shelf() for each in watched]

    def unlisted(self) -> Collection[ModelRepository]:
        """Give the repositories that were never listed."""
        return {r for r, each in self.watched.items() if each.listed_last is None}

    def not_applied(self) -> None:
        """Take the next listing of each for news: the last one could not be applied."""
        for watched in self.watched.values():
            watched.is_applied = False

    async def _list(self, repository: ModelRepository) -> None:
        watched = self.watched.get(repository)
        if watched is None:  # no longer followed
            return
        await self._polls.once(watched)
        if watched.missing:
            watched.missing = dict.fromkeys(watched.missing, -math.inf)
            await self._polls.once(watched)

    def _opened_repository(self, repository: ModelRepository) -> WatchedRepository:
        directories, store = self._open(repository.base_path)
        return WatchedRepository(repository, directories, store, self._rules, self._note)

    def _note(self) -> None:
        self.on_news()
