"""Opens the repositories of the models; owns their listing schedule and their threads.

Each store has a thread pool of its own. A store that hangs or is slow occupies every thread that it
can get. With its own threads it delays only its own models; local paths and the models of other
stores go on.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ie_serving.core.runtime.threads import NamedPools
from ie_serving.core.values.errors import ConfigError, StorageError
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.fleet.repository import FILES
from ie_serving.models.listing.schedule import MOST_THREADS, Polls
from ie_serving.storage.backends.storage_opener import (
    LOCAL,
    open_directories,
    open_storage,
    sibling_of,
    store_of,
)
from ie_serving.storage.base import NEVER, Entry, Storage, shown
from ie_serving.storage.directories import Directories
from ie_serving.storage.inline_version import stated_or
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.siblings import Neighbours, Sibling

FETCH_THREADS: Final = 4
"""Versions of one store fetched at a time, so 16 for the four kinds of store; others wait. Each has
eight connections: more would only share the network. A local version takes milliseconds."""


class VersionRepository(NamedTuple):
    """The repository of one model, which has its versions.

    Attributes:
        store: name of the store, which has its own threads.
        storage: reads the store; opened at the first listing.
        sibling: lists the repository together with its siblings; None if that is not possible.
        fetches: threads that copy its versions.
    """

    store: str
    storage: Storage
    sibling: Sibling | None
    fetches: Executor

    @property
    def is_local(self) -> bool:
        """Whether its versions are read in place."""
        return self.store == LOCAL


class Repositories:
    """Opens repositories and schedules their listings. Lives on one event loop.

    Args of the constructor:
        options: access to stores, and the directory of copies.

    Attributes:
        polls: the listing schedule.
    """

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        # Download threads check this event: a thread cannot be cancelled otherwise.
        self._stopping = threading.Event()
        self._fetches = NamedPools(FETCH_THREADS, "fetch")
        self._listings = NamedPools(MOST_THREADS, "list")
        self._neighbours = Neighbours()
        self.polls = Polls(self._listings.of)

    def of(self, config: ModelConfig) -> VersionRepository:
        """Return the repository of a model. The first listing opens its store."""
        url = config.base_path
        store, sibling = store_of(url), sibling_of(url, self._neighbours)
        opened = LazyStorage(
            url, partial(open_storage, url, self._options, self._stopping, sibling)
        )
        storage = stated_or(opened, config.graph, config.fault)
        return VersionRepository(store, storage, sibling, self._fetches.of(store))

    def directories(self, url: str) -> tuple[Directories, str]:
        """Return what lists a repository of models, and the name of its store."""
        found = open_directories(url, FILES, self._options, self._neighbours, self._stopping)
        return found, store_of(url)

    def stop(self) -> None:
        """Abort all downloads."""
        self._stopping.set()

    def shutdown(self) -> None:
        """Start no more work; return without waiting for threads that hang."""
        self._listings.shutdown()
        self._fetches.shutdown()


class LazyStorage:
    """The storage that `open_store` gives, opened by the thread that first calls a method.

    Opening imports a client, which takes about 0.2 s: too long for the event loop, which configures
    models while requests wait. Also, a store with wrong settings then affects only its own models,
    like a store that does not answer, and is tried again at the next poll. See `Storage`.
    """

    def __init__(self, url: str, open_store: Callable[[], Storage]) -> None:
        self._url = url
        self._open = open_store
        self._lock = threading.Lock()
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
        self, directory: str, entries: tuple[Entry, ...], given_up: threading.Event = NEVER
    ) -> AbstractContextManager[Path]:
        """See `Storage`."""
        return self._store().copy(directory, entries, given_up)

    def _store(self) -> Storage:
        # An open repository is read without the lock: every poll of a thousand models comes here.
        return self._opened or self._open_once()

    def _open_once(self) -> Storage:
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = self._open()
                except ConfigError as error:
                    raise StorageError(*error.args) from error
            return self._opened
