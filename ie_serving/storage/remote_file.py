"""A file that lies in a store, with what readers of a configuration need of `pathlib.Path`."""

import errno
import time
from dataclasses import replace
from pathlib import PurePosixPath

from ie_serving.core.values.errors import ConfigError, Missing, StorageError
from ie_serving.storage.base import Entry, Location
from ie_serving.storage.options import StoreOptions
from ie_serving.storage.trouble import RetryLimits, RetryLoop

FIRST_TRIES = RetryLimits(most=3, patience_s=10.0)
"""Tries of the first read, without which a server does not start. A later one is made at each
poll."""
LATER_TRIES = RetryLimits(most=1)


class RemoteFile:
    """One object of a store. Blocking; trouble is an OSError, as that of a file on disk.

    A read is one listing, which has the object alone. Its content is fetched where its tag differs
    from the one before.

    Args of the constructor:
        store: options of the store.
        location: location of the object, as if it were a directory.

    Raises:
        ConfigError: the location is a whole bucket or a directory.
    """

    def __init__(self, store: StoreOptions, location: Location) -> None:
        above = location.above()
        if above is None or location.url.endswith("/"):
            raise ConfigError([f"{location.url}: expected the URL of a file"])
        self._url, self._key = location.url, location.prefix[:-1]
        self._store, self._above = store, above
        self._held: tuple[Entry, bytes] | None = None

    def __str__(self) -> str:
        return self._url

    @property
    def suffix(self) -> str:
        """As `Path.suffix`."""
        return PurePosixPath(self._key).suffix

    @property
    def directory(self) -> str:
        """The URL of its directory, where relative paths in it begin."""
        return self._above.url.rstrip("/")

    def absolute(self) -> "RemoteFile":
        """As `Path.absolute`."""
        return self

    def read_bytes(self) -> bytes:
        """Give the content. Raises: OSError, FileNotFoundError where there is no such object."""
        tries = LATER_TRIES if self._held else FIRST_TRIES
        try:
            return RetryLoop(tries, time.sleep).run(self._read)
        except Missing as error:
            raise FileNotFoundError(errno.ENOENT, self._said(error)) from error
        except StorageError as error:
            raise OSError(errno.EIO, self._said(error)) from error

    def _said(self, error: StorageError) -> str:
        return str(error).removeprefix(f"{self._url}: ")  # which its reader says

    def _read(self) -> bytes:
        itself = replace(self._above, url=self._url, prefix=self._key)
        listed = self._store.open(itself).everything()
        found = next((each for each in listed if each.path == self._key), None)
        if found is None:
            raise Missing(f"{self._url}: no such object; upload it, or correct the path")
        if self._held is None or self._held[0] != found:
            entry = replace(found, path=found.path.removeprefix(self._above.prefix))
            parts: list[bytes] = []
            if entry.size:
                self._store.open(self._above).read(entry, 0, entry.size, parts.append)
            self._held = found, b"".join(parts)
        return self._held[1]
