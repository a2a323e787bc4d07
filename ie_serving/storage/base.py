"""The Storage protocol: lists and reads the entries under one URL.

Storage knows nothing of models. Paths are relative to the storage's URL, with `/` between their
parts, whatever the backend uses. Methods block; callers give them a thread. Every backend passes
the same contract test (`tests/unit/storage/contract.py`).
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from typing import Protocol

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
