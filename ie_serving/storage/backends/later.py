"""A store that is opened when it is first used, in the thread that uses it.

Opening imports a client, which takes about 0.2 s: too long for the event loop, on which models are
configured while requests wait. And a store that is not set up is then trouble of its own models
alone, as one that does not answer is, and is tried again at the next poll.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event as Flag
from threading import Lock

from ie_serving.core.values.errors import ConfigError, StorageError
from ie_serving.storage.base import NEVER, Entry, Storage
from ie_serving.storage.remote import shown


class OpenedLater:
    """The storage that `open_store` gives, at the first call of a method. See `Storage`."""

    def __init__(self, url: str, open_store: Callable[[], Storage]) -> None:
        self._url = url
        self._open = open_store
        self._lock = Lock()
        self._opened: Storage | None = None

    @property
    def url(self) -> str:
        """The URL as it was given, without credentials."""
        return shown(self._url)

    def directories(self) -> list[str]:
        """See `Storage`. Raises StorageError also while the store is not set up."""
        return self._store().directories()

    def list(self, directory: str) -> Iterator[Entry]:
        """See `Storage`."""
        return self._store().list(directory)

    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> AbstractContextManager[Path]:
        """See `Storage`."""
        return self._store().copy(directory, entries, given_up)

    def _store(self) -> Storage:
        # Without the lock once it is open: it is asked for at every poll of a thousand models.
        return self._opened or self._open_once()

    def _open_once(self) -> Storage:
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = self._open()
                except ConfigError as error:
                    raise StorageError(*error.args) from error
            return self._opened
