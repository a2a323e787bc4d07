"""What a remote backend gives to the mirror: listings, ranges of bytes, and their checksums.

Also where its objects lie, and which keys of a bucket become paths of files. A key is written by
whoever can upload, so one that would lead out of its directory must never become a path.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from ie_serving.core.values.errors import ConfigError, Missing
from ie_serving.storage.base import Entry
from ie_serving.storage.checksums import Checksum
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

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
        """Ask what the store promises about the content of exactly this `entry.tag`.

        Returns:
            None when the store offers nothing that can be checked.
        """


@dataclass(frozen=True, slots=True)
class Location:
    """A bucket and the prefix in it.

    Attributes:
        url: as errors and logs show it.
        bucket: its name.
        prefix: empty, or ends with `/`.
    """

    url: str
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str, rest: str) -> "Location":
        """Split what follows `scheme://`. A `//` in the path is part of the keys' names.

        Raises:
            ConfigError: no bucket, or credentials in the URL.
        """
        bucket, _, path = rest.partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise ConfigError([f"{shown(url)}: expected a bucket's name after the scheme, alone"])
        return cls(url, bucket, path if not path or path.endswith("/") else f"{path}/")

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
            _remark_once(
                str(Event('keys begin with "//", write // in the base path', url=self.url))
            )
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
        """Give what this lies in; None at the root of a bucket."""
        if not self.prefix:
            return None
        parent, slash, _ = self.prefix[:-1].rpartition("/")
        scheme, _, _ = self.url.partition("://")
        return Location(f"{scheme}://{self.bucket}/{parent}{slash}", self.bucket, parent + slash)

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
                str(Event("object left out, its key is not a plain path", url=self.url, key=key))
            )
            return None
        return path


def is_plain(path: str) -> bool:
    """Tell whether `path` stays inside its directory and is the only spelling of its place."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


@lru_cache(maxsize=1000)
def _remark_once(remark: str) -> None:
    """Log what every listing would show again: once, as far as the last 1000 remarks reach."""
    log.warning(remark)


def shown(url: str) -> str:
    """Hide credentials that were written into a URL."""
    return _USER_INFO.sub("***@", url)
