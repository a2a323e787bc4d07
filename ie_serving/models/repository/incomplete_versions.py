"""Directories that are not complete versions: the reason, and which of them a poll looks at again.

A text explains files that are no version of a model: another form, a folder too deep, none at all.
It is made from the names of the files alone, and ends with the one command or step that makes a
version of them.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import PurePosixPath

from ie_serving.storage.forms import SUFFIXES, another_form, command

LONGEST_PAUSE_S = 10.0
"""Longest time in seconds between two looks at a directory that is no complete version: one that
stays without a model should not cost a listing at every poll, and an upload that has just ended
should not wait."""


@dataclass(frozen=True, slots=True)
class IncompleteVersion:
    """One incomplete version directory.

    Attributes:
        version: its number.
        directory: its name.
        fingerprint: fingerprint of its present files.
        lacks: the missing files; empty where only the marker file is missing.
        since_s: time at which this content was seen first.
        due_s: time at which the next look is due.
        at_rest: whether two looks have found the same content.
    """

    version: int
    directory: str
    fingerprint: str
    lacks: str
    since_s: float
    due_s: float
    at_rest: bool

    @property
    def is_at_fault(self) -> bool:
        """Whether it stays incomplete: its files have stopped changing."""
        return bool(self.lacks) and self.at_rest


class IncompleteVersions:
    """The incomplete directories of one model. A poll of ten thousand costs next to nothing.

    Args of the constructor:
        clock: seconds since the epoch.
        rests_at_once: treat files as at rest when they are seen first.
    """

    def __init__(self, clock: Callable[[], float], *, rests_at_once: bool) -> None:
        self._clock = clock
        self._rests_at_once = rests_at_once
        self._entries: dict[int, IncompleteVersion] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, version: int) -> IncompleteVersion | None:
        """Give the record of a version; None where the version is not left out."""
        return self._entries.get(version)

    def note(self, version: int, directory: str, fingerprint: str, lacks: str = "") -> None:
        """Note that a look has found it incomplete, and when the next look is due."""
        before, now_s = self._entries.get(version), self._clock()
        is_same = before is not None and before.fingerprint == fingerprint
        since_s = before.since_s if before and is_same else now_s
        # The longer the files have not changed, the less likely they change soon.
        due_s = now_s + min(LONGEST_PAUSE_S, (now_s - since_s) / 4)
        at_rest = is_same or self._rests_at_once
        self._entries[version] = IncompleteVersion(
            version, directory, fingerprint, lacks, since_s, due_s, at_rest
        )

    def forget(self, version: int) -> None:
        """Forget one: it is complete."""
        self._entries.pop(version, None)

    def forget_all_but(self, directories: Mapping[int, str]) -> None:
        """Forget directories that are gone or renamed."""
        self._entries = {
            version: each
            for version, each in self._entries.items()
            if directories.get(version) == each.directory
        }

    def resting(self, known: Collection[int]) -> set[int]:
        """Give those that a poll made now does not look at; those that are `known` aside.

        It looks at two of those that are due, so that a repository with ten thousand of them costs
        no more requests than one with two: at the one that changed last, since an upload is one,
        and at the one that has waited for longest, so that each has its turn.
        """
        due = [each for each in self._due() if each.version not in known]
        newest = max(due, key=attrgetter("since_s"), default=None)
        others = [each for each in due if each is not newest]
        longest = min(others, key=attrgetter("due_s"), default=None)
        looked_at = {each.version for each in (newest, longest) if each}
        return self._entries.keys() - looked_at - set(known)

    def _due(self) -> list[IncompleteVersion]:
        now_s = self._clock()
        # A due time beyond the longest pause was set before the clock was set back.
        latest_s = now_s + LONGEST_PAUSE_S
        return [each for each in self._entries.values() if not now_s < each.due_s <= latest_s]


FindMissing = Callable[[Collection[str]], str | None]
"""Names what a version's files lack; None where they are complete. See `engines.base.Engine`."""

MOST = 1000
"""Files that are looked at: a model has fewer, and a wrong base path may have a million."""
SHOWN = 3
"""Names in a text."""


def incomplete(lacks: str, files: Collection[str], path: str, missing: FindMissing) -> str:
    """Explain a version without a model; `lacks` itself where nothing more is known.

    Args:
        lacks: names the missing files.
        files: files of the version.
        path: its directory.
        missing: function of the engine that finds missing files.
    """
    if not files:
        return f"the directory is empty, {lacks}"
    for folder, inner in _by_folder(files).items():
        if missing(inner) is None:
            move = f"mv {shlex.quote(f'{path}/{folder}')}/* {shlex.quote(path)}/"
            how = command(move, path)
            return f"found a model in {folder}/, one folder too deep: {how}"
    return another_form(files, path, path) or f"found {_listed_names(files)}, {lacks}"


def without_version(
    folders: Collection[str], files: Collection[str], path: str, missing: FindMissing
) -> str:
    """Explain a base path without a directory that is named by a number.

    Args:
        folders: names of its directories.
        files: paths of files below it, `MOST` at most.
        path: path or URL of the base.
        missing: function of the engine that finds missing files.
    """
    first, direct = f"{path}/1", [name for name in files if "/" not in name]
    if is_model(files, missing):
        move = f"mkdir {shlex.quote(first)} && mv {_listed_names(direct, ' ')} {shlex.quote(first)}"
        return f"found a model, but not in a directory named by a number: cd {path} && {move}"
    for folder, inner in _by_folder(files).items():
        whole = f"{path}/{folder}"
        if any(name.partition("/")[0].isdecimal() for name in inner if "/" in name):
            return f"found versions in {folder}/, one folder too deep: use the base path {whole}"
        if missing(inner) is None:
            move = f"mv {shlex.quote(whole)} {shlex.quote(first)}"
            return f"found a model in {folder}/, whose name is not a number: {move}"
    if form := another_form(direct, path, first):
        return form
    found = _listed_names([*(f"{name}/" for name in folders), *direct])
    return (
        f"{path} has no directory that is named by a number, such as 1:"
        f" {f'found {found}' if found else 'it is empty'}: copy the files of the model into {first}"
    )


def is_model(files: Collection[str], missing: FindMissing) -> bool:
    """Tell whether files of a base path are one model's, without a version's directory."""
    # Texts and JSON are models of some engines, and notes and settings everywhere else.
    names = {PurePosixPath(name).suffix for name in files if "/" not in name}
    return bool(names & (SUFFIXES - {".txt", ".json"})) and missing(files) is None


def _by_folder(files: Iterable[str]) -> Mapping[str, Collection[str]]:
    """Group files by their first directory, without it; in the order of the directories."""
    found: dict[str, list[str]] = {}
    for name in sorted(files):
        folder, slash, rest = name.partition("/")
        if slash:
            found.setdefault(folder, []).append(rest)
    return found


def _listed_names(names: Collection[str], between: str = ", ") -> str:
    found = sorted(names)
    return between.join(found[:SHOWN]) + (f"{between}..." if len(found) > SHOWN else "")
