"""Opens the storage that reads a base path or URL."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Event

from ie_serving.core.values.errors import ConfigError, NotAvailable
from ie_serving.storage.backends.local import LocalStorage, SingleFile, is_model_file
from ie_serving.storage.base import Storage
from ie_serving.storage.directories import BucketDirectories, Directories, LocalDirectories
from ie_serving.storage.mirror import LISTING_TRIES, Mirror
from ie_serving.storage.mirror.download import Transfer
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.siblings import FoundObjects, Neighbours, Sibling
from ie_serving.storage.stores import BY_SCHEME, SCHEME, location_of
from ie_serving.storage.trouble import RetryLoop

LOCAL = "file"
"""The store of local paths, see `store_of`."""


def check_urls(urls: Iterable[str], options: StorageOptions) -> None:
    """Find faults that would keep `open_storage` from opening URLs; imports no store's client.

    Raises:
        ConfigError: all faults, each once.
    """
    # A dictionary for its keys: fifty models of one store share a fault, which is said once, and in
    # the order of the models.
    faults: dict[str, None] = {}
    for url in urls:
        try:
            location_of(url, options)
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise ConfigError(tuple(faults))


def sibling_of(url: str, neighbours: Neighbours) -> Sibling | None:
    """Enter a base path among those that lie beside it; None for one that is listed alone."""
    match = SCHEME.fullmatch(url)
    kind = BY_SCHEME.get(match[1].lower()) if match else None
    if match is None or kind is None:
        return None
    try:
        return neighbours.of(kind.location(url, match[2]))
    except ConfigError:  # reported when the storage is opened
        return None


def open_storage(
    url: str, options: StorageOptions, stopping: Event | None = None, sibling: Sibling | None = None
) -> Storage:
    """Open the store that `url` names; nothing is sent yet.

    Args:
        url: a path, `file://`, or the URL of a remote prefix.
        options: access to the stores, and the directory of copies.
        stopping: set by the owner to break off downloads and waits with NotAvailable.
        sibling: the same URL, to be listed together with those beside it.

    Raises:
        ConfigError: the scheme is unknown, or the URL or a setting is incomplete.
    """
    found = location_of(url, options)
    if isinstance(found, str):
        return SingleFile(found) if is_model_file(found) else LocalStorage(found)
    store, location = found
    above = location.above()
    return Mirror(
        store.open(location),
        options.cache_dir,
        options.cache_size_bytes,
        stopping=stopping,
        transfer=Transfer(least_bytes_per_s=options.min_download_bytes_per_s),
        beside=(sibling, store.open(above)) if sibling and above else None,
    )


def open_directories(
    url: str,
    files: Sequence[str],
    options: StorageOptions,
    neighbours: Neighbours,
    stopping: Event | None = None,
) -> Directories:
    """Open what lists the directories at `url`; nothing is sent yet, and no client imported.

    Args:
        url: URL, as in `open_storage`.
        files: names of a file in each directory, the first that is there counts.
        options: access to the stores.
        neighbours: the base paths below.
        stopping: event that ends waits, as in `open_storage`.

    Raises:
        ConfigError: as `open_storage`.
    """
    found = location_of(url, options)
    if isinstance(found, str):
        return LocalDirectories(LocalStorage(found), files)
    store, location = found
    whole = neighbours.below(location)
    stopped = stopping or Event()

    def pause(seconds: float) -> None:
        if stopped.wait(seconds):
            raise NotAvailable(f"{whole.location.url}: broken off, the server stops")

    def retried(action: Callable[[], FoundObjects]) -> FoundObjects:
        return RetryLoop(LISTING_TRIES, pause).run(action)

    return BucketDirectories(whole, partial(store.open, whole.location), files, retried)


def store_of(url: str) -> str:
    """Name the store that a URL is about by its scheme; `file` for local paths."""
    match = SCHEME.fullmatch(url)
    return match[1].lower() if match else LOCAL
