"""What every storage promises, whatever lies behind it. Subclassed once for each."""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import pytest

from ie_serving.core.values.errors import EntryChanged, Missing
from ie_serving.storage.base import Entry, Storage


class Repository(Protocol):
    """A storage, and the way to change what it shows."""

    storage: Storage

    def put(self, path: str, data: bytes) -> None:
        """Write one file, over an older one if there is one."""

    def remove(self, path: str) -> None:
        """Delete one file."""


ODD_NAMES = ["a b.xml", "é—文.xml", "a+b%20c&d=e.xml", "#?.xml", "~'\"!.xml"]


def listed(storage: Storage, directory: str) -> tuple[Entry, ...]:
    return tuple(sorted(storage.list(directory), key=lambda entry: entry.path))


class VersionContract:
    """Promises of each storage, about the files of version 1.

    Subclasses give a fixture `repository`, empty, whose base does not exist yet.
    """

    files: ClassVar[Mapping[str, bytes]] = {
        "model.xml": b"<xml/>",
        "model.bin": b"12",
        "model.empty": b"",
    }

    def test_a_base_that_does_not_exist_is_missing_not_empty(self, repository: Repository) -> None:
        with pytest.raises(Missing):
            repository.storage.directories()

    def test_a_directory_without_entries_lists_nothing(self, repository: Repository) -> None:
        repository.put("1/model.xml", b"a")
        assert listed(repository.storage, "2") == ()

    def test_a_tag_changes_with_the_content_and_only_then(self, repository: Repository) -> None:
        repository.put("1/model.xml", b"a")
        before = listed(repository.storage, "1")
        assert listed(repository.storage, "1") == before
        repository.put("1/model.xml", b"b")
        assert listed(repository.storage, "1")[0].tag != before[0].tag

    def test_a_copy_holds_exactly_the_entries(self, repository: Repository) -> None:
        for path, data in self.files.items():
            repository.put(f"1/{path}", data)
        with repository.storage.copy("1", listed(repository.storage, "1")) as copy:
            found = {
                path.relative_to(copy).as_posix(): path.read_bytes()
                for path in copy.rglob("*")
                if path.is_file()
            }
        assert found == self.files

    def test_a_file_that_was_replaced_after_the_listing_is_not_copied(
        self, repository: Repository
    ) -> None:
        repository.put("1/model.xml", b"old")
        entries = listed(repository.storage, "1")
        repository.put("1/model.xml", b"new")
        with (
            pytest.raises(EntryChanged, match=r"model\.xml"),
            repository.storage.copy("1", entries),
        ):
            pass

    def test_a_file_that_was_removed_after_the_listing_is_not_copied(
        self, repository: Repository
    ) -> None:
        repository.put("1/model.xml", b"old")
        repository.put("notes.txt", b"other")
        entries = listed(repository.storage, "1")
        repository.remove("1/model.xml")
        with (
            pytest.raises(EntryChanged, match=r"model\.xml"),
            repository.storage.copy("1", entries),
        ):
            pass


class StorageContract(VersionContract):
    """Promises of a storage that has any directories, with files at any depth."""

    files: ClassVar = {
        "model.xml": b"<xml/>",
        "sub/model.bin": bytes(range(256)) * 40,
        "empty": b"",
    }

    def test_directories_are_the_direct_ones_only(self, repository: Repository) -> None:
        repository.put("1/model.xml", b"a")
        repository.put("10/deep/er/model.bin", b"b")
        repository.put("notes.txt", b"c")
        assert sorted(repository.storage.directories()) == ["1", "10"]

    def test_entries_are_at_any_depth_with_paths_from_the_base(
        self, repository: Repository
    ) -> None:
        repository.put("1/model.xml", b"<xml/>")
        repository.put("1/variables/data.bin", b"12345678")
        repository.put("10/model.xml", b"not of 1")
        sizes = {entry.path: entry.size for entry in repository.storage.list("1")}
        assert sizes == {"1/model.xml": 6, "1/variables/data.bin": 8}

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_names(self, repository: Repository, name: str) -> None:
        repository.put(f"1/{name}", b"odd")
        entries = listed(repository.storage, "1")
        assert [entry.path for entry in entries] == [f"1/{name}"]
        with repository.storage.copy("1", entries) as copy:
            assert (copy / name).read_bytes() == b"odd"

    def test_versions_appear_and_vanish(self, repository: Repository) -> None:
        repository.put("1/model.xml", b"a")
        assert repository.storage.directories() == ["1"]
        repository.put("2/model.xml", b"b")
        assert sorted(repository.storage.directories()) == ["1", "2"]
        repository.remove("1/model.xml")
        assert "1/model.xml" not in [entry.path for entry in repository.storage.list("1")]
