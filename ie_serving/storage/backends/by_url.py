"""A base path or URL becomes the storage that reads it."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import NamedTuple

from ie_serving.core.values.errors import ConfigError
from ie_serving.storage.backends.local import LocalStorage
from ie_serving.storage.backends.single_file import SingleFile, is_model_file
from ie_serving.storage.base import Storage
from ie_serving.storage.mirror.download import Transfer
from ie_serving.storage.mirror.mirror import Mirror
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.remote import Location, Remote, shown
from ie_serving.storage.siblings import Neighbours, Sibling

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def check_urls(urls: Iterable[str], options: StorageOptions) -> None:
    """Find what would keep `open_storage` from opening them; imports no store's client.

    Raises:
        ConfigError: all faults, each once.
    """
    # A dictionary for its keys: fifty models of one store share a fault, which is said once, and in
    # the order of the models.
    faults: dict[str, None] = {}
    for url in urls:
        try:
            _place(url, options)
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise ConfigError(tuple(faults))


def sibling_of(url: str, neighbours: Neighbours) -> Sibling | None:
    """Enter a base path among those that lie beside it; None for one that is listed alone."""
    match = _SCHEME.fullmatch(url)
    if match is None or match[1].lower() not in _STORES:
        return None
    try:
        return neighbours.of(Location.parse(url, match[2]))
    except ConfigError:  # said by whoever opens it
        return None


def open_storage(
    url: str,
    options: StorageOptions,
    stopping: Event | None = None,
    sibling: Sibling | None = None,
) -> Storage:
    """Open the store that `url` names; nothing is sent yet.

    Args:
        url: a path, `file://`, or the URL of a remote prefix.
        options: how the stores are reached and where copies are kept.
        stopping: set by the owner to break off downloads and waits with NotAvailable.
        sibling: the same URL, to be listed together with those beside it.

    Raises:
        ConfigError: the scheme is unknown, or the URL or a setting is incomplete.
    """
    place = _place(url, options)
    if isinstance(place, str):
        return SingleFile(place) if is_model_file(place) else LocalStorage(place)
    scheme, location = place
    open_at = _STORES[scheme].open
    above = location.above()
    return Mirror(
        open_at(location, options),
        options.cache_dir,
        options.cache_size_bytes,
        stopping=stopping,
        transfer=Transfer(least_bytes_per_s=options.min_download_bytes_per_s),
        beside=(sibling, open_at(above, options)) if sibling and above else None,
    )


def store_of(url: str) -> str:
    """Name the store that a URL is about by its scheme; `file` for local paths."""
    match = _SCHEME.fullmatch(url)
    return match[1].lower() if match else "file"


def _place(url: str, options: StorageOptions) -> str | tuple[str, Location]:
    """Give a local path, or scheme and location of a remote prefix. Raises: as `open_storage`."""
    # No library for URLs: `?`, `#` and `%` are part of the names of objects.
    match = _SCHEME.fullmatch(url)
    if match is None:
        return url
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        if not rest.startswith("/"):
            raise ConfigError([f"{url}: expected an absolute path: file:///models/resnet"])
        return rest
    store = _STORES.get(scheme)
    if store is None:
        known = ", ".join(f"{name}://" for name in ("file", *_STORES))
        raise ConfigError([f"{shown(url)}: unknown scheme: use a path or one of {known}"])
    location = Location.parse(url, rest)
    for variable, (value, meaning) in store.needs(options).items():
        if not value:
            raise ConfigError([f"{url}: set {variable} to {meaning}"])
    for variable, path in store.files(options).items():
        if path and not Path(path).exists():  # the clients do not say which variable names it
            raise ConfigError([f"{variable}: {path}: no such file"])
    return scheme, location


# Each backend is imported when a URL names its scheme: a client's import takes about 0.2 s and
# memory, which a server of local models should not pay.


def _s3(location: Location, options: StorageOptions) -> Remote:
    from ie_serving.storage.backends.s3 import S3Remote

    return S3Remote(location, options.s3)


def _gcs(location: Location, options: StorageOptions) -> Remote:
    from ie_serving.storage.backends.gcs import GcsRemote

    return GcsRemote(location, options.gcs)


def _minio(location: Location, options: StorageOptions) -> Remote:
    from ie_serving.storage.backends.minio import MinioRemote

    return MinioRemote(location, options.minio)


class _Store(NamedTuple):
    """What is to know of the stores of one scheme.

    Attributes:
        open: make what lists and reads.
        files: the files that a setting may name, by its variable; empty where none is named.
        needs: the values without which no store can be found, by the variable: value and meaning.
    """

    open: Callable[[Location, StorageOptions], Remote]
    files: Callable[[StorageOptions], Mapping[str, str]]
    needs: Callable[[StorageOptions], Mapping[str, tuple[str, str]]] = lambda _: {}


_STORES: Mapping[str, _Store] = {
    "s3": _Store(_s3, lambda options: {"AWS_CA_BUNDLE": options.s3.ca_bundle}),
    "gs": _Store(_gcs, lambda options: {"GOOGLE_APPLICATION_CREDENTIALS": options.gcs.credentials}),
    "minio": _Store(
        _minio,
        lambda options: {"MINIO_CA_BUNDLE": options.minio.ca_bundle},
        lambda options: {"MINIO_ENDPOINT": (options.minio.endpoint, "the store's host:port")},
    ),
}
