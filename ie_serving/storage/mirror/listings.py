"""The last known good listing of a repository, kept on disk so that a start without it can serve.

Good means that this listing was answered by the store, and that the entries of a version were
fetched and checked completely. What the store no longer lists is forgotten at once: a version that
was withdrawn does not come back.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from ie_serving.core.values.errors import ServingError
from ie_serving.storage.base import Entry
from ie_serving.storage.mirror import locks
from ie_serving.storage.mirror.cache import Cache
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


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
        """Record what the store has just listed."""
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
        """Write only what changed; a cache that cannot be written costs the record, not more."""
        if self._noted.get(directory) == value:
            return
        try:
            with self._cache.written():
                self._write(directory, value)
        except ServingError as error:
            log.warning(Event("listing not recorded, a restart needs the store", cause=error))
        # Also after a failure: a read-only cache would be tried, and complained of, at every poll.
        self._noted[directory] = value

    def _write(self, directory: str | None, value: list[Any]) -> None:
        for path in (self._file, self._lock):
            path.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(self._lock, self._pause):
            record = self._read_or_new()
            _enter(record, directory, value)
            # Written beside and renamed: whoever reads without the lock sees the old or the new.
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
    # Versions come and go for years: what is no longer listed leaves the record too.
    record["directories"] = value
    record["copies"] = {name: found for name, found in record["copies"].items() if name in value}
