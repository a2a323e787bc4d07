"""The kinds of store, each a row: its module has its settings, its advice and its client."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ie_serving.core.values.errors import ConfigError
from ie_serving.storage.backends.azure import AzureOptions
from ie_serving.storage.backends.gcs import GcsOptions
from ie_serving.storage.backends.minio import MinioOptions
from ie_serving.storage.backends.s3 import S3Options
from ie_serving.storage.base import Location, shown
from ie_serving.storage.options import StorageOptions, StoreOptions

KINDS: Final[Mapping[str, type[StoreOptions]]] = {
    "s3": S3Options,
    "gcs": GcsOptions,
    "minio": MinioOptions,
    "azure": AzureOptions,
}
"""Options by the first word of the names of their settings."""

BY_SCHEME: Final[Mapping[str, type[StoreOptions]]] = {
    scheme: kind for kind in KINDS.values() for scheme in kind.schemes
}

SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
"""The scheme of a URL, and what follows."""


def location_of(url: str, options: StorageOptions) -> str | tuple[StoreOptions, Location]:
    """Give a local path, or the store and location that a URL names; imports no store's client.

    Raises:
        ConfigError: the scheme is unknown, or the URL or a setting is incomplete.
    """
    # No library for URLs: `?`, `#` and `%` are part of the names of objects.
    match = SCHEME.fullmatch(url)
    if match is None:
        return url
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        if not rest.startswith("/"):
            raise ConfigError([f"{url}: expected an absolute path: file:///models/resnet"])
        return rest
    kind = BY_SCHEME.get(scheme)
    if kind is None:
        known = ", ".join(
            f"{name}://" for name in ("file", *(kind.schemes[0] for kind in KINDS.values()))
        )
        raise ConfigError([f"{shown(url)}: unknown scheme: use a path or one of {known}"])
    location, store = kind.location(url, rest), options.of(kind)
    if lacking := store.lacks(location):
        raise ConfigError([f"{url}: {lacking}"])
    for variable, path in store.files().items():
        if path and not Path(path).exists():  # the clients do not say which variable names it
            raise ConfigError([f"{variable}: {path}: no such file; correct the path"])
    return store, location
