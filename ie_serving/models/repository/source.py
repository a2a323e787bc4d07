"""Turns the listing of a base path into loadable versions. Blocking; callers give it a thread.

A poll costs one listing of the base, which gives the numbers of the versions. The files of a
version are listed only when the policy wants it among those numbers, and then only while it is new,
not at rest, or when the caller requests it (a version that failed to load). An incomplete version
is left out, and the policy chooses among the others; later polls look at it again now and then.
Where no complete version exists, a version that stays incomplete is offered with the list of its
missing files, and fails to load, so that its status says why the model does not serve.

A version is offered once it is complete (its format's files are all there) and at rest (the same
fingerprint in two listings, or untouched for longer than `rest_s`). A version that was offered
stays known until its directory vanishes, whatever happens to its files. A version whose directory
cannot be listed is offered with the reason, and fails to load without affecting other versions.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from ie_serving.core.values.errors import Emptied, StorageError
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.integers import INT64_MAX
from ie_serving.engines.base import NOTHING, Engine
from ie_serving.models.repository.incomplete_versions import (
    MOST,
    IncompleteVersion,
    IncompleteVersions,
    incomplete,
    is_model,
    without_version,
)
from ie_serving.storage.base import Entry, Storage, fingerprint_of
from ie_serving.storage.siblings import Sibling
from ie_serving.storage.trouble import PASSING
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

MOST_MISSED = 8
"""Incomplete directories after which a poll ends. The next poll looks at the rest, and follows at
once when the rest may contain a wanted version. So other models do not wait while a thousand
incomplete directories are looked at, and a version that was found early serves early."""

ChooseVersions = Callable[[Collection[int]], Collection[int]]
"""Says which of the versions that it is given are wanted."""

Files: TypeAlias = tuple[Entry, ...] | StorageError
"""The files of a version, in the order of their paths, or why they could not be listed."""

VERSION = re.compile(r"[0-9]{1,19}")
BASE = ""
"""Stands for the name of a version's directory where the base itself holds the files."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version in storage.

    Attributes:
        version: version number.
        directory: its directory's name under the base, for example `007`.
        entries: its files.
        fingerprint: identifies their content.
        at_rest: whether it may be loaded now.
        fault: reason why it cannot be loaded as it is: its directory could not be listed, or lacks
            a file; else empty.
    """

    version: int
    directory: str
    entries: tuple[Entry, ...]
    fingerprint: str
    at_rest: bool = True
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of one poll.

    Attributes:
        candidates: versions by number, those that were at rest now or at an earlier poll.
        moving: whether a wanted version is still being written, so that another poll is worthwhile
            soon.
        offered: all numbers that are or may be candidates: those not found incomplete.
        fault: reason why there is no version directory; else empty.
    """

    candidates: Mapping[int, Candidate]
    moving: bool
    offered: frozenset[int] = frozenset()
    fault: str = ""


class VersionSource:
    """Watches the versions under one base path.

    Args of the constructor, beside storage and engine:
        rest_s: age in seconds from which files are taken to be complete; 0 takes them at once.
        ready_marker: a file that a version must have to be complete; empty for none.
        lists_base: look at the files of a base without versions, as costs little in a local one.
        takes_base: serve one model's files that lie in the base itself as version 1.
        unload_when_empty: believe a listing that is empty after one that was not.
        sibling: the base path, where it is listed together with others.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        storage: Storage,
        engine: Engine,
        *,
        rest_s: float,
        ready_marker: str = "",
        lists_base: bool = False,
        takes_base: bool = False,
        unload_when_empty: bool = False,
        sibling: Sibling | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sibling = sibling
        self._storage = storage
        self._engine = engine
        self._rest_s = rest_s
        self._ready_marker = ready_marker
        self._lists_base = lists_base
        self._takes_base = takes_base
        self._unload_when_empty = unload_when_empty
        self._clock = clock
        self._known: dict[int, Candidate] = {}
        self._left_out = IncompleteVersions(clock, rests_at_once=rest_s == 0)
        self._last = Listing({}, moving=False)
        self._names: list[str] = []
        self._directories: Mapping[int, str] = {}
        self._fault = ""
        self._chosen_by: ChooseVersions | None = None
        self._is_whole = False
        self._last_seen: dict[str, str] = {}
        self._remarked: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where the versions lie, without credentials."""
        return self._storage.url

    @property
    def is_whole(self) -> bool:
        """Whether the next poll finds nothing new unless the base path has changed."""
        return self._is_whole

    def expect(self, *, is_idle: bool = False) -> bool:
        """Say that `poll` is called soon; never blocks. See `storage.siblings.Sibling`."""
        return self._sibling is None or self._sibling.expect(is_idle=is_idle)

    def poll(
        self, choose: ChooseVersions = lambda found: found, again: Collection[int] = ()
    ) -> Listing:
        """List once.

        Args:
            choose: the version policy; by default every version is wanted.
            again: known versions whose files are to be listed again.

        Returns:
            The very listing of the last poll when nothing has changed since.

        Raises:
            StorageError: the poll gave no result; the caller changes nothing.
        """
        names = self._storage.directories()
        relisted: Mapping[int, Files] = {}
        # Nearly every poll of a thousand models ends here. The policy is compared by identity: one
        # that may have changed is another function.
        if self._is_whole and choose is self._chosen_by and self._as_before(names):
            relisted = {v: self._files(self._directories[v]) for v in again if v in self._known}
            if all(self._is_same(v, relisted.get(v)) for v in again):
                return self._last
        directories = self._directories_of(names)
        known = {v: c for v, c in self._known.items() if directories.get(v) == c.directory}
        # A version that is known is not listed again: a store charges for each listing, and its
        # files are not read again once they are loaded.
        settled = {v for v, candidate in known.items() if candidate.at_rest and v not in again}
        offered = set(directories.keys() - self._left_out.resting(known))
        moving, missed = False, 0
        # Each round lists the files of the versions that the policy wants once incomplete ones are
        # excluded.
        while (unlisted := frozenset(choose(offered)) - settled) and missed < MOST_MISSED:
            for version in sorted(unlisted, reverse=True):
                files = relisted.get(version)
                if files is None:
                    files = self._files(directories[version])
                found = self._inspect(version, directories[version], files)
                moving = moving or (found is not None and not found.at_rest)
                if not self._enter(version, found, known):
                    offered.discard(version)
                    missed += 1
            settled |= unlisted
        listing = Listing(known, moving, frozenset(offered), self._fault)
        if not known and not moving and not unlisted:
            listing = self._without_any(choose(directories.keys()), listing.offered)
        self._known, self._chosen_by = known, choose
        # Versions left out or still being written may change below an unchanged base.
        self._is_whole = not listing.moving and not self._left_out
        if listing != self._last:
            self._last = listing
        return self._last

    def _directories_of(self, names: list[str]) -> Mapping[int, str]:
        """Give the versions' directories; those of the last poll where nothing came or went."""
        if not self._as_before(names):
            self._is_whole = False  # whatever this poll comes to
            self._fault, directories = "", self._version_directories(names)
            if not directories:
                directories = self._without_directories(names)
            self._check_emptied(directories)
            self._forget_all_but(names)
            self._left_out.forget_all_but(directories)
            self._names, self._directories = names, directories
        return self._directories

    def _as_before(self, names: list[str]) -> bool:
        # A base without versions may get files, which `names` lacks: a local list of names is the
        # same object until the base changes. Stores are asked for directories alone.
        if not self._directories and self._lists_base:
            return names is self._names
        return names == self._names

    def _without_directories(self, names: Collection[str]) -> dict[int, str]:
        """Take the base itself as version 1 where it holds a model; else note why not."""
        files: list[str] = []
        with suppress(StorageError):  # such as a folder that may not be read, and is none of ours
            if self._lists_base:  # the base of a store may have a million objects
                files += (each.path for each in islice(self._storage.list(BASE), MOST))
        if self._takes_base and is_model(files, self._engine.missing):
            log.info(
                Event(
                    "the base path itself holds a model, which is served as version 1",
                    path=self.url,
                    advice="move its files into a directory 1 to add versions",
                )
            )
            return {1: BASE}
        shown = [name for name in names if not name.startswith(".")]
        self._fault = without_version(shown, files, self.url, self._engine.missing)
        return {}

    def _without_any(self, wanted: Collection[int], offered: frozenset[int]) -> Listing:
        """Give the incomplete versions at rest, where no version is complete."""
        left_out = [each for version in wanted if (each := self._left_out.get(version))]
        faults = {each.version: _failing(each) for each in left_out if each.is_at_fault}
        moving = any(each.lacks and not each.at_rest for each in left_out)
        return Listing(faults, moving, offered | faults.keys(), self._fault)

    def _enter(self, version: int, found: Candidate | None, known: dict[int, Candidate]) -> bool:
        """Enter a version's listing into `known`; False when it is no candidate yet."""
        if found and found.at_rest:
            known[version] = found
        # Its files are being replaced, or are damaged. It stays known, or the policy would unload
        # the serving version; a retry must not read a mixture of old and new files.
        elif version in known:
            left = self._left_out.get(version)
            if left and left.is_at_fault:
                known[version] = _failing(left)
            else:
                known[version] = replace(known[version], at_rest=False)
        return version in known

    def _forget_all_but(self, names: Collection[str]) -> None:
        """Forget directories that are gone, so that records do not accumulate over years."""
        there = set(names)
        for noted in (self._last_seen, self._remarked):
            for name in noted.keys() - there:
                del noted[name]

    def _check_emptied(self, directories: Collection[int]) -> None:
        # A mount point without its volume is an empty directory. Trusting it would unload every
        # version, and no owner removes all versions of a model that is still configured.
        if self._known and not directories and not self._unload_when_empty:
            self._fault = ""  # that of an empty base, which this one is not taken for
            raise Emptied(
                f"{self._storage.url}: no version is left of {len(self._known)}, which is taken for"
                " a volume that is not mounted: mount it, or remove the model from the"
                " configuration",
                Hint(", or set {server.unload_when_empty}"),
            )

    def _version_directories(self, names: Iterable[str]) -> dict[int, str]:
        chosen: dict[int, str] = {}
        # Sorted, so that of `01` and `1` the same one is taken at every poll.
        for name in sorted(names):
            if not VERSION.fullmatch(name) or int(name) > INT64_MAX:
                self._remark(name, "not a version: its name is not a number")
                continue
            if int(name) in chosen:
                self._remark(chosen[int(name)], f'the same version as "{name}", which is used')
            chosen[int(name)] = name
        return chosen

    def _files(self, directory: str) -> Files:
        """List a version's files; of a directory that cannot be listed, give the error."""
        try:
            return tuple(sorted(self._storage.list(directory), key=lambda entry: entry.path))
        except PASSING:  # the store as a whole is away
            raise
        except StorageError as error:
            return error

    def _is_same(self, version: int, files: Files | None) -> bool:
        """Tell whether a version is at rest with the files that it had at the last poll."""
        known = self._known.get(version)
        # One that could not be listed has no files, but may have become an empty directory.
        if known is None or known.fault:
            return False
        return known.at_rest and known.entries == files

    def _inspect(self, version: int, directory: str, entries: Files) -> Candidate | None:
        if isinstance(entries, StorageError):
            return Candidate(version, directory, (), str(entries), fault=str(entries))
        files = {entry.path.removeprefix(f"{directory}/") for entry in entries}
        fingerprint = fingerprint_of(entries)
        if self._ready_marker and self._ready_marker not in files:
            self._left_out.note(version, directory, fingerprint)
            self._remark(directory, f'it waits for the marker file "{self._ready_marker}"')
            return None
        if lacks := self._engine.missing(files):
            if lacks.startswith(NOTHING):
                path = f"{self.url}/{directory}"
                lacks = incomplete(lacks, files, path, self._engine.missing)
            self._left_out.note(version, directory, fingerprint, lacks)
            self._remark(directory, f"not loaded: {lacks}")
            return None
        self._left_out.forget(version)
        self._remarked.pop(directory, None)
        settled = self._last_seen.get(directory) == fingerprint
        self._last_seen[directory] = fingerprint
        at_rest = settled or self._is_old(entries)
        return Candidate(version, directory, entries, fingerprint, at_rest)

    # Clocks of machines and stores differ, so age alone is not trusted for young files: they are
    # taken when two listings agree.
    def _is_old(self, entries: Collection[Entry]) -> bool:
        newest = max((entry.modified for entry in entries), default=0.0)
        return self._rest_s == 0 or 0 < self._rest_s < self._clock() - newest

    def _remark(self, directory: str, why: str) -> None:
        """Log why a directory is ignored, once for each reason."""
        if self._remarked.get(directory) != why:
            self._remarked[directory] = why
            path = f"{self._storage.url}/{directory}"
            log.info(Event("directory ignored", path=path, cause=why))


def _failing(left: IncompleteVersion) -> Candidate:
    """Give an incomplete version as a candidate that fails to load, with its missing files."""
    return Candidate(left.version, left.directory, (), left.fingerprint, fault=left.lacks)
