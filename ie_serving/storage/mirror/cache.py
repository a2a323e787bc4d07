"""The local cache: one directory for each content, either complete or absent.

    copies/<fingerprint>/      complete and checked; appears by one rename
    partial/<fingerprint>/     being fetched, or left by a fetch that broke off
    locks/<fingerprint>        shared lock to use the copy, exclusive lock to remove it
    locks/<fingerprint>.making exclusive lock to make the copy, or to remove a broken-off fetch
    digests/<fingerprint>      digests of its files (`CopyDigests`)
    listings/                  last known good listings (`Mirror`)
    compiled/                  the engine's own compiled models

Several workers and servers may share one cache. The least recently used copy is evicted first; a
copy in use is never evicted.
"""

import errno
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ie_serving.core.values.digests import crc32_of
from ie_serving.core.values.errors import StorageError
from ie_serving.core.values.hints import Hint
from ie_serving.storage.mirror import locks
from ie_serving.telemetry.log.logs import Event

_Lock = Callable[[Path, locks.Pause], AbstractContextManager[None]]

log = logging.getLogger(__name__)

LARGER_DISK = Hint(", or set {storage.cache_dir} to a larger disk")

COMPILED = "compiled"
"""Name of the directory for compiled models."""

_ABANDONED_S = 24 * 3600.0
"""Age in seconds at which a fetch that broke off is removed. The next try resumes a fetch within
minutes; a fetch not resumed for a day is of a version that is no longer wanted."""
_REMOVED = "removed-"
_MAKING = ".making"
_SPARE_BYTES = 64 << 20
"""Bytes of the disk that copies never take. The cache often shares a disk with logs and with the
system, and a disk that is full to the last byte stops more than this server."""


@dataclass(frozen=True, slots=True)
class _Item:
    """Something that can be evicted.

    Attributes:
        path: a directory under `copies` or `partial`, or a file under `compiled`.
        size: bytes.
        used: time at which it was last used, in seconds since the epoch.
        is_locked: whether its users hold the lock of its name.
    """

    path: Path
    size: int
    used: float
    is_locked: bool

    @property
    def is_partial(self) -> bool:
        """Whether it belongs to a fetch that is under way or broke off."""
        return self.path.parent.name == "partial"

    @property
    def is_waste(self) -> bool:
        """Whether it can be deleted, since it will never be used again."""
        is_unfinished = self.is_partial or self.path.name.startswith(_REMOVED)
        return is_unfinished and time.time() - self.used > _ABANDONED_S


class Cache:
    """The directory `root`, with at most `size_bytes` in it (0: no limit)."""

    def __init__(self, root: Path, size_bytes: int, pause: locks.Pause) -> None:
        self.root = root
        self._size_bytes = size_bytes
        self._pause = pause
        self._digests = CopyDigests(root / "digests")

    @contextmanager
    def lease(self, fingerprint: str, sizes: Mapping[str, int]) -> Iterator[Path | None]:
        """Lease the complete copy, which prevents its eviction; None when there is none.

        Args:
            fingerprint: identifies the content.
            sizes: bytes of each file, by its path in the copy.
        """
        copy = self._copy(fingerprint)
        with self._locked(locks.shared, fingerprint):
            yield copy if self.is_sound(fingerprint, sizes) else None

    @contextmanager
    def making(self, fingerprint: str) -> Iterator[Path]:
        """Give the directory to fetch into, with an exclusive lock on making this copy."""
        # A lock of its own: a copy that is damaged may be in use by a process that has read it.
        with self._locked(locks.exclusive, f"{fingerprint}{_MAKING}"), self.written():
            partial = self.root / "partial" / fingerprint
            partial.mkdir(parents=True, exist_ok=True)
            # In use now, so that `make_room` of another process does not take it for waste.
            os.utime(partial)
            yield partial

    def publish(self, fingerprint: str, made: Path) -> None:
        """Turn the directory `made` into the complete copy. Called within `making`."""
        copy = self._copy(fingerprint)
        with self.written():
            if copy.exists():  # damaged, or else it would not be made again
                self._remove(copy)
            files = (path for path in made.rglob("*") if path.is_file())
            names = [path.relative_to(made).as_posix() for path in files]
            self._digests.keep(fingerprint, made, names)
            copy.parent.mkdir(parents=True, exist_ok=True)
            made.rename(copy)
            shutil.rmtree(self.root / "partial" / fingerprint, ignore_errors=True)

    def touch(self, fingerprint: str) -> None:
        """Note that the copy is used now. A cache that cannot be written keeps its order."""
        try:
            os.utime(self._copy(fingerprint))
        except OSError as error:
            log.debug(
                Event("time of last use of a copy not kept", path=self.root, cause=error.strerror)
            )

    def has(self, fingerprint: str, sizes: Mapping[str, int]) -> bool:
        """Tell whether the complete copy is there; its content is not read."""
        return _is_complete(self._copy(fingerprint), sizes)

    def is_sound(self, fingerprint: str, sizes: Mapping[str, int]) -> bool:
        """Tell whether the complete copy is there, as it was when it was made; remove another."""
        copy = self._copy(fingerprint)
        if not _is_complete(copy, sizes):
            return False
        if self._digests.fit(fingerprint, copy, sizes):
            return True
        with self.written(), suppress(FileNotFoundError):  # another process was quicker
            self._remove(copy)
        return False

    def make_room(self, wanted_bytes: int) -> None:
        """Evict until so much more fits.

        Raises:
            StorageError: the disk itself has no room, whatever is evicted.
        """
        with self.written():
            self.root.mkdir(parents=True, exist_ok=True)
            # The least recently used goes first: `touch` writes that time on each use.
            items = sorted(self._items(), key=lambda item: item.used)
            total = sum(item.size for item in items) + wanted_bytes
            for item in items:
                if self._is_over(total, wanted_bytes) or item.is_waste:
                    total -= item.size if self._evict(item) else 0
            self._check_room(total, wanted_bytes)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Turn an OSError of writing to the cache into a StorageError with advice."""
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error

    def _copy(self, fingerprint: str) -> Path:
        return self.root / "copies" / fingerprint

    @contextmanager
    def _locked(self, lock: _Lock, name: str) -> Iterator[None]:
        folder = self.root / "locks"
        with ExitStack() as stack:
            with self.written():
                if not folder.is_dir():
                    folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(lock(folder / name, self._pause))
            yield

    def _items(self) -> Iterator[_Item]:
        for folder in ("copies", "partial"):
            yield from _measured((self.root / folder).glob("*"), is_locked=True)
        files = (path for path in (self.root / COMPILED).rglob("*") if path.is_file())
        yield from _measured(files, is_locked=False)

    def _is_over(self, total: int, wanted_bytes: int) -> bool:
        over = 0 < self._size_bytes < total
        return over or shutil.disk_usage(self.root).free < wanted_bytes + _SPARE_BYTES

    def _evict(self, item: _Item) -> bool:
        """Remove `item` unless it is in use."""
        # Compiled models carry no lock: a file that the engine has open outlives its name, and one
        # that it misses it makes again.
        if not item.is_locked:
            item.path.unlink(missing_ok=True)
            return True
        # Tried, not waited for: a lock that is held means that the copy serves somewhere.
        name = f"{item.path.name}{_MAKING}" if item.is_partial else item.path.name
        with locks.if_free(self.root / "locks" / name) as is_free:
            if is_free:
                self._remove_copy(item)
            return is_free

    def _remove_copy(self, item: _Item) -> None:
        self._remove(item.path)
        self._digests.forget(item.path.name)
        log.info(Event("copy evicted from the cache", path=item.path, bytes=item.size))

    def _remove(self, path: Path) -> None:
        """Make `path` vanish at once, then delete its content."""
        # One rename, since deleting takes long for a large model and must not be seen half done.
        aside = path.with_name(f"{_REMOVED}{uuid.uuid4().hex}")
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _check_room(self, total: int, wanted_bytes: int) -> None:
        free = shutil.disk_usage(self.root).free
        if free < wanted_bytes + _SPARE_BYTES:
            raise StorageError(
                f"cache {self.root}: {wanted_bytes} bytes are to be fetched and {_SPARE_BYTES} kept"
                f" free, the disk has {free} free: free some",
                LARGER_DISK,
            )
        if 0 < self._size_bytes < total:
            log.warning(
                Event(
                    "cache over its limit, everything else is in use",
                    path=self.root,
                    bytes=total,
                    limit_bytes=self._size_bytes,
                )
            )

    def _fault(self, error: OSError) -> StorageError:
        where = f"cache {self.root}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageError(f"{where}: the disk is full: free some", LARGER_DISK)
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return StorageError(
                f"{where}: cannot be written ({error.strerror}) by user id {os.geteuid()}",
                Hint(": set {storage.cache_dir} to a directory that can"),
            )
        check = Hint(": check {storage.cache_dir}")
        return StorageError(f"{where}: cannot be used: {error.strerror}", check)


def _is_complete(copy: Path, sizes: Mapping[str, int]) -> bool:
    try:
        return copy.is_dir() and all(
            (copy / path).stat().st_size == size for path, size in sizes.items()
        )
    except OSError:
        return False


def _measured(paths: Iterable[Path], is_locked: bool) -> Iterator[_Item]:
    """Measure the remaining copies: another process may evict at the same time."""
    for path in paths:
        try:
            status = path.stat()
            # The engine maps compiled models itself: only their access time shows that it has read
            # one.
            used = status.st_mtime if is_locked else max(status.st_mtime, status.st_atime)
            yield _Item(path, size_on_disk(path), used, is_locked)
        except FileNotFoundError:
            continue


def size_on_disk(path: Path) -> int:
    """Bytes on disk below `path`: a part that is not fetched yet takes none."""
    # Blocks are counted in 512 bytes whatever the file system's own are.
    if not path.is_dir():
        return path.stat().st_blocks * 512
    return sum(
        (Path(folder) / name).lstat().st_blocks * 512
        for folder, _, names in os.walk(path)
        for name in names
    )


class CopyDigests:
    """The digests under `folder`, and which copies this process has compared with theirs.

    The store's checksums are verified when a copy is made. Our own digest detects later damage on
    this disk: a process compares it when it uses the copy for the first time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compared: set[str] = set()

    def keep(self, fingerprint: str, copy: Path, files: Iterable[str]) -> None:
        """Write the digests of a copy, in the directory `copy`, that was just verified.

        Raises:
            OSError: it cannot be read, or they cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        digests = {path: crc32_of(copy / path) for path in files}
        # Written beside and renamed: another process may read them now.
        beside = self._folder / f"{fingerprint}.new"
        beside.write_text(json.dumps(digests))
        beside.replace(self._folder / fingerprint)
        self._compared.add(fingerprint)

    def fit(self, fingerprint: str, copy: Path, files: Iterable[str]) -> bool:
        """Tell whether a copy is as it was written; reads it at its first use alone."""
        if fingerprint in self._compared:
            return True
        known = self._read(fingerprint)
        try:
            if known is None:  # made by an earlier release, which kept no digests
                self.keep(fingerprint, copy, files)
                return True
            damaged = [path for path in files if crc32_of(copy / path) != known.get(path)]
        except OSError as error:  # a read-only cache, or an unreadable copy
            log.warning(Event("copy not compared", path=copy, cause=error.strerror))
            return known is None
        if damaged:
            log.warning(Event("copy damaged, fetched again", path=copy, file=damaged[0]))
            return False
        self._compared.add(fingerprint)
        return True

    def forget(self, fingerprint: str) -> None:
        """Remove the digests of a copy that is gone."""
        self._compared.discard(fingerprint)
        (self._folder / fingerprint).unlink(missing_ok=True)

    def _read(self, fingerprint: str) -> dict[str, int] | None:
        try:
            found: dict[str, int] = json.loads((self._folder / fingerprint).read_text())
        except (OSError, ValueError):
            return None
        return found
