"""A file in a store is read as one on disk, and fetched where it has changed."""

from dataclasses import dataclass, field

import pytest

from ie_serving.core.values.errors import ConfigError, Unauthorized, Unreachable
from ie_serving.storage.base import Location, Remote
from ie_serving.storage.options import StoreOptions
from ie_serving.storage.remote_file import RemoteFile
from tests.memory_store import MemoryRemote

URL = "memory://bucket/models/config.json"


@dataclass(frozen=True, kw_only=True)
class Memory(StoreOptions):
    schemes = ("memory",)

    remote: MemoryRemote = field(default_factory=MemoryRemote)

    def open(self, location: Location) -> Remote:
        return self.remote


def opened(remote: MemoryRemote, url: str = URL) -> RemoteFile:
    return RemoteFile(Memory(remote=remote), Location.parse(url, url.partition("://")[2]))


def test_its_content_is_fetched_where_it_has_changed() -> None:
    remote = MemoryRemote()
    remote.put("config.json.old", b"other")
    remote.put("config.json", b"first")
    file = opened(remote)
    assert file.read_bytes() == file.read_bytes() == b"first"
    assert remote.calls == ["everything", "read", "everything"]
    remote.put("config.json", b"")
    assert file.read_bytes() == b""


def test_its_name_is_taken_apart_as_a_path() -> None:
    file = opened(MemoryRemote())
    assert (str(file), file.suffix, file.directory) == (URL, ".json", "memory://bucket/models")
    assert opened(MemoryRemote(), "memory://bucket/a.yml").directory == "memory://bucket"


def test_trouble_is_that_of_a_file() -> None:
    remote = MemoryRemote()
    remote.put("config.json.old", b"")
    with pytest.raises(FileNotFoundError, match="no such object"):
        opened(remote).read_bytes()
    remote.fails.append(Unauthorized("no"))
    with pytest.raises(OSError, match="no"):
        opened(remote).read_bytes()


def test_only_the_first_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ie_serving.storage.remote_file.time.sleep", lambda seconds: None)
    remote = MemoryRemote()
    remote.put("config.json", b"a")
    remote.fails.extend([Unreachable("away")] * 2)
    file = opened(remote)
    assert file.read_bytes() == b"a"
    remote.fails.append(Unreachable("away"))
    with pytest.raises(OSError, match="away"):
        file.read_bytes()
    assert file.read_bytes() == b"a"


@pytest.mark.parametrize("url", ["memory://bucket", "memory://bucket/", "memory://bucket/models/"])
def test_a_directory_is_no_file(url: str) -> None:
    with pytest.raises(ConfigError, match="expected the URL of a file"):
        opened(MemoryRemote(), url)
