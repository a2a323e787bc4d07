"""A base path or URL becomes the storage that reads it."""

import re
from collections.abc import Callable, Mapping

from ie_serving.errors import ConfigError
from ie_serving.storage.base import Storage
from ie_serving.storage.local import LocalStorage
from ie_serving.storage.options import StorageOptions

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def open_storage(url: str, options: StorageOptions) -> Storage:
    """Open the store that `url` names; nothing is sent yet.

    Args:
        url: a path, or `file://`.
        options: how the stores are reached.

    Raises:
        ConfigError: the scheme is unknown, or the URL is incomplete.
    """
    match = _SCHEME.fullmatch(url)
    if match is None:
        return LocalStorage(url)
    scheme, rest = match[1].lower(), match[2]
    if scheme not in _OPENERS:
        known = ", ".join(f"{name}://" for name in _OPENERS)
        raise ConfigError([f"{url}: unknown scheme {scheme!r}: use a path or one of {known}"])
    return _OPENERS[scheme](url, rest, options)


def _open_file(url: str, rest: str, options: StorageOptions) -> Storage:
    if not rest.startswith("/"):
        raise ConfigError([f"{url}: expected an absolute path: file:///models/resnet"])
    return LocalStorage(rest)


_OPENERS: Mapping[str, Callable[[str, str, StorageOptions], Storage]] = {"file": _open_file}
