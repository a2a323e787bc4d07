"""A store in memory for tests, with a remote backend's contract and faults that a test can set."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock

from ie_serving.core.values.errors import EntryChanged, StorageError
from ie_serving.storage.base import Entry, Location, Sink
from ie_serving.storage.checksums import Checksum


@dataclass
class _Object:
    data: bytes
    tag: str


class MemoryRemote:
    """Objects by key under `memory://bucket/models`.

    Attributes:
        fails: raised one after the other by the next calls, before anything else is done.
        calls: names of the calls so far.
        before_chunk: called with the entry's path and the position of each chunk that is read;
            may raise, or give back other bytes than it was given.
    """

    url = "memory://bucket/models"
    identity = "memory"
    chunk_bytes = 1000

    def __init__(self) -> None:
        self._location = Location.parse(self.url, "bucket/models")
        self._objects: dict[str, _Object] = {}
        self._count = 0
        self._lock = Lock()
        self.fails: deque[StorageError] = deque()
        self.calls: list[str] = []
        self.before_chunk: Callable[[str, int, bytes], bytes] = lambda path, position, data: data

    def put(self, path: str, data: bytes) -> None:
        """Store an object; its tag is new, even for the same bytes."""
        self._count += 1
        self._objects[f"models/{path}"] = _Object(data, f"tag-{self._count}")

    def remove(self, path: str) -> None:
        """Delete an object."""
        del self._objects[f"models/{path}"]

    def directories(self) -> list[str]:
        """As `Remote.directories`."""
        self._called("directories")
        keys = [key for key in self._objects if key.startswith("models/")]
        below = [key.removeprefix("models/") for key in keys]
        found = {f"models/{path.split('/')[0]}/" for path in below if "/" in path}
        return self._location.directories(sorted(found), bool(keys))

    def list(self, directory: str) -> Iterator[Entry]:
        """As `Remote.list`."""
        self._called("list")
        for key, found in list(self._objects.items()):
            path = self._location.path_of(key) if key.startswith(f"models/{directory}/") else None
            if path is not None:
                yield Entry(path, len(found.data), found.tag, 1.0)

    def everything(self) -> Iterator[Entry]:
        """As `Remote.everything`."""
        self._called("everything")
        for key, found in list(self._objects.items()):
            yield Entry(key, len(found.data), found.tag, 1.0)

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """As `Remote.read`."""
        self._called("read")
        data = self._of(entry).data
        for position in range(start, stop, self.chunk_bytes):
            chunk = data[position : min(stop, position + self.chunk_bytes)]
            sink(self.before_chunk(entry.path, position, chunk))

    def checksum(self, entry: Entry) -> Checksum | None:
        """As `Remote.checksum`: SHA-256."""
        self._called("checksum")
        return Checksum("sha256", hashlib.sha256(self._of(entry).data).digest())

    def _of(self, entry: Entry) -> _Object:
        found = self._objects.get(f"models/{entry.path}")
        if found is None or found.tag != entry.tag:
            raise EntryChanged(f"{self.url}: {entry.path} was replaced after it had been listed")
        return found

    def _called(self, name: str) -> None:
        with self._lock:
            self.calls.append(name)
            failure = self.fails.popleft() if self.fails else None
        if failure is not None:
            raise failure
