"""The directories below one URL of a store, each with one file of a known name in it, if any.

A repository of models is such a URL: each directory is a model, and the file has its settings.
One listing finds them all.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, Protocol, TypeAlias

from ie_serving.core.values.errors import ConfigError, EntryChanged, StorageError
from ie_serving.storage.base import Entry, Remote, Storage
from ie_serving.storage.siblings import ParentListing, Retried

MOST_BYTES: Final = 1 << 20
"""Size of a file that is read; settings of one model take hundreds of bytes."""

Listed: TypeAlias = Mapping[str, Entry | None]
"""Each directory by its name, with its file."""


class Directories(Protocol):
    """Blocking, but for `expect`."""

    @property
    def url(self) -> str:
        """The URL, without credentials."""

    def expect(self, *, is_idle: bool = False) -> bool:
        """Say that `list` is called soon; see `storage.siblings.Sibling`."""

    def list(self) -> Listed:
        """List once. Raises: as `Storage.directories`."""

    def read(self, entry: Entry) -> bytes:
        """Give the content of a listed file.

        Raises:
            EntryChanged: it is another one by now.
            StorageError: any other trouble.
        """


class LocalDirectories:
    """A directory of the file system. See `Directories`.

    Args of the constructor:
        storage: names the directories.
        files: names of the file, the first that a directory has counts.
    """

    def __init__(self, storage: Storage, files: Sequence[str]) -> None:
        self._storage = storage
        self._files = files

    @property
    def url(self) -> str:
        """See `Directories`."""
        return self._storage.url

    def expect(self, *, is_idle: bool = False) -> bool:
        """See `Directories`."""
        return True

    def list(self) -> Listed:
        """See `Directories`."""
        return {name: self._file(name) for name in self._storage.directories()}

    def _file(self, name: str) -> Entry | None:
        for file in self._files:
            path = f"{name}/{file}"
            whole = f"{self.url}/{path}"
            # Mostly there is none, which this tells in half the time of an exception.
            # A dangling link counts as present: reading it reports the fault of its model.
            if os.access(whole, os.F_OK) or os.access(whole, os.F_OK, follow_symlinks=False):
                return _entry(path, whole)
        return None

    def read(self, entry: Entry) -> bytes:
        """See `Directories`."""
        whole = f"{self.url}/{entry.path}"
        _check_size(whole, entry)
        try:
            with open(whole, "rb", opener=_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise StorageError(f"{whole}: cannot be read: it is no regular file")
                content = file.read(MOST_BYTES)
        except OSError as error:
            raise StorageError(f"{whole}: cannot be read: {error.strerror}") from error
        if _entry(entry.path, whole) != entry:
            raise EntryChanged(f"{whole}: was changed while it was read; it is read anew")
        return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would wait for its writer


def _entry(path: str, whole: str) -> Entry:
    try:
        status = os.stat(whole)
    except OSError:  # a dangling link, or removed meanwhile: reading it reports that
        return Entry(path, 0, "", 0.0)
    tag = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"
    return Entry(path, status.st_size, tag, status.st_mtime)


class BucketDirectories:
    """A prefix of a bucket. See `Directories`.

    Args of the constructor:
        whole: lists the prefix, together with the models below.
        open_remote: makes what reads it, in the thread that lists first.
        files: names of the file, the first that a directory has counts.
        retried: runs a listing.
    """

    def __init__(
        self,
        whole: ParentListing,
        open_remote: Callable[[], Remote],
        files: Sequence[str],
        retried: Retried,
    ) -> None:
        self._whole = whole
        self._open = cache(open_remote)
        self._files = files
        self._retried = retried

    @property
    def url(self) -> str:
        """See `Directories`."""
        return self._whole.location.url

    def expect(self, *, is_idle: bool = False) -> bool:
        """See `Directories`."""
        return self._whole.expect(is_idle=is_idle)

    def list(self) -> Listed:
        """See `Directories`."""
        found = self._whole.look(self._remote(), self._retried)
        return {name: self._file(name, objects) for name, objects in found.items()}

    def _file(self, name: str, objects: Sequence[Entry]) -> Entry | None:
        prefix = self._whole.location.prefix
        for path in (f"{name}/{file}" for file in self._files):
            for each in objects:
                if each.path == prefix + path:
                    return Entry(path, each.size, each.tag, each.modified)
        return None

    def read(self, entry: Entry) -> bytes:
        """See `Directories`."""
        _check_size(f"{self.url}{entry.path}", entry)
        parts: list[bytes] = []
        if entry.size:
            self._remote().read(entry, 0, entry.size, parts.append)
        return b"".join(parts)

    def _remote(self) -> Remote:
        try:
            return self._open()
        except ConfigError as error:
            raise StorageError(*error.args) from error


def _check_size(whole: str, entry: Entry) -> None:
    if entry.size > MOST_BYTES:
        raise StorageError(f"{whole}: has {entry.size} bytes; expected {MOST_BYTES} at most")
