"""Directories that are watched: which changes are told, and when none can be."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from ie_serving.models.listing import notices, schedule
from ie_serving.models.listing.notices import NoticeCover, Notices, WatchedDirectory
from ie_serving.models.listing.schedule import Polls
from tests.unit.models.repositories import Counting, Repository
from tests.unit.models.stand_ins import settle

NEVER_S = 3600.0


class Model(Repository):
    """A quiet model in directories."""

    def __init__(self, *paths: WatchedDirectory) -> None:
        super().__init__("m", NEVER_S)
        self.is_quiet = True
        self.paths = paths

    def watched(self) -> Collection[WatchedDirectory]:
        return self.paths


class Told:
    """Notices, and the models whose changes they told."""

    def __init__(self) -> None:
        self.notices = Notices(self._note)
        self.models: list[object] = []
        self._changed = asyncio.Event()

    def _note(self, model: object) -> None:
        self.models.append(model)
        self._changed.set()

    async def next(self) -> object:
        await asyncio.wait_for(self._changed.wait(), 10)
        self._changed.clear()
        return self.models.pop()


@pytest.fixture(autouse=True)
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever file system the tests' directory lies on, no other machine writes to it."""
    kind = notices.mounted()[tmp_path.stat().st_dev]
    monkeypatch.setattr(notices, "FILE_SYSTEMS", frozenset({kind}))


async def test_a_change_in_a_directory_is_told_once(tmp_path: Path) -> None:
    told, model = Told(), Model(WatchedDirectory(str(tmp_path)))
    assert told.notices.cover(model) is NoticeCover.NEW
    assert told.notices.cover(model) is NoticeCover.YES
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    assert await told.next() is model
    assert told.models == []
    (tmp_path / "file").write_text("x")
    assert await told.next() is model
    (tmp_path / "2").rename(tmp_path / "3")
    assert await told.next() is model
    (tmp_path / "3").rmdir()
    assert await told.next() is model


async def test_names_that_do_not_matter_are_not_told(tmp_path: Path) -> None:
    told, model, other = Told(), Model(WatchedDirectory(str(tmp_path), {"model.json"})), Model()
    other.paths = (WatchedDirectory(str(tmp_path)),)
    told.notices.cover(model)
    told.notices.cover(other)
    (tmp_path / "1").mkdir()
    assert await told.next() is other
    told.notices.drop(other)
    (tmp_path / "2").mkdir()
    (tmp_path / "model.json").write_text("{}")
    assert await told.next() is model
    assert told.models == []


async def test_a_directory_that_goes_is_told_and_watched_no_more(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    told, model = Told(), Model(WatchedDirectory(str(base)))
    told.notices.cover(model)
    base.rename(tmp_path / "elsewhere")
    assert await told.next() is model
    assert told.notices.cover(model) is NoticeCover.NO
    base.mkdir()
    assert told.notices.cover(model) is NoticeCover.NEW
    base.rmdir()
    assert await told.next() is model


async def test_a_path_that_may_change_unseen_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, link, file = tmp_path / "base", tmp_path / "link", tmp_path / "file"
    base.mkdir()
    link.symlink_to(base)
    file.write_text("")
    told = Told()
    for place in (link, file, tmp_path / "none"):
        assert told.notices.cover(Model(WatchedDirectory(str(place)))) is NoticeCover.NO
    assert told.notices.cover(Model()) is NoticeCover.NO
    monkeypatch.setattr(notices, "FILE_SYSTEMS", frozenset())
    assert told.notices.cover(Model(WatchedDirectory(str(base)))) is NoticeCover.NO


async def test_a_watched_model_is_polled_rarely_and_at_once_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "WATCHED_FROM", 1)
    model = Model(WatchedDirectory(str(tmp_path)))
    polls = Polls(lambda store: Counting())
    polls.follow(model)
    await settle()
    assert model.own_turns == 1, "once more, after it is watched"
    (tmp_path / "1").mkdir()
    while model.own_turns < 2:
        model.changed.clear()
        await asyncio.wait_for(model.changed.wait(), 10)
    polls.leave(model)


async def test_models_that_came_before_there_were_many_are_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "WATCHED_FROM", 3)
    polls = Polls(lambda store: Counting())
    models = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        models.append(Model(WatchedDirectory(str(tmp_path / name))))
        polls.follow(models[-1])
        await settle()
        assert [each.own_turns for each in models] == [len(models) // 3] * len(models)
    for model in models:
        polls.leave(model)
