"""Watches directories on this machine by inotify(7), so that idle models in them are polled rarely.

The kernel tells of an entry that comes, goes or is written. A directory that may change unnoticed
is not watched and is polled as ever: one on a file system that others write to (NFS, overlay), or
one that a symbolic link leads to. A slow poll is the net for everything else.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ie_serving.telemetry.log.logs import Event

if TYPE_CHECKING:
    from inotify_simple import INotify

    from ie_serving.models.listing.polled_model import PolledModel

log = logging.getLogger(__name__)

FILE_SYSTEMS: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs"})
"""File systems that this machine alone writes to."""

GATHERED_S: Final = 0.05
"""Seconds in which the changes of one model are gathered: a copy of a version makes several."""

MOUNTS: Final = Path("/proc/self/mountinfo")


class WatchedDirectory(NamedTuple):
    """A directory whose entries matter.

    Attributes:
        path: path of the directory.
        names: names of the entries that matter; None: all do.
    """

    path: str
    names: Collection[str] | None = None


class NoticeCover(Enum):
    """Whether changes are told."""

    NO = "no"
    NEW = "from now on"
    YES = "since before the last listing"


class Notices:
    """The directories of idle models. Lives on one event loop; opened at the first use.

    Args of the constructor:
        on_change: called with each model that has changed.
    """

    def __init__(self, on_change: "Callable[[PolledModel], None]") -> None:
        self._on_change = on_change
        self._inotify: INotify | None = None
        self._is_off = False
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._watchers: dict[str, dict[PolledModel, Collection[str] | None]] = {}
        self._paths_of: dict[PolledModel, set[str]] = {}
        self._changed: set[PolledModel] = set()
        self._types: dict[int, str] = {}

    def cover(self, model: "PolledModel") -> NoticeCover:
        """Watch the directories of a model; tell since when all its changes are told."""
        wanted = model.watched()
        new = False
        for path, names in wanted:
            if path not in self._numbers and not self._add(path):
                self.drop(model)
                return NoticeCover.NO
            watchers = self._watchers.setdefault(path, {})
            new = new or model not in watchers
            watchers[model] = names
        paths = {path for path, _ in wanted}
        self._leave(model, self._paths_of.get(model, set()) - paths)
        if not paths:
            return NoticeCover.NO
        self._paths_of[model] = paths
        return NoticeCover.NEW if new else NoticeCover.YES

    def drop(self, model: "PolledModel") -> None:
        """Watch nothing more for a model."""
        self._changed.discard(model)
        self._leave(model, self._paths_of.pop(model, set()))

    def _leave(self, model: "PolledModel", paths: Collection[str]) -> None:
        for path in paths:
            watchers = self._watchers.get(path, {})
            watchers.pop(model, None)
            if not watchers:
                self._remove(path)

    def _add(self, path: str) -> bool:
        if self._is_off or not self._is_told_of(path):
            return False
        from inotify_simple import flags  # here: few servers have so many models

        # No attributes: they change with each subdirectory, and no listing shows them.
        of_entries = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
        of_itself = flags.CLOSE_WRITE | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
        try:
            inotify = self._inotify or self._opened()
            number = inotify.add_watch(path, of_entries | of_itself)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._is_off = True
            facts = {"cause": error.strerror, "advice": "raise fs.inotify.max_user_watches"}
            log.warning(Event("directories are not watched, but polled", **facts))
            return False
        self._paths[number], self._numbers[path] = path, number
        return True

    def _opened(self) -> "INotify":
        from inotify_simple import INotify

        self._inotify = INotify(nonblocking=True)
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read)
        return self._inotify

    def _remove(self, path: str) -> None:
        self._watchers.pop(path, None)
        number = self._numbers.pop(path, None)
        if number is not None and self._inotify is not None:
            self._paths.pop(number, None)
            try:
                self._inotify.rm_watch(number)
            except OSError:  # the kernel has removed it, with its directory
                return

    def _is_told_of(self, path: str) -> bool:
        """Tell whether the kernel tells of every change at a path."""
        try:
            device = os.stat(path).st_dev
        except OSError:
            return False
        if device not in self._types:
            self._types = mounted()
        is_direct = os.path.realpath(path) == os.path.abspath(path)
        return is_direct and self._types.get(device) in FILE_SYSTEMS

    def _read(self) -> None:
        from inotify_simple import flags

        assert self._inotify is not None  # it calls this
        gone = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
        for number, mask, _, name in self._inotify.read(timeout=0):
            if mask & flags.Q_OVERFLOW:  # some changes were lost
                self._note(self._paths_of)
                continue
            path = self._paths.get(number)
            if path is None:
                continue
            watchers = self._watchers.get(path, {})
            self._note([m for m, names in watchers.items() if names is None or name in names])
            if mask & gone:
                self._note(watchers)
                self._remove(path)

    def _note(self, models: "Collection[PolledModel]") -> None:
        if models and not self._changed:
            asyncio.get_running_loop().call_later(GATHERED_S, self._notify)
        self._changed.update(models)

    def _notify(self) -> None:
        changed, self._changed = self._changed, set()
        for model in changed:
            self._on_change(model)


def mounted() -> dict[int, str]:
    """Give the type of each mounted file system by its device."""
    found = {}
    for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
        mount, _, rest = line.partition(" - ")
        major, _, minor = mount.split()[2].partition(":")
        found[os.makedev(int(major), int(minor))] = rest.split()[0]
    return found
