"""Local repositories: the contract, and the ways in which links switch."""

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from ie_serving.core.values.errors import (
    EntryChanged,
    Missing,
    NotThereYet,
    StorageError,
    Unauthorized,
    Unreachable,
)
from ie_serving.storage.backends import local
from ie_serving.storage.backends.local import LocalStorage
from tests.unit.storage.contract import StorageContract, listed


class LocalRepository:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.storage = LocalStorage(base)

    def put(self, path: str, data: bytes) -> None:
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".new")
        beside.write_bytes(data)
        beside.rename(target)

    def remove(self, path: str) -> None:
        (self.base / path).unlink()


@pytest.fixture
def repository(tmp_path: Path) -> LocalRepository:
    return LocalRepository(tmp_path / "models")


class TestLocalStorage(StorageContract):
    pass


def test_a_copy_is_the_directory_itself(repository: LocalRepository) -> None:
    repository.put("1/model.xml", b"a")
    with repository.storage.copy("1", listed(repository.storage, "1")) as copy:
        assert copy == (repository.base / "1").resolve()


def test_a_switched_version_link_shows_as_a_change_and_never_mixes_two(
    repository: LocalRepository,
) -> None:
    for release in ("old", "new"):
        (repository.base.parent / release).mkdir()
        (repository.base.parent / release / "model.xml").write_text(release)
    repository.base.mkdir()
    (repository.base / "1").symlink_to("../old")
    before = listed(repository.storage, "1")
    with repository.storage.copy("1", before) as copy:
        (repository.base / "next").symlink_to("../new")
        (repository.base / "next").replace(repository.base / "1")
        assert (copy / "model.xml").read_text() == "old"
    assert listed(repository.storage, "1") != before
    with pytest.raises(EntryChanged), repository.storage.copy("1", before):
        pass


def test_a_config_map_volume_lists_its_files_once(repository: LocalRepository) -> None:
    """Kubernetes: `..data` links to `..2026_01`, each file links to `..data/file`."""
    version = repository.base / "1"
    (version / "..2026_01").mkdir(parents=True)
    (version / "..2026_01" / "model.xml").write_text("a")
    (version / "..data").symlink_to("..2026_01")
    (version / "model.xml").symlink_to("..data/model.xml")
    before = listed(repository.storage, "1")
    assert [entry.path for entry in before] == ["1/model.xml"]

    (version / "..2026_02").mkdir()
    (version / "..2026_02" / "model.xml").write_text("b")
    (version / "..data_tmp").symlink_to("..2026_02")
    (version / "..data_tmp").replace(version / "..data")
    assert listed(repository.storage, "1") != before


def test_links_to_parents_and_to_nothing_end_the_walk(repository: LocalRepository) -> None:
    repository.put("1/model.xml", b"a")
    repository.put("notes.txt", b"b")
    (repository.base / "1" / "again").symlink_to("..")
    (repository.base / "1" / "gone").symlink_to("nowhere")
    paths = [entry.path for entry in listed(repository.storage, "1")]
    assert paths == ["1/again/notes.txt", "1/model.xml"]


def test_pipes_and_sockets_are_not_files(repository: LocalRepository) -> None:
    repository.put("1/model.xml", b"a")
    os.mkfifo(repository.base / "1" / "pipe")
    assert [entry.path for entry in listed(repository.storage, "1")] == ["1/model.xml"]


def test_a_file_as_base_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "model.xml").touch()
    with pytest.raises(Missing, match="is a file, expected a directory"):
        LocalStorage(tmp_path / "model.xml").directories()


def test_listing_below_a_vanished_base_is_trouble_not_emptiness(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        listed(LocalStorage(tmp_path / "unmounted"), "1")


@pytest.mark.parametrize(
    ("number", "kind", "phrase"),
    [
        pytest.param(errno.EACCES, Unauthorized, "permission denied for user id", id="EACCES"),
        pytest.param(errno.ESTALE, Unreachable, "network file system does not answer", id="ESTALE"),
        pytest.param(
            errno.ETIMEDOUT, Unreachable, "network file system does not answer", id="ETIMEDOUT"
        ),
        pytest.param(errno.ENOENT, NotThereYet, "no such directory", id="ENOENT"),
        pytest.param(errno.EIO, StorageError, "cannot be read", id="EIO"),
    ],
)
def test_trouble_of_the_file_system_is_told_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[StorageError],
    phrase: str,
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(local.os, "scandir", refuse)
    with pytest.raises(kind, match=phrase) as raised:
        LocalStorage(tmp_path).directories()
    assert str(tmp_path) in str(raised.value)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are read."""
    read: list[str] = []
    scandir = os.scandir

    def noted(path: Path | str) -> os.DirEntry[str]:
        read.append(Path(path).name)
        return scandir(path)  # type: ignore[return-value]

    monkeypatch.setattr(local.os, "scandir", noted)
    return read


def test_a_base_that_has_not_changed_for_long_is_read_now_and_then_only(
    repository: LocalRepository, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand models are asked every second."""
    monkeypatch.setattr(local, "SETTLED_S", 0)
    repository.put("1/model.xml", b"a")
    for _ in range(3 * local.SCANNED_EVERY):
        assert repository.storage.directories() == ["1"]
    assert len(scans) == 3
    repository.put("2/model.xml", b"a")
    assert sorted(repository.storage.directories()) == ["1", "2"]
    (repository.base / "1").rename(repository.base.parent / "1")
    assert repository.storage.directories() == ["2"]


def test_a_base_that_has_just_changed_is_read(
    repository: LocalRepository, scans: list[str]
) -> None:
    """What changes within the same tick of the clock leaves no other trace."""
    repository.put("1/model.xml", b"a")
    for _ in range(5):
        repository.storage.directories()
    assert len(scans) == 5


def test_a_base_that_is_a_link_is_read_when_it_is_switched(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SETTLED_S", 0)
    for release in ("old", "new"):
        (repository.base.parent / release / release).mkdir(parents=True)
    repository.base.symlink_to("old")
    assert [repository.storage.directories() for _ in range(3)] == [["old"]] * 3
    beside = repository.base.parent / "beside"
    beside.symlink_to("new")
    beside.rename(repository.base)
    assert repository.storage.directories() == ["new"]


def _new(path: Path) -> None:
    path.write_bytes(b"other")


def _link(target: str) -> Callable[[Path], None]:
    def switch(path: Path) -> None:
        beside = path.with_name("beside")
        beside.symlink_to(target)
        beside.rename(path)

    return switch


CHANGES: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "a file is written": ("1/model.xml", _new),
    "a file comes": ("1/model.bin", _new),
    "a file goes": ("1/deep/deeper/a", Path.unlink),
    "a file comes to an empty directory": ("1/empty/a", _new),
    "a directory's link is switched": ("1/current", _link("../../releases/2")),
    "what a directory's link leads to is switched": ("../releases/stable", _link("2")),
    "a file's link is switched": ("1/chosen", _link("deep/deeper/a")),
    "what a link lacks comes": ("../late", _new),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_found_in_files_that_were_listed_again_and_again(
    repository: LocalRepository, scans: list[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(local, "SETTLED_S", 0)
    for path in ("1/model.xml", "1/deep/deeper/a", "../releases/1/a", "../releases/2/b"):
        repository.put(path, b"a")
    (repository.base / "1/empty").mkdir()
    for link, target in {
        "../releases/stable": "1",
        "1/current": "../../releases/1",
        "1/stable": "../../releases/stable",
        "1/chosen": "model.xml",
        "1/late": "../../late",
    }.items():
        (repository.base / link).symlink_to(target)
    held = [listed(repository.storage, "1") for _ in range(6)]
    assert len({*map(frozenset, held)}) == 1
    path, change = CHANGES[case]
    change(repository.base / path)
    found = listed(repository.storage, "1")
    assert {*found} == {*listed(LocalStorage(repository.base), "1")} != {*held[0]}


def test_a_version_that_goes_and_comes_back_is_found_each_time(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SETTLED_S", 0)
    repository.put("1/model.xml", b"a")
    there, away = repository.base / "1", repository.base / "..1"
    for _ in range(3):
        found = {listed(repository.storage, "1") for _ in range(4)}
        assert len(found) == 1 and () not in found
        there.rename(away)
        assert [listed(repository.storage, "1") for _ in range(4)] == [()] * 4
        away.rename(there)


def test_files_that_rest_are_read_now_and_then_only(
    repository: LocalRepository, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand models that serve are compared every half minute."""
    repository.put("1/model.xml", b"a")
    for _ in range(5):
        listed(repository.storage, "1")
    assert scans == ["1"] * 5, "what changes within the same tick of the clock leaves no trace"
    monkeypatch.setattr(local, "SETTLED_S", 0)
    scans.clear()
    for _ in range(3 * local.SCANNED_EVERY):
        listed(repository.storage, "1")
    assert len(scans) == 3


def test_a_reading_that_takes_long_does_not_make_files_old(
    repository: LocalRepository, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed just before it may change again within the same tick of the clock."""
    repository.put("1/model.xml", b"a")
    listed(repository.storage, "1")
    monkeypatch.setattr(local, "SETTLED_S", 0.1)
    read = local.os.scandir

    def slow(path: str) -> Iterator[os.DirEntry[str]]:
        time.sleep(0.2)
        return read(path)

    monkeypatch.setattr(local.os, "scandir", slow)
    scans.clear()
    for _ in range(2):
        repository.put("1/model.xml", b"b")
        listed(repository.storage, "1")
    listed(repository.storage, "1")
    assert len(scans) == 3
