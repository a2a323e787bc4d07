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

from ie_serving.errors import ServingError
from ie_serving.storage import locks
from ie_serving.storage.base import Entry
from ie_serving.storage.cache import Cache

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
            log.debug("no known listing path=%s error=%r", self._file, error)
            return {}

    def _note(self, directory: str | None, value: list[Any]) -> None:
        """Write only what changed; a cache that cannot be written costs the record, not more."""
        if self._noted.get(directory) == value:
            return
        try:
            with self._cache.written():
                self._write(directory, value)
        except ServingError as error:
            log.warning('listing not recorded, a restart needs the store error="%s"', error)
        self._noted[directory] = value

    def _write(self, directory: str | None, value: list[Any]) -> None:
        for path in (self._file, self._lock):
            path.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(self._lock, self._pause):
            record = self._read_or_new()
            if directory is None:
                record["directories"] = value
                kept = {name: found for name, found in record["copies"].items() if name in value}
                record["copies"] = kept
            else:
                record["copies"][directory] = value
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


def fingerprint_of(identity: str, directory: str, entries: Sequence[Entry]) -> str:
    """Identify the content of `directory` by its store and by its entries, in any order."""
    digest = hashlib.sha256(f"{identity}\0{directory}\n".encode())
    for entry in sorted(entries, key=lambda entry: entry.path):
        digest.update(f"{entry.path}\0{entry.size}\0{entry.tag}\n".encode())
    return digest.hexdigest()[:40]
