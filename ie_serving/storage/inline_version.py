"""Storage of one version whose only file is a text in the configuration."""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Event as Flag
from typing import Protocol

from ie_serving.core.runtime.scratch import Scratch
from ie_serving.core.values.errors import StorageError
from ie_serving.storage.base import NEVER, Entry, Storage

LONG_AGO = 1.0
"""Time of the file's last change, in seconds since the epoch: it is at rest."""


class InlineText(Protocol):
    """A file of a model whose content stands in the configuration."""

    @property
    def text(self) -> str:
        """Content of the file."""

    @property
    def file(self) -> str:
        """Name of the file."""

    @property
    def version(self) -> int:
        """Number of the version that has the file."""


class InlineVersion:
    """One version with one file. See `storage.base.Storage`.

    Args of the constructor:
        url: names the storage in logs.
        version: number of the version.
        name: name of the file in the version's directory.
        text: content of the file.
    """

    def __init__(self, url: str, version: int, name: str, text: str) -> None:
        self.url = url
        self._version = str(version)
        self._name = name
        self._content = text.encode()

    def directories(self) -> list[str]:
        """Name the one version."""
        return [self._version]

    def list(self, directory: str) -> Iterator[Entry]:
        """Yield its file."""
        if directory == self._version:
            tag = hashlib.sha256(self._content).hexdigest()
            yield Entry(f"{directory}/{self._name}", len(self._content), tag, LONG_AGO)

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        """Give a directory with the file, which goes with the context."""
        with ExitStack() as stack:
            try:
                path = stack.enter_context(Scratch())
            except OSError as error:
                raise StorageError(
                    f"{self.url}: no temporary directory: {error.strerror}"
                ) from error
            (path / self._name).write_bytes(self._content)
            yield path


class UnreadableBase:
    """A base path whose files are not read, since the settings of its model cannot be used.

    Its versions are listed, so that the status of each says why it does not serve.

    Args of the constructor:
        storage: lists the versions.
        fault: reason why their files are not read.
    """

    def __init__(self, storage: Storage, fault: str) -> None:
        self.url = storage.url
        self._storage = storage
        self._fault = fault

    def directories(self) -> list[str]:
        """See `storage.base.Storage`."""
        return self._storage.directories()

    def list(self, directory: str) -> Iterator[Entry]:
        """Raise StorageError."""
        raise StorageError(self._fault)

    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> AbstractContextManager[Path]:
        """Raise StorageError."""
        raise StorageError(self._fault)


def stated_or(storage: Storage, stated: InlineText | None, fault: str = "") -> Storage:
    """Give the version that is stated, or `storage`, whose versions have the fault if any."""
    if fault:
        return UnreadableBase(storage, fault)
    if stated is None:
        return storage
    return InlineVersion(storage.url, stated.version, stated.file, stated.text)
