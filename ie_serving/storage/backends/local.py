"""Repositories in the file system: read in place, without a copy.

Symbolic links are followed wherever they stand, so a link that is switched atomically (a Kubernetes
ConfigMap, git-sync, a deployment's `current`) shows as changed tags. Names that begin with `..` are
Kubernetes' own bookkeeping in such volumes and are left out.

A base path may be a model file instead of a directory: the file is version 1. Files beside it with
the same name and a companion's suffix (the `.bin` of a `.xml`) belong to the version; other models
in the same directory do not, nor does the same model in another format.
"""

import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from ie_serving.core.values.errors import (
    EntryChanged,
    Missing,
    NotThereYet,
    StorageError,
    Unauthorized,
    Unreachable,
)
from ie_serving.storage.base import NEVER, Entry, fingerprint_of
from ie_serving.storage.forms import SUFFIXES, another_form, meant_url

_LOST = {errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}
"""A network file system whose server does not answer."""

DEEPEST = 64
"""Most levels of directories below one version. No format needs more than three; a tree without end
would exhaust the stack and cost a listing of each level at every poll."""

SCANNED_EVERY = 10
"""Calls after which a directory is read although its times say that nothing has changed: not every
network file system keeps them."""

KEPT_FROM = 2
"""Number of the first listing of files below one base that is kept in memory. Of ten thousand
models that are loaded on demand, most have their files listed once, and nothing is kept of them."""

SETTLED_S = 2.0
"""Seconds since its last change from which on a directory's times tell the next one: clocks of file
systems tick as rarely as once in that time."""

_Identity = tuple[int, int]
"""Device and inode."""

_Stamp = tuple[int, int, int, int]
"""Device, inode, and when the content and the inode changed last, in ns since the epoch."""

_NOT_THERE: _Stamp = (0, 0, 0, 0)

_RIGHTS = "directories need r-x and files r-- for it"
VERSION = "1"


@dataclass(slots=True)
class _Walk:
    """A version's files as they were last read, valid while the stamps are those on the disk.

    Attributes:
        stamps: stamps of its files and directories by path; `_NOT_THERE`, which no path has later,
            for one that led nowhere.
        entries: the files.
        uses: number of comparisons with the disk since it was read.
    """

    stamps: dict[str, _Stamp]
    entries: tuple[Entry, ...]
    uses: int = 0


class LocalStorage:
    """The directory `base`."""

    def __init__(self, base: str | Path) -> None:
        self._base = Path(base)
        self._path = str(self._base)
        self._names: list[str] = []
        self._stamp: _Stamp | None = None
        self._unscanned = 0
        self._lists = 0
        self._walks: dict[str, _Walk] = {}

    @property
    def url(self) -> str:
        """The path as it was given."""
        return self._path

    def directories(self) -> list[str]:
        """Name the sub-directories, links to directories included.

        Mostly by a look at the base's times: reading it costs five times as much. The list is the
        same one until something changes, and is not to be altered.
        """
        # `_translated` would take as long as `stat` does.
        try:
            began_ns, stamp = time.time_ns(), _stamp_of(os.stat(self._path))
            self._unscanned += 1
            if stamp != self._stamp or self._unscanned >= SCANNED_EVERY:
                self._scan(stamp, began_ns)
        except OSError as error:
            raise _fault(self._base, error) from error
        return self._names

    def _scan(self, stamp: _Stamp, began_ns: int) -> None:
        with os.scandir(self._base) as found:
            self._names = [
                each.name for each in found if _is_shown(each) and _may_be_directory(each)
            ]
        self._unscanned = 0
        self._stamp = stamp if _is_settled(stamp, began_ns) else None
        for gone in self._walks.keys() - {*self._names}:
            del self._walks[gone]

    def list(self, directory: str) -> Iterator[Entry]:
        """Yield every file below `directory`; none when it does not exist but the base does.

        A listing that was kept is given again while the times of its directories and files are
        as they were: comparing these costs a tenth of reading the directories.
        """
        self._lists += 1
        # Not kept: the base may have a million files, and the caller takes the first ones.
        if not directory or self._lists < KEPT_FROM:
            return self._read(directory, {})
        walk = self._walks.pop(directory, None)
        if walk is None or not self._holds(walk):
            began_ns, stamps = time.time_ns(), dict[str, _Stamp]()
            walk = _Walk(stamps, tuple(self._read(directory, stamps)))
            if not stamps or not all(_is_settled(each, began_ns) for each in stamps.values()):
                return iter(walk.entries)
        self._walks[directory] = walk
        return iter(walk.entries)

    @staticmethod
    def _holds(walk: _Walk) -> bool:
        walk.uses += 1
        try:
            is_same = all(_stamp_of(os.stat(path)) == old for path, old in walk.stamps.items())
            return is_same and walk.uses < SCANNED_EVERY
        except OSError:  # the version is read again, which names the fault
            return False

    def _read(self, directory: str, stamps: dict[str, _Stamp]) -> Iterator[Entry]:
        top = self._base / directory
        # A base that vanished (an unmounted volume) is trouble; a version that vanished is news.
        with _translated(top):
            if os.path.lexists(top) or not self._base.exists():
                yield from self._entries(directory, top, stamps)

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        """Give the directory itself, links resolved, so that a switched link does not mix two."""
        top = self._base / directory
        with _translated(top):
            # Resolved before the files are compared: a link that is switched later leads elsewhere,
            # while this path stays with the files that were checked.
            real = top.resolve()
            found = set(self._entries(directory, real, {})) if real.exists() else set()
        if found != set(entries):
            raise EntryChanged(f"{top}: {_difference(found, set(entries))}; it is listed anew")
        for entry in entries:  # an engine that may not read a file names neither file nor cause
            if not os.access(path := self._base / entry.path, os.R_OK):
                raise _forbidden(path)
        yield real

    def _entries(self, directory: str, top: Path, stamps: dict[str, _Stamp]) -> Iterator[Entry]:
        # No directory stands for the base itself, where it holds one model's files.
        prefix = f"{directory}/" if directory else ""
        return _walk(str(top), str(top), prefix, frozenset(), stamps)


def _walk(
    top: str, directory: str, prefix: str, above: frozenset[_Identity], stamps: dict[str, _Stamp]
) -> Iterator[Entry]:
    """Yield the files below `directory`, each directory once; `prefix` stands for `top`."""
    stamps[directory] = stamp = _stamp_of(os.stat(directory))
    # Identify directories by device and inode: by path, a link to a parent would look new at every
    # turn.
    identity = stamp[:2]
    if identity in above:  # a link to one of its own parents
        return
    if len(above) == DEEPEST:
        raise StorageError(
            f"{top}: directories lie more than {DEEPEST} deep in each other: remove {directory}"
        )
    with os.scandir(directory) as found:
        for item in found:
            if not _is_shown(item):
                continue
            try:
                yield from _entries_of(item, top, prefix, above | {identity}, stamps)
            except FileNotFoundError:  # a dangling link, or removed while we list
                stamps[item.path] = _NOT_THERE


def _entries_of(
    item: os.DirEntry[str],
    top: str,
    prefix: str,
    above: frozenset[_Identity],
    stamps: dict[str, _Stamp],
) -> Iterator[Entry]:
    if item.is_dir():
        yield from _walk(top, item.path, prefix, above, stamps)
        return
    status = item.stat()
    stamps[item.path] = _stamp_of(status)
    if stat.S_ISREG(status.st_mode):
        path = prefix + item.path[len(top) + 1 :]  # by Path it takes as long as all else
        yield Entry(path, status.st_size, tag_of(status), status.st_mtime)


def _stamp_of(status: os.stat_result) -> _Stamp:
    # Device and inode tell a link (`current`) that has moved to a directory of the same age.
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _is_settled(stamp: _Stamp, began_ns: int) -> bool:
    # The time is that before the reading: a slow one may take longer than that.
    return began_ns - max(stamp[2:]) > SETTLED_S * 1e9


def tag_of(status: os.stat_result) -> str:
    """Make the tag of a file, which changes with its content."""
    # The inode too: a file renamed into place may carry the time and size of the old one.
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def _may_be_directory(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # such as a link onto itself: listing this entry reports it
        return True


def _is_shown(item: os.DirEntry[str]) -> bool:
    return not item.name.startswith("..")


def _difference(found: set[Entry], expected: set[Entry]) -> str:
    path = min(entry.path for entry in found ^ expected)
    if path not in {entry.path for entry in found}:
        return f"{path!r} was removed after it had been listed"
    if path not in {entry.path for entry in expected}:
        return f"{path!r} appeared after the listing"
    return f"{path!r} was changed after it had been listed"


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into a StorageError with advice."""
    try:
        yield
    except OSError as error:
        raise _fault(path, error) from error


def _way_out(file: Path) -> str:
    base = str(file.with_suffix(""))
    form = another_form([file.name], str(file.parent), f"{base}/1")
    return f"{form}, and use the base path {base}" if form else "correct the base path"


def _forbidden(path: str | Path) -> Unauthorized:
    return Unauthorized(f"{path}: permission denied for user id {os.geteuid()}: {_RIGHTS}")


def _fault(path: Path, error: OSError) -> StorageError:
    where = error.filename or path
    if isinstance(error, FileNotFoundError):
        url = meant_url(str(where))
        meant = f", such as {url} if the store was meant" if url else ""
        return NotThereYet(f"{where}: no such directory: create it or correct the base path{meant}")
    if isinstance(error, NotADirectoryError):
        return Missing(f"{where}: is a file, expected a directory: {_way_out(Path(where))}")
    if isinstance(error, PermissionError):
        return _forbidden(where)
    if error.errno in _LOST:
        return Unreachable(f"{where}: the network file system does not answer: {error.strerror}")
    return StorageError(f"{where}: cannot be read: {error.strerror}")


def is_model_file(path: str) -> bool:
    """Tell whether a base path is a model's file, also one that is not there yet."""
    return Path(path).suffix in SUFFIXES and not Path(path).is_dir()


class SingleFile:
    """One local file as a repository. See `storage.base.Storage`."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path)

    @property
    def url(self) -> str:
        """The path as it was given."""
        return str(self._file)

    def directories(self) -> list[str]:
        """Name the one version."""
        if not self._file.is_file():
            raise NotThereYet(f"{self._file}: no such file: create it or correct the base path")
        return [VERSION]

    def list(self, directory: str) -> Iterator[Entry]:
        """Yield the file and its companions."""
        if directory != VERSION:
            return
        try:
            yield from (self._entry(path) for path in self._files())
        except FileNotFoundError:  # removed while it was listed
            return
        except OSError as error:
            raise StorageError(f"{self._file}: cannot be listed: {error.strerror}") from error

    @contextmanager
    def copy(
        self, directory: str, entries: tuple[Entry, ...], given_up: Flag = NEVER
    ) -> Iterator[Path]:
        """Give a directory with links to exactly these files."""
        if set(self.list(directory)) != set(entries):
            raise EntryChanged(
                f"{self._file} was changed after it had been listed; it is listed anew"
            )
        try:
            made = self._linked(entries)
        except OSError as error:
            raise StorageError(f"{error.filename}: cannot be made: {error.strerror}") from error
        yield made

    def _files(self) -> Iterator[Path]:
        for path in self._file.parent.iterdir():
            belongs = path.stem == self._file.stem and path.suffix not in SUFFIXES
            if (path.name == self._file.name or belongs) and path.is_file():
                yield path

    def _entry(self, path: Path) -> Entry:
        status = path.stat()
        name = f"{VERSION}/{path.name}"
        return Entry(name, status.st_size, tag_of(status), status.st_mtime)

    # Always in the same directory, since compiled models are kept by the path that they were read
    # from. It stays: it holds links alone, and another process may serve the same file.
    def _linked(self, entries: tuple[Entry, ...]) -> Path:
        own = Path(tempfile.gettempdir()) / f"ie_serving-{os.geteuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.geteuid():
            raise Unauthorized(f"{own} belongs to another user: remove it, or set TMPDIR")
        made = own / fingerprint_of(entries, str(self._file.resolve()))[:16]
        made.mkdir(exist_ok=True)
        for entry in entries:
            name = Path(entry.path).name
            with suppress(FileExistsError):
                (made / name).symlink_to((self._file.parent / name).resolve())
        return made
