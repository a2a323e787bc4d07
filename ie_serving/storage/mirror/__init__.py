"""The Storage of a remote repository, which reads through verified local copies.

Reading uses the local cache first; only content missing there is fetched from the store. While the
store has not answered since the start, the last known good listing stands in for it. Once it has
answered, a failed listing is an error, and the caller changes nothing.

`KnownListings` keeps that listing on disk, so that a start without the store can serve. A listing
is good if the store itself answered it; a version's entries are good once all were fetched and
checked. Versions that the store no longer lists are forgotten at once, so that a withdrawn version
does not come back.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path
from threading import Event as Flag
from typing import Any, TypeAlias, TypeVar

from ie_serving.core.values.errors import Corrupted, NotAvailable, ServingError, StorageError
from ie_serving.storage.base import NEVER, Entry, Remote, fingerprint_of
from ie_serving.storage.mirror import download, locks
from ie_serving.storage.mirror.cache import Cache, size_on_disk
from ie_serving.storage.mirror.download import DownloadState, LeastSpeed, Progress, Transfer
from ie_serving.storage.siblings import BasePathListing, Sibling
from ie_serving.storage.trouble import PASSING, RetryLimits, RetryLoop
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

SiblingOf: TypeAlias = tuple[Sibling, Remote] | None
"""A base path that is listed together with its siblings, and their common parent."""

LISTING_TRIES = RetryLimits(most=3, patience_s=10.0)
"""Few tries: the next poll is the next try, and a start waits for the first one."""

NAME_LENGTH = 40
"""Hexadecimal digits of a fingerprint in the names of the cache: 160 bits, which no two contents
share by chance, and short enough for the limits of file systems on names."""

_ATTEMPTS = 3
"""Tries of a copy that vanishes before it can be held."""


class Mirror:
    """`remote`, copied into `cache_dir`."""

    def __init__(
        self,
        remote: Remote,
        cache_dir: Path,
        cache_size_bytes: int = 0,
        *,
        stopping: Flag | None = None,
        transfer: Transfer = Transfer(),  # noqa: B008  (a frozen value)
        listing_tries: RetryLimits = LISTING_TRIES,
        beside: SiblingOf = None,
    ) -> None:
        self._remote = remote
        self._beside = beside
        self._seen: BasePathListing | None = None
        self._stopping = stopping or Flag()
        self._transfer = transfer
        self._listing_tries = listing_tries
        self._cache = Cache(cache_dir, cache_size_bytes, self._pause)
        self._known = KnownListings(self._cache, remote.identity, self._pause)
        self._has_answered = False
        self._recalled: Mapping[str, tuple[Entry, ...]] = {}

    @property
    def url(self) -> str:
        """The remote's URL."""
        return self._remote.url

    def directories(self) -> list[str]:
        """List the store, or recall its last listing. Raises: as `Storage.directories`."""
        try:
            names = self._directories()
        except PASSING as error:
            self._recall(error)
            return list(self._recalled)
        self._note_answer()
        self._known.note_directories(names)
        return names

    def _directories(self) -> list[str]:
        self._seen = None  # else files would be those of an earlier poll where this one fails
        if self._beside:
            sibling, above = self._beside
            self._seen = sibling.look(above, self._retried)
        return self._seen.directories() if self._seen else self._retried(self._remote.directories)

    def list(self, directory: str) -> Iterator[Entry]:
        """List one directory of the store, or recall it. Raises: as `Storage.list`.

        Where the last `directories` came of a listing of all siblings, it is as of then.
        """
        if self._seen:
            return self._seen.list(directory)
        try:
            entries = self._retried(lambda: tuple(self._remote.list(directory)))
        except PASSING:
            if self._has_answered or directory not in self._recalled:
                raise
            return iter(self._recalled[directory])
        return iter(entries)

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        """Give the verified copy, fetched if it is not in the cache. Raises: as `Storage.copy`."""
        files = {entry.path.removeprefix(f"{directory}/"): entry for entry in entries}
        fingerprint = self._fingerprint(directory, entries)
        with ExitStack() as held:
            path = self._hold(held, fingerprint, directory, files, given_up)
            # Touched at the end as well: a copy that served for a year is not a year old.
            self._cache.touch(fingerprint)
            self._known.note_copy(directory, entries)
            try:
                yield path
            finally:
                self._cache.touch(fingerprint)

    def _hold(
        self,
        held: ExitStack,
        fingerprint: str,
        directory: str,
        files: Mapping[str, Entry],
        given_up: Flag,
    ) -> Path:
        """Enter a lease on the complete copy into `held`."""
        sizes = {path: entry.size for path, entry in files.items()}
        for _ in range(_ATTEMPTS):
            path = held.enter_context(self._cache.lease(fingerprint, sizes))
            if path is not None:
                return path
            # Released before the copy is made: making it needs the lock exclusively.
            held.close()
            with self._cache.making(fingerprint) as partial:
                # Another process may have made it while we waited for the lock.
                if not self._cache.is_sound(fingerprint, sizes):
                    self._fetch(partial, directory, files, given_up)
                    self._cache.publish(fingerprint, partial / "files")
        raise StorageError(
            f"{self.url}/{directory}: the copy was removed from {self._cache.root} as soon as it "
            f"was made: give the cache more room"
        )

    def _fetch(
        self, partial: Path, directory: str, files: Mapping[str, Entry], given_up: Flag
    ) -> None:
        # Files of an attempt that broke off are on the disk already.
        total_bytes = sum(entry.size for entry in files.values())
        self._cache.make_room(max(0, total_bytes - size_on_disk(partial)))
        try:
            self._download(partial, directory, files, given_up)
        except Corrupted as error:
            log.warning(Event("download corrupted, fetched once more", cause=error))
            self._download(partial, directory, files, given_up)

    def _download(
        self, partial: Path, directory: str, files: Mapping[str, Entry], given_up: Flag
    ) -> None:
        total_bytes = sum(entry.size for entry in files.values())
        name = f"{self.url}/{directory}"
        transfer = self._transfer
        progress = Progress(name, total_bytes, transfer.report_s)

        def pause(seconds: float) -> None:
            """Wait. Raises NotAvailable when the owner stops, or gives the copy up."""
            self._pause(seconds)
            if given_up.is_set():
                raise NotAvailable(f"{name}: broken off, it is no longer wanted")

        state = DownloadState(
            remote=self._remote,
            transfer=transfer,
            directory=partial,
            written=self._cache.written,
            pause=pause,
            progress=progress,
            speed=LeastSpeed(name, transfer.least_bytes_per_s, transfer.least_over_s),
            broken_off=Flag(),
            given_up=given_up,
        )
        download.download(state, files)
        progress.finish()

    def _fingerprint(self, directory: str, entries: tuple[Entry, ...]) -> str:
        """Name a copy. Two stores may list the same names, sizes and tags: they must not share."""
        origin = f"{self._remote.identity}\0{directory}\n"
        return fingerprint_of(entries, origin)[:NAME_LENGTH]

    def _recall(self, error: StorageError) -> None:
        """Stand in for a store that has not answered yet; raise `error` when that is impossible."""
        # Once the store has answered, the record is not used any more: a failed listing changes
        # nothing, and serving versions go on.
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
                Event(
                    "store unreachable, serving the last known good versions",
                    url=self.url,
                    versions=",".join(sorted(self._recalled)),
                    cause=error,
                )
            )

    def _is_copied(self, directory: str, entries: tuple[Entry, ...]) -> bool:
        sizes = {entry.path.removeprefix(f"{directory}/"): entry.size for entry in entries}
        fingerprint = self._fingerprint(directory, entries)
        return self._cache.has(fingerprint, sizes)

    def _note_answer(self) -> None:
        if self._recalled:
            log.info(Event("store answers, its own listing is used from now on", url=self.url))
        self._has_answered = True
        self._recalled = {}

    def _retried(self, action: Callable[[], T]) -> T:
        return RetryLoop(self._listing_tries, self._pause).run(action)

    def _pause(self, seconds: float) -> None:
        # An event rather than a sleep, so that a stop need not wait for the longest back-off.
        if self._stopping.wait(seconds):
            raise NotAvailable(f"{self.url}: broken off, the server stops")


class KnownListings:
    """The record of one repository in `cache`."""

    def __init__(self, cache: Cache, identity: str, pause: locks.Pause) -> None:
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._cache = cache
        self._identity = identity
        self._file = cache.root / "listings" / f"{name}.json"
        self._lock = cache.root / "locks" / name
        self._pause = pause
        self._noted: dict[str | None, list[Any]] = {}

    def note_directories(self, names: Sequence[str]) -> None:
        """Record the directories that the store has just listed."""
        self._note(None, sorted(names))

    def note_copy(self, directory: str, entries: Sequence[Entry]) -> None:
        """Record that these entries of `directory` are in the cache."""
        self._note(directory, [list(astuple(entry)) for entry in entries])

    def recall(self) -> Mapping[str, tuple[Entry, ...]]:
        """Give the last known entries of each directory that was listed and fetched."""
        try:
            record = self._read()
            return {
                name: tuple(Entry(*fields) for fields in record["copies"][name])
                for name in record["directories"]
                if name in record["copies"]
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.debug(Event("no listing of an earlier run", path=self._file, cause=repr(error)))
            return {}

    def _note(self, directory: str | None, value: list[Any]) -> None:
        """Write only changes; a cache that cannot be written loses the record and nothing else."""
        if self._noted.get(directory) == value:
            return
        try:
            with self._cache.written():
                self._write(directory, value)
        except ServingError as error:
            log.warning(Event("listing not recorded, a restart needs the store", cause=error))
        # A failure notes it, too: a read-only cache would be tried, and logged, at every poll.
        self._noted[directory] = value

    def _write(self, directory: str | None, value: list[Any]) -> None:
        for path in (self._file, self._lock):
            path.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(self._lock, self._pause):
            record = self._read_or_new()
            _enter(record, directory, value)
            # Written beside and renamed: readers without the lock see the old file or the new one.
            beside = self._file.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(record))
            beside.replace(self._file)

    def _read(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._file.read_text())
        return record

    def _read_or_new(self) -> dict[str, Any]:
        try:
            return self._read()
        except (FileNotFoundError, ValueError):
            return {"identity": self._identity, "directories": [], "copies": {}}


def _enter(record: dict[str, Any], directory: str | None, value: list[Any]) -> None:
    """Replace the list of a directory's files, or, without one, the list of directories."""
    if directory is not None:
        record["copies"][directory] = value
        return
    # Versions come and go for years: the record drops versions that are no longer listed.
    record["directories"] = value
    record["copies"] = {name: found for name, found in record["copies"].items() if name in value}
