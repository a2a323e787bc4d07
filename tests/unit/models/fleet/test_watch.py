"""A directory of models is believed to be gone when two listings, some time apart, lack it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from ie_serving.config.files.fleet_models import FleetModels
from ie_serving.config.files.followed_fleet import FollowedFleet
from ie_serving.engines.base import EngineOptions
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet import repository
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.models.fleet.watch import Fleet, RepositoryRules
from ie_serving.models.listing.schedule import Polls
from ie_serving.storage.base import Entry
from ie_serving.storage.directories import Directories, Listed
from tests.unit.models.stand_ins import AtOnce, Clock

SETTINGS = Entry("m/model.json", 2, "tag", 1.0)
BESIDE = {"other": None}


class Shelf:
    """Directories that the test puts up and takes down."""

    url = "/models"

    def __init__(self) -> None:
        self.there: dict[str, Entry | None] = {"m": SETTINGS, **BESIDE}

    def expect(self, *, is_idle: bool = False) -> bool:
        return True

    def list(self) -> Listed:
        return dict(self.there)

    def read(self, entry: Entry) -> bytes:
        raise AssertionError(entry)


class Watched:
    """A repository with a listing whenever the test wants one."""

    def __init__(self, poll_wait_s: float = 60.0) -> None:
        self.shelf = Shelf()
        self.news = 0
        threads: Executor = AtOnce(1)
        self.polls = Polls(lambda store: threads)
        self.clock = Clock()
        rules = RepositoryRules(poll_wait_s, count=lambda base: 2, clock=self.clock)
        self.fleet = Fleet(self._opened, self.polls, rules)
        self.fleet.on_news = self._note
        self.fleet.follow([ModelRepository(base_path=self.shelf.url)])

    def _opened(self, base_path: str) -> tuple[Directories, str]:
        return self.shelf, "file"

    def _note(self) -> None:
        self.news += 1

    async def poll(self, after_s: float = 1.0) -> Listed:
        self.clock.now += after_s
        (watched,) = self.fleet.watched.values()
        await self.polls.once(watched)
        return self.listed

    @property
    def listed(self) -> Listed:
        (shelf,) = self.fleet.shelves()
        return shelf.listed


async def test_a_directory_that_is_back_at_the_next_listing_was_never_gone() -> None:
    watched = Watched()
    before = await watched.poll()
    for lacking in (BESIDE, {"m": None, **BESIDE}):  # gone, or listed without its settings
        watched.shelf.there = lacking
        assert await watched.poll() == before
        watched.shelf.there = dict(before)
        assert await watched.poll() == before
    assert watched.news == 1


async def test_a_directory_is_gone_after_two_listings_and_the_second_comes_soon() -> None:
    watched = Watched()
    await watched.poll()
    (repository,) = watched.fleet.watched.values()
    assert (repository.next_poll_s(), repository.is_quiet) == (60.0, True)
    watched.shelf.there = dict(BESIDE)
    await watched.poll()
    assert (repository.next_poll_s(), repository.is_quiet) == (1.0, False)
    assert await watched.poll() == BESIDE
    assert (repository.next_poll_s(), repository.is_quiet) == (60.0, True)
    assert watched.news == 2


async def test_listings_that_follow_at_once_do_not_make_a_directory_gone() -> None:
    """As where the kernel tells of other changes while `mv m .m.old; mv .m.new m` is under way."""
    watched = Watched()
    before = await watched.poll()
    watched.shelf.there = dict(BESIDE)
    for _ in range(5):
        assert await watched.poll(after_s=0.05) == before
    watched.shelf.there = dict(before)
    assert await watched.poll(after_s=0.05) == before
    assert watched.news == 1


async def test_a_directory_is_gone_after_two_listings_without_an_interval_too() -> None:
    """As by requests alone: `--file_system_poll_wait_seconds 0`."""
    watched = Watched(poll_wait_s=0.0)
    before = await watched.poll()
    watched.shelf.there = dict(BESIDE)
    assert await watched.poll() == before
    assert await watched.poll() == BESIDE


async def test_a_directory_beside_a_missing_one_is_news_at_once() -> None:
    watched = Watched()
    await watched.poll()
    watched.shelf.there = {**BESIDE, "new": None}
    assert await watched.poll() == {"m": SETTINGS, **BESIDE, "new": None}
    watched.shelf.there = {"new": None}
    assert await watched.poll() == {**BESIDE, "new": None}
    assert await watched.poll() == {"new": None}


async def test_a_listing_that_a_client_asks_for_is_the_truth() -> None:
    watched = Watched()
    await watched.fleet.listed()
    watched.shelf.there = dict(BESIDE)
    assert not await watched.fleet.listed(anew=True)
    assert watched.listed == BESIDE


class ReadWithPauses(FleetModels):
    """Reads the models once `go_on` is set."""

    def __init__(self) -> None:
        super().__init__(EngineOptions(), lambda config: "")
        self.begun, self.go_on = threading.Event(), threading.Event()

    def of(self, shelves: Sequence[repository.Shelf]) -> list[ModelConfig]:
        self.begun.set()
        assert self.go_on.wait(10.0)
        return super().of(shelves)


async def test_a_first_listing_that_comes_while_models_are_read_takes_none_away() -> None:
    """As in a worker that replaces another one, which knows the models and no listing."""
    watched, read = Watched(), ReadWithPauses()
    watched.shelf.there = dict(BESIDE)
    desired = [ModelConfig(name="other", base_path="/models/other", repository="/models")]
    changes: list[list[str]] = []

    async def change(
        edit: Callable[[Sequence[ModelConfig]], Sequence[ModelConfig]], *, all_or_nothing: bool
    ) -> None:
        changes.append([config.name for config in edit(desired)])

    followed = FollowedFleet(
        watched.fleet, read, lambda: desired, change, is_lenient=False, is_explicit=False
    )
    followed.begin()
    assert await asyncio.to_thread(read.begun.wait, 10.0)
    await watched.poll()
    read.go_on.set()
    while followed.tasks:
        await asyncio.wait(followed.tasks, timeout=10.0)
    assert [] not in changes
