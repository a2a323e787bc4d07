"""The protocols of stores: `Storage` lists and reads entries under one URL, `Remote` objects.

Storage knows nothing of models. Paths are relative to the storage's URL, with `/` between their
parts, whatever the backend uses. Methods block; callers give them a thread. Every backend passes
the same contract test (`tests/unit/storage/contract.py`); a single file, its part on one version.

The mirror reads from a `Remote`: listings, ranges of bytes and checksums. A `Location` is a bucket
and a prefix in it, and turns their objects' keys into file paths. Every uploader can choose a key,
so a key that would lead out of its directory must never become a path.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Event as Flag
from typing import Protocol

from ie_serving.core.values.errors import ConfigError, Missing
from ie_serving.storage.checksums import Checksum
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)
NEVER = Flag()
"""A flag that is never set, for a copy that is wanted to its end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or object.

    Attributes:
        path: relative to the storage's URL, for example `3/model.xml`.
        size: bytes.
        tag: changes whenever the content does: ETag, generation, or mtime and inode.
        modified: seconds since the epoch.
    """

    path: str
    size: int
    tag: str
    modified: float


def fingerprint_of(entries: Iterable[Entry], origin: str = "") -> str:
    """Identify content by the names, sizes and tags of its files, in any order.

    Args:
        entries: the files.
        origin: the files' origin, when equal files of two origins should differ.

    Returns:
        SHA-256 in hexadecimal. The cache names its copies by it, so they outlive this release.
    """
    digest = hashlib.sha256(origin.encode())
    for entry in sorted(entries, key=lambda entry: entry.path):
        line = f"{entry.path}\0{entry.size}\0{entry.tag}\n"
        # Local file names may hold bytes that are no UTF-8; Python carries them as surrogates.
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class Storage(Protocol):
    """Read access to the entries under one URL. Blocking."""

    @property
    def url(self) -> str:
        """The base URL or path, without credentials, as logs and errors show it."""

    def directories(self) -> list[str]:
        """Name the direct sub-directories of the base. One paged, delimited listing.

        Raises:
            Missing: the base itself does not exist.
            StorageError: any other trouble; never an empty list instead.
        """

    def list(self, directory: str) -> Iterator[Entry]:
        """Yield every entry below `directory`, at any depth, in no promised order.

        Raises:
            StorageError: as above. A directory without entries yields nothing.
        """

    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> AbstractContextManager[Path]:
        """Give a local directory that holds exactly these `entries` of `directory`.

        A local store gives the directory itself; a remote one downloads and verifies, pinned to
        each entry's tag. The path stays valid, and is not evicted, until the context exits.
        `given_up` may be set from another thread: a download that is under way then ends.

        Raises:
            EntryChanged: an entry is no longer the one that was listed.
            Corrupted: the bytes do not match the store's checksum or size.
            NotAvailable: it was given up.
            StorageError: any other trouble.
        """


Sink = Callable[[bytes], object]
"""Takes the next bytes of a range."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_USER_INFO = re.compile(r"(?<=://)[^/@]*@")


class Remote(Protocol):
    """Read access to the objects under one URL. Blocking, used by several threads, no retries."""

    @property
    def url(self) -> str:
        """The base URL, without credentials."""

    @property
    def identity(self) -> str:
        """Tells this store's URL from the same URL at another endpoint."""

    def directories(self) -> list[str]:
        """As `Storage.directories`."""

    def list(self, directory: str) -> Iterator[Entry]:
        """As `Storage.list`."""

    def everything(self) -> Iterator[Entry]:
        """Yield every object below the URL, whatever its name, its whole key as its path.

        Raises:
            StorageError: as `Storage.list`.
        """

    def read(self, entry: Entry, start: int, stop: int, sink: Sink) -> None:
        """Pass the bytes from `start` up to `stop` of exactly this `entry.tag` to `sink`.

        Raises:
            EntryChanged: the entry is no longer the one that was listed.
            StorageError: any other trouble; `sink` may have had some of the bytes.
        """

    def checksum(self, entry: Entry) -> Checksum | None:
        """Request the store's checksum of the content of exactly this `entry.tag`.

        Returns:
            None when the store has no usable checksum.
        """


@dataclass(frozen=True, slots=True)
class Location:
    """A bucket and the prefix in it.

    Attributes:
        url: URL in errors and logs.
        bucket: its name.
        prefix: empty, or ends with `/`.
    """

    url: str
    bucket: str
    prefix: str

    @classmethod
    def parse(
        cls, url: str, rest: str, expected: str = "a bucket's name", names: int = 1
    ) -> "Location":
        """Split the part after `scheme://`. A `//` in the path is part of the keys' names.

        Args:
            url: the whole.
            rest: part of the URL behind the scheme.
            expected: the bucket's name, in an error.
            names: number of parts of the path that name the bucket.

        Raises:
            ConfigError: no bucket, or credentials in the URL.
        """
        parts = rest.split("/", names)
        bucket = parts[:names]
        if len(bucket) < names or not all(map(_BUCKET.fullmatch, bucket)):
            raise ConfigError([f"{shown(url)}: expected {expected} after the scheme, alone"])
        path = "".join(parts[names:])
        slash = "" if not path or path.endswith("/") else "/"
        return cls(url, "/".join(bucket), path + slash)

    def directories(self, prefixes: Iterable[str], has_objects: bool) -> list[str]:
        """Name the directories that a delimited listing found.

        Raises:
            Missing: nothing at all lies under the prefix.
        """
        found = list(prefixes)
        if not found and not has_objects:
            self._check_root()
        names = [prefix.removeprefix(self.prefix).rstrip("/") for prefix in found]
        if "" in names:
            _remark_once(Event('keys begin with "//", write // in the base path', url=self.url))
        return [name for name in names if is_plain(name)]

    # Buckets have no directories, so an empty answer may be an empty repository or a typo. At the
    # root of a bucket it is the former, since the bucket itself has just answered.
    def _check_root(self) -> None:
        if self.prefix:
            raise Missing(
                f"{self.url}: no object in bucket {self.bucket!r} begins with {self.prefix!r}: "
                f"correct the path, or upload <version>/<files> below it"
            )

    def above(self) -> "Location | None":
        """Give the parent location; None at the root of a bucket."""
        if not self.prefix:
            return None
        parent, slash, _ = self.prefix[:-1].rpartition("/")
        return replace(self, prefix=parent + slash).directory()

    def directory(self) -> "Location":
        """Give the same location with the one spelling of its URL, which ends with `/`."""
        scheme, _, _ = self.url.partition("://")
        return replace(self, url=f"{scheme}://{self.bucket}/{self.prefix}")

    def entries(self, objects: Iterable[Entry]) -> Iterator[Entry]:
        """Yield those objects that are files, by their paths instead of their keys."""
        for each in objects:
            path = self.path_of(each.path)
            if path is not None:
                yield Entry(path, each.size, each.tag, each.modified)

    def path_of(self, key: str) -> str | None:
        """Give a key's path relative to the URL; None for directory markers and odd paths."""
        path = key.removeprefix(self.prefix)
        if path.endswith("/"):
            return None
        if not is_plain(path):
            _remark_once(
                Event("object left out, its key is not a plain path", url=self.url, key=key)
            )
            return None
        return path


def is_plain(path: str) -> bool:
    """Tell whether `path` stays inside its directory and is the only spelling of its place."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _remark_once(remark: Event) -> None:
    """Log a remark once, although each listing repeats it; the last 1000 are remembered."""
    if next(_firsts(remark.text, *remark.facts.values()), False):
        log.warning(remark)


@lru_cache(maxsize=1000)
def _firsts(*remark: object) -> Iterator[bool]:
    """Give for each remark an iterator that has one True, for the first who looks."""
    return iter((True,))


def shown(url: str) -> str:
    """Hide credentials that were written into a URL."""
    return _USER_INFO.sub("***@", url)
