"""A base path or URL becomes the storage that reads it."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

from ie_serving.errors import ConfigError
from ie_serving.storage.base import Storage
from ie_serving.storage.local import LocalStorage
from ie_serving.storage.mirror import Mirror
from ie_serving.storage.options import StorageOptions
from ie_serving.storage.remote import Location, Remote, shown

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def open_storage(url: str, options: StorageOptions, stopping: Event | None = None) -> Storage:
    """Open the store that `url` names; nothing is sent yet.

    Args:
        url: a path, `file://`, or the URL of a remote prefix.
        options: how the stores are reached and where copies are kept.
        stopping: set by the owner to break off downloads and waits with NotAvailable.

    Raises:
        ConfigError: the scheme is unknown, or the URL or a setting is incomplete.
    """
    match = _SCHEME.fullmatch(url)
    if match is None:
        return LocalStorage(url)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _open_file(url, rest)
    if scheme not in _REMOTES:
        known = ", ".join(f"{name}://" for name in ("file", *_REMOTES))
        raise ConfigError([f"{shown(url)}: unknown scheme: use a path or one of {known}"])
    remote = _REMOTES[scheme](Location.parse(url, rest), options)
    return Mirror(remote, options.cache_dir, options.cache_size_bytes, stopping=stopping)


def _open_file(url: str, path: str) -> Storage:
    if not path.startswith("/"):
        raise ConfigError([f"{url}: expected an absolute path: file:///models/resnet"])
    return LocalStorage(path)


def _s3(location: Location, options: StorageOptions) -> Remote:
    _check_file("AWS_CA_BUNDLE", options.s3.ca_bundle)
    from ie_serving.storage.s3 import S3Remote

    return S3Remote(location, options.s3)


def _gcs(location: Location, options: StorageOptions) -> Remote:
    _check_file("GOOGLE_APPLICATION_CREDENTIALS", options.gcs.credentials)
    from ie_serving.storage.gcs import GcsRemote

    return GcsRemote(location, options.gcs)


def _minio(location: Location, options: StorageOptions) -> Remote:
    if not options.minio.endpoint:
        raise ConfigError([f"{location.url}: set MINIO_ENDPOINT to the store's host:port"])
    _check_file("MINIO_CA_BUNDLE", options.minio.ca_bundle)
    from ie_serving.storage.minio import MinioRemote

    return MinioRemote(location, options.minio)


def _check_file(variable: str, path: str) -> None:
    """Say that a file is missing by the variable that names it; the clients do not."""
    if path and not Path(path).exists():
        raise ConfigError([f"{variable}: {path}: no such file"])


_REMOTES: Mapping[str, Callable[[Location, StorageOptions], Remote]] = {
    "s3": _s3,
    "gs": _gcs,
    "minio": _minio,
}
