"""A remote repository seen through its verified local copies; the Storage that servers use.

Reading goes to the local cache first; only content that is not there is asked of the store. When
the store is unreachable from the start on, the last known good listing stands in for it, until it
has answered once. From then on a failed listing is an error, and the caller changes nothing.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import TypeVar

from ie_serving.errors import Corrupted, NotAvailable, StorageError
from ie_serving.storage.base import Entry
from ie_serving.storage.cache import Cache
from ie_serving.storage.download import Transfer, Workplace, download
from ie_serving.storage.listings import KnownListings, fingerprint_of
from ie_serving.storage.progress import Progress
from ie_serving.storage.remote import Remote
from ie_serving.storage.retry import PASSING, Backoff, Retrying

log = logging.getLogger(__name__)

T = TypeVar("T")

LISTING_BACKOFF = Backoff(tries=3, patience_s=10.0)
"""Few tries: the next poll is the next try, and a start waits for the first one."""

_ATTEMPTS = 3
"""How often a copy is made again when it vanishes before it can be held."""


class Mirror:
    """`remote`, copied into `cache_dir`."""

    def __init__(
        self,
        remote: Remote,
        cache_dir: Path,
        cache_size_bytes: int = 0,
        *,
        stopping: Event | None = None,
        transfer: Transfer = Transfer(),  # noqa: B008  (a frozen value)
        listing_backoff: Backoff = LISTING_BACKOFF,
    ) -> None:
        self._remote = remote
        self._stopping = stopping or Event()
        self._transfer = transfer
        self._listing_backoff = listing_backoff
        self._cache = Cache(cache_dir, cache_size_bytes, self._pause)
        self._known = KnownListings(self._cache, remote.identity, self._pause)
        self._has_answered = False
        self._recalled: Mapping[str, tuple[Entry, ...]] = {}

    @property
    def url(self) -> str:
        """The remote's URL."""
        return self._remote.url

    def directories(self) -> list[str]:
        """List the store, or recall what it last listed. Raises: as `Storage.directories`."""
        try:
            names = self._retried(self._remote.directories)
        except PASSING as error:
            self._recall(error)
            return list(self._recalled)
        self._answered()
        self._known.note_directories(names)
        return names

    def list(self, directory: str) -> Iterator[Entry]:
        """List one directory of the store, or recall it. Raises: as `Storage.list`."""
        try:
            entries = self._retried(lambda: tuple(self._remote.list(directory)))
        except PASSING:
            if self._has_answered or directory not in self._recalled:
                raise
            return iter(self._recalled[directory])
        return iter(entries)

    @contextmanager
    def copy(self, directory: str, entries: tuple[Entry, ...]) -> Iterator[Path]:
        """Give the verified copy, fetched if it is not in the cache. Raises: as `Storage.copy`."""
        files = {entry.path.removeprefix(f"{directory}/"): entry for entry in entries}
        fingerprint = fingerprint_of(self._remote.identity, directory, entries)
        with ExitStack() as held:
            path = self._hold(held, fingerprint, directory, files)
            self._cache.touch(fingerprint)
            self._known.note_copy(directory, entries)
            try:
                yield path
            finally:
                self._cache.touch(fingerprint)

    def _hold(
        self, held: ExitStack, fingerprint: str, directory: str, files: Mapping[str, Entry]
    ) -> Path:
        """Enter a lease on the complete copy into `held`."""
        sizes = {path: entry.size for path, entry in files.items()}
        for _ in range(_ATTEMPTS):
            path = held.enter_context(self._cache.lease(fingerprint, sizes))
            if path is not None:
                return path
            held.close()
            with self._cache.making(fingerprint) as partial:
                if not self._cache.has(fingerprint, sizes):
                    self._fetch(partial, directory, files)
                    self._cache.publish(fingerprint, partial / "files")
        raise StorageError(
            f"{self.url}/{directory}: the copy was removed from {self._cache.root} as soon as it "
            f"was made: give the cache more room"
        )

    def _fetch(self, partial: Path, directory: str, files: Mapping[str, Entry]) -> None:
        self._cache.make_room(sum(entry.size for entry in files.values()))
        try:
            self._download(partial, directory, files)
        except Corrupted as error:
            log.warning('download corrupted, fetched once more error="%s"', error)
            self._download(partial, directory, files)

    def _download(self, partial: Path, directory: str, files: Mapping[str, Entry]) -> None:
        total_bytes = sum(entry.size for entry in files.values())
        name = f"{self.url}/{directory}"
        progress = Progress(name, total_bytes, self._transfer.report_s)
        place = Workplace(
            remote=self._remote,
            transfer=self._transfer,
            directory=partial,
            written=self._cache.written,
            pause=self._pause,
            progress=progress,
            broken_off=Event(),
        )
        download(place, files)
        progress.finish()

    def _recall(self, error: StorageError) -> None:
        """Stand in for a store that has not answered yet; raise `error` when that is impossible."""
        if self._has_answered:
            raise error
        if not self._recalled:
            self._recalled = {
                directory: entries
                for directory, entries in self._known.recall().items()
                if self._is_copied(directory, entries)
            }
            if not self._recalled:
                raise error
            log.warning(
                "store unreachable, serving the last known good versions "
                'url=%s versions=%s error="%s"',
                self.url,
                ",".join(sorted(self._recalled)),
                error,
            )

    def _is_copied(self, directory: str, entries: tuple[Entry, ...]) -> bool:
        sizes = {entry.path.removeprefix(f"{directory}/"): entry.size for entry in entries}
        fingerprint = fingerprint_of(self._remote.identity, directory, entries)
        return self._cache.has(fingerprint, sizes)

    def _answered(self) -> None:
        if self._recalled:
            log.info("store answers, its own listing is used from now on url=%s", self.url)
        self._has_answered = True
        self._recalled = {}

    def _retried(self, action: Callable[[], T]) -> T:
        return Retrying(self._listing_backoff, self._pause).run(action)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise NotAvailable(f"{self.url}: broken off, the server stops")
