"""Opens the repositories of models, and has the schedule and the threads that read them."""

import threading
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from ie_serving.models.configuration import ModelConfig
from ie_serving.models.listing.schedule import MOST_THREADS, Polls
from ie_serving.storage.backends.by_url import open_storage, sibling_of, store_of
from ie_serving.storage.backends.later import OpenedLater
from ie_serving.storage.base import Storage
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.pools import StorePools
from ie_serving.storage.siblings import Neighbours, Sibling
from ie_serving.storage.stated import stated_or

FETCH_THREADS: Final = 4
"""Versions of one store fetched at a time, so 16 of all four kinds. Each download has eight
connections of its own; more would only share the network. Local versions pass in milliseconds."""


class Repository(NamedTuple):
    """Where one model's versions lie.

    Attributes:
        store: name of the store, which has threads of its own.
        storage: reads it; opened at the first listing.
        sibling: lists it together with those beside it; None where they cannot be.
        fetches: threads that copy its versions.
    """

    store: str
    storage: Storage
    sibling: Sibling | None
    fetches: Executor


class Repositories:
    """Lives on one event loop.

    Args of the constructor:
        options: how stores are reached, and where copies are kept.

    Attributes:
        polls: the schedule of their listings.
    """

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        # Threads that download look at it: they cannot be cancelled otherwise.
        self._stopping = threading.Event()
        self._fetches = StorePools(FETCH_THREADS, "fetch")
        self._listings = StorePools(MOST_THREADS, "list")
        self._neighbours = Neighbours()
        self.polls = Polls(self._listings.of)

    def of(self, config: ModelConfig) -> Repository:
        """Give the repository of a model. Its store is opened when it is listed first."""
        url = config.base_path
        store, sibling = store_of(url), sibling_of(url, self._neighbours)
        opened = OpenedLater(
            url, partial(open_storage, url, self._options, self._stopping, sibling)
        )
        storage = stated_or(opened, config.graph)
        return Repository(store, storage, sibling, self._fetches.of(store))

    def stop(self) -> None:
        """Break off the downloads."""
        self._stopping.set()

    def shutdown(self) -> None:
        """Begin nothing more, without a wait for what hangs."""
        self._listings.shutdown()
        self._fetches.shutdown()
