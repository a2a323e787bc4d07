"""Directories that are not complete versions, and which of them a poll looks at again."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter

LONGEST_PAUSE_S = 10.0
"""Longest time in seconds between two looks at a directory that is no complete version: one that
stays without a model should not cost a listing at every poll, and an upload that has just ended
should not wait."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One incomplete version directory.

    Attributes:
        version: its number.
        directory: its name.
        fingerprint: of its present files.
        lacks: the missing files; empty where only the marker file is missing.
        since_s: when this content was seen first.
        due_s: when the next look is due.
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


class LeftOuts:
    """The incomplete directories of one model. A poll of ten thousand costs next to nothing.

    Args of the constructor:
        clock: seconds since the epoch.
        rests_at_once: treat files as at rest when they are seen first.
    """

    def __init__(self, clock: Callable[[], float], *, rests_at_once: bool) -> None:
        self._clock = clock
        self._rests_at_once = rests_at_once
        self._entries: dict[int, LeftOut] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, version: int) -> LeftOut | None:
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
        self._entries[version] = LeftOut(
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

    def _due(self) -> list[LeftOut]:
        now_s = self._clock()
        # A due time beyond the longest pause was set before the clock was set back.
        latest_s = now_s + LONGEST_PAUSE_S
        return [each for each in self._entries.values() if not now_s < each.due_s <= latest_s]
