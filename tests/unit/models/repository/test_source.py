"""From what storage lists to versions that can be loaded."""

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import Missing, NotThereYet
from ie_serving.models.repository.incomplete_versions import LONGEST_PAUSE_S
from ie_serving.models.repository.source import MOST_MISSED, VersionSource
from ie_serving.models.repository.version_policy import Latest, Specific
from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.base import Entry
from tests.stand_in_engine import FILE, StandInEngine

OLD = 1_000_000.0
NOW = 2_000_000.0
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a version directory whose files are as old as asked for."""

    def write(directory: str, *, modified: float = OLD, name: str = FILE, value: int = 1) -> Path:
        path = tmp_path / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"value": value}))
        os.utime(path, (modified, modified))
        return path

    return write


class Counting(LocalStorage):
    """Remembers the directories that were listed."""

    def __init__(self, base: str) -> None:
        super().__init__(base)
        self.path = Path(base)
        self.listed: list[str] = []

    def list(self, directory: str) -> Iterator[Entry]:
        self.listed.append(directory)
        return super().list(directory)


def source(base: Path, **options: Any) -> VersionSource:
    storage = LocalStorage(str(base))
    return VersionSource(storage, StandInEngine(), rest_s=1.0, clock=lambda: NOW, **options)


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    return Counting(str(tmp_path))


def test_numeric_directories_are_versions_and_nothing_else(tmp_path: Path, write: Write) -> None:
    for directory in ("1", "007", "abc", "-3", "1.5", "9" * 20, "٣"):
        write(directory)
    (tmp_path / "8").write_text("a file named as a number")
    assert set(source(tmp_path).poll().candidates) == {1, 7}


def test_of_two_names_for_one_number_the_last_is_used(tmp_path: Path, write: Write) -> None:
    write("01")
    write("1")
    assert source(tmp_path).poll().candidates[1].directory == "1"


def test_an_incomplete_version_beside_a_complete_one_is_passed_over_with_one_line(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ie_serving")
    write("2")
    write("3", name="half.tmp")
    watched = source(tmp_path)
    for _ in range(3):
        assert set(watched.poll().candidates) == {2}
    assert caplog.text.count("engine.json is missing") == 1


def test_where_none_is_complete_a_version_at_rest_is_offered_with_what_it_lacks(
    tmp_path: Path, write: Write
) -> None:
    """However old its files are: tools that copy may keep their age."""
    write("3", name="half.tmp")
    (tmp_path / "4").mkdir()
    watched = source(tmp_path)
    first = watched.poll(Latest().aspired)
    assert (dict(first.candidates), first.moving) == ({}, True)
    second = watched.poll(Latest().aspired)
    assert (second.moving, second.offered) == (False, {4})
    assert {v: c.fault for v, c in second.candidates.items()} == {4: "engine.json is missing"}
    write("4")
    third = watched.poll(Latest().aspired, again=[4])
    assert {v: c.fault for v, c in third.candidates.items()} == {4: ""}


def test_a_version_being_written_is_offered_once_it_is_at_rest(
    tmp_path: Path, write: Write
) -> None:
    watched = source(tmp_path)
    write("3", modified=NOW)
    first = watched.poll()
    assert (dict(first.candidates), first.moving) == ({}, True)
    write("3", modified=NOW, value=22)
    assert not watched.poll().candidates
    assert set(watched.poll().candidates) == {3}


def test_notes_of_a_directory_go_with_it(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """Or a version a minute would be noted for ever. What comes back is looked at as if new."""
    caplog.set_level("INFO", "ie_serving")
    watched = source(tmp_path)
    write("1")
    for again in (1, 2):
        write("3", modified=NOW)
        write("tmp")
        assert watched.poll().moving
        assert caplog.text.count("its name is not a number") == again
        assert set(watched.poll().candidates) == {1, 3}
        shutil.rmtree(tmp_path / "3")
        shutil.rmtree(tmp_path / "tmp")
        assert set(watched.poll().candidates) == {1}


def test_a_marker_file_makes_the_end_of_an_upload_explicit(tmp_path: Path, write: Write) -> None:
    watched = source(tmp_path, ready_marker=".ready")
    write("3")
    for _ in range(3):
        waiting = watched.poll()
        assert (dict(waiting.candidates), waiting.moving) == ({}, False)
    write("3", name=".ready")
    assert set(watched.poll().candidates) == {3}


def test_a_failed_version_is_looked_at_again_and_its_new_content_noticed(
    tmp_path: Path, write: Write
) -> None:
    watched = source(tmp_path)
    write("3")
    before = watched.poll().candidates[3]
    write("3", value=2, modified=NOW)
    moving = watched.poll(again=[3])
    assert moving.candidates[3].fingerprint == before.fingerprint
    assert (moving.candidates[3].at_rest, moving.moving) == (False, True)
    after = watched.poll(again=[3]).candidates[3]
    assert after.at_rest
    assert after.fingerprint != before.fingerprint


def test_a_known_version_stays_known_while_its_files_are_replaced(
    tmp_path: Path, write: Write
) -> None:
    watched = source(tmp_path)
    path = write("3")
    watched.poll()
    path.unlink()
    assert not watched.poll(again=[3]).candidates[3].at_rest
    damaged = watched.poll().candidates[3]
    assert (damaged.at_rest, damaged.fault) == (True, f"{FILE} is missing")
    write("3")
    mended = watched.poll(again=[3]).candidates[3]
    assert (mended.at_rest, mended.fault) == (True, "")


def test_a_version_vanishes_with_its_directory(tmp_path: Path, write: Write) -> None:
    watched = source(tmp_path)
    path = write("3")
    write("4")
    assert set(watched.poll().candidates) == {3, 4}
    path.unlink()
    path.parent.rmdir()
    assert set(watched.poll().candidates) == {4}


def test_the_last_version_vanishes_only_when_that_is_asked_for(
    tmp_path: Path, write: Write
) -> None:
    path = write("3")
    doubtful, believing = source(tmp_path), source(tmp_path, unload_when_empty=True)
    for watched in (doubtful, believing):
        assert set(watched.poll().candidates) == {3}
    path.unlink()
    path.parent.rmdir()
    assert not believing.poll().candidates
    with pytest.raises(NotThereYet, match="no version is left of 1"):
        doubtful.poll()


def test_the_files_of_versions_that_the_policy_does_not_want_are_not_listed(
    counting: Counting, write: Write
) -> None:
    for version in range(1, 50):
        write(str(version))
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: NOW)
    found = watched.poll(Latest(2).aspired)
    assert (set(found.candidates), len(found.offered)) == ({48, 49}, 49)
    assert sorted(counting.listed) == ["48", "49"]
    watched.poll(Latest(2).aspired)
    assert len(counting.listed) == 2
    assert set(watched.poll(Specific(frozenset({3})).aspired).candidates) == {3, 48, 49}


def test_a_version_that_is_incomplete_makes_room_for_the_next_one(
    counting: Counting, write: Write
) -> None:
    write("7")
    write("8", name="half.tmp")
    write("9", name="half.tmp")
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: NOW)
    found = watched.poll(Latest().aspired)
    assert (set(found.candidates), found.offered) == ({7}, {7})
    assert counting.listed == ["9", "8", "7"]


def test_a_poll_looks_at_few_incomplete_versions_and_the_next_ones_at_the_others(
    counting: Counting, write: Write
) -> None:
    write("7")
    for version in range(100, 200):
        write(f"{version}", name="half.tmp")
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: NOW)
    looks = []
    while not (listing := watched.poll(Latest().aspired)).candidates:
        looks.append(len(counting.listed))
        counting.listed.clear()
        assert listing.offered & {7, *range(100, 192)}, "what is left is wanted, and not known"
    assert max(looks) <= MOST_MISSED
    assert set(listing.candidates) == {7}
    assert watched.poll(Latest().aspired) is listing


def test_a_thousand_directories_that_are_no_versions_cost_nothing_but_their_names(
    counting: Counting, write: Write
) -> None:
    write("1")
    for number in range(1100):
        (counting.path / f"run-{number}").mkdir()
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: NOW)
    for _ in range(3):
        assert set(watched.poll(Latest().aspired).candidates) == {1}
    assert counting.listed == ["1"]


def test_directories_without_a_model_are_looked_at_less_and_less(
    counting: Counting, write: Write
) -> None:
    """And however many there are, a poll lists a few of them."""
    write("1")
    for version in range(2, 102):
        write(str(version), name="notes.txt")
    now = [NOW]
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: now[0])

    def listed_at_a_poll() -> int:
        counting.listed.clear()
        assert set(watched.poll(Latest().aspired).candidates) == {1}
        now[0] += 1.0
        return len(counting.listed)

    while not watched.poll(Latest().aspired).candidates:
        pass
    listed_at_a_poll()
    assert max(listed_at_a_poll() for _ in range(200)) <= 2
    write("200", name="notes.txt")
    listed_at_a_poll()
    write("200", name="more.txt")
    listed_at_a_poll()
    assert "200" in counting.listed, "what has changed is looked at before what lies there"
    for version in (*range(3, 102), 200):
        shutil.rmtree(counting.path / str(version))
    assert sum(listed_at_a_poll() for _ in range(100)) <= 10
    write("2")
    now[0] += LONGEST_PAUSE_S
    assert 2 in watched.poll(Latest().aspired).candidates


def test_each_incomplete_directory_has_its_turn(counting: Counting, write: Write) -> None:
    """Whichever of a hundred is completed in the end, also the one that has not changed longest."""
    write("1")
    for version in range(2, 102):
        write(str(version), name="notes.txt")
    now = [NOW]
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: now[0])

    def found(version: int) -> bool:
        now[0] += 1.0
        return version in watched.poll(Latest().aspired).candidates

    for _ in range(50):
        found(1)
    for version in (101, 2, 50):
        write(str(version))
        assert any(found(version) for _ in range(101))
        shutil.rmtree(counting.path / str(version))


def test_a_clock_that_is_set_back_keeps_no_upload_waiting(counting: Counting, write: Write) -> None:
    write("1")
    write("2", name="notes.txt")
    now = [NOW]
    watched = VersionSource(counting, StandInEngine(), rest_s=1.0, clock=lambda: now[0])
    for _ in range(20):
        watched.poll(Latest().aspired)
        now[0] += 1.0
    now[0] -= 3600.0
    write("2")
    assert 2 in watched.poll(Latest().aspired).candidates


class Numbers:
    """A store of ten thousand directories, of which one is a version; the others are empty."""

    url = "numbers"

    def __init__(self) -> None:
        self.names = [str(number) for number in range(1, 10_001)]
        self.listed = 0

    def directories(self) -> list[str]:
        return self.names

    def list(self, directory: str) -> Iterator[Entry]:
        self.listed += 1
        if directory == "9900":
            yield Entry(f"{directory}/{FILE}", 2, "tag", OLD)


def test_ten_thousand_directories_cost_a_poll_next_to_nothing() -> None:
    """Neither listings nor a call for each of them, though a hundred above the version are left."""
    store, now = Numbers(), [NOW]
    watched = VersionSource(store, StandInEngine(), rest_s=1.0, clock=lambda: now[0])  # type: ignore[arg-type]
    while not watched.poll(Latest().aspired).candidates:
        now[0] += 1.0
    assert store.listed < 200
    store.listed, calls = 0, [0]

    def count(*_: object) -> None:
        calls[0] += 1

    for _ in range(20):
        now[0] += 1.0
        sys.setprofile(count)
        watched.poll(Latest().aspired)
        sys.setprofile(None)
    assert store.listed <= 20 * 2
    assert calls[0] < 20 * 500


def test_of_a_thousand_local_directories_a_poll_reads_few(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are above the version that serves, most below it; none of the others is one."""
    for number in range(1, 1001):
        (tmp_path / f"{number}").mkdir()
    write("990")
    now = [NOW]
    storage = LocalStorage(str(tmp_path))
    watched = VersionSource(storage, StandInEngine(), rest_s=1.0, clock=lambda: now[0])
    while not watched.poll(Latest().aspired).candidates:
        pass
    asked = count_calls(monkeypatch, "scandir", "stat", "lstat")
    for _ in range(30):
        now[0] += 1.0
        watched.poll(Latest().aspired)
    assert asked["scandir"] <= 30 * 3
    assert asked["stat"] + asked["lstat"] <= 30 * 5


def count_calls(monkeypatch: pytest.MonkeyPatch, *names: str) -> Counter[str]:
    """Count from now on how often the file system is asked."""
    calls: Counter[str] = Counter()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count_and_call(*arguments: Any, **named: Any) -> Any:
            calls[name] += 1
            return call(*arguments, **named)

        return count_and_call

    for name in names:
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    return calls


def test_a_version_that_could_not_be_listed_and_is_empty_now_is_said_to_be_empty(
    tmp_path: Path,
) -> None:
    own = tmp_path / "1" / "itself"
    own.parent.mkdir()
    own.symlink_to(own)
    watched, wanted = source(tmp_path), Latest().aspired
    assert "Too many levels" in watched.poll(wanted).candidates[1].fault
    own.unlink()
    found = watched.poll(wanted, again=[1]).candidates
    assert "Too many levels" not in found[1].fault or not found[1].at_rest


def test_a_base_that_is_not_there_is_an_error_and_not_an_empty_list(
    tmp_path: Path,
) -> None:
    with pytest.raises(Missing, match="nowhere"):
        source(tmp_path / "nowhere").poll()


def test_nothing_new_is_told_by_the_same_listing_whatever_changed_beside_the_versions(
    tmp_path: Path, write: Write
) -> None:
    """So that a poll a second of a thousand models costs next to nothing."""
    watched = source(tmp_path)
    write("3")
    first = watched.poll(Latest().aspired)
    assert watched.poll(Latest().aspired) is first
    (tmp_path / "notes").mkdir()
    assert watched.poll(Latest().aspired) is first
    write("4")
    assert set(watched.poll(Latest().aspired).candidates) == {3, 4}


def test_another_policy_finds_what_the_first_did_not_want(tmp_path: Path, write: Write) -> None:
    watched, newest = source(tmp_path), Latest().aspired
    for version in ("3", "4"):
        write(version)
    for _ in range(2):
        assert set(watched.poll(newest).candidates) == {4}
    assert set(watched.poll(Latest(2).aspired).candidates) == {3, 4}
