"""A mirror of a store in memory, which tests break and restart."""

import threading
from pathlib import Path

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import Unreachable
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.mirror.download import Transfer
from ie_serving.storage.trouble import RetryLimits
from tests.memory_store import MemoryRemote
from tests.unit.storage.contract import listed

QUICK = RetryLimits(most=3, backoff=Backoff(first_s=0.001, longest_s=0.01))
SMALL_PARTS = Transfer(part_bytes=10_000, threads=4, tries=QUICK)
MODEL = bytes(range(256)) * 200  # 51,200 bytes: six parts


class MemoryRepository:
    """A mirror of a store in memory."""

    def __init__(self, cache_dir: Path) -> None:
        self.cache_dir = cache_dir
        self.remote = MemoryRemote()
        self.storage = self.restarted()

    def restarted(
        self, cache_size_bytes: int = 0, stopping: threading.Event | None = None
    ) -> Mirror:
        """Another server, or this one after a restart, with the same cache."""
        return Mirror(
            self.remote,
            self.cache_dir,
            cache_size_bytes,
            stopping=stopping,
            transfer=SMALL_PARTS,
            listing_tries=QUICK,
        )

    def put(self, path: str, data: bytes) -> None:
        self.remote.put(path, data)

    def remove(self, path: str) -> None:
        self.remote.remove(path)

    def fetch(self, directory: str = "1", storage: Mirror | None = None) -> dict[str, bytes]:
        storage = storage or self.storage
        with storage.copy(directory, listed(storage, directory)) as copy:
            return {p.name: p.read_bytes() for p in copy.rglob("*") if p.is_file()}

    def go_down(self) -> None:
        self.remote.fails.extend([Unreachable("down")] * 1000)

    def come_back(self) -> None:
        self.remote.fails.clear()
