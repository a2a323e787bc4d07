"""The other workers of the server, as the models of this one see them: one server to clients.

With one worker there are none (`NoPeers`). With several, a version is AVAILABLE where each worker
has it: only then it is the default and replaces others, and the status says so. A version that some
workers have is asked for by its number in those.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.models.version.transition_policy import Snapshot

_ON_ITS_WAY_OUT = (State.UNLOADING, State.END)

Known = Mapping[str, Sequence[VersionStatus]]
"""Statuses of versions by the name of the model, highest first."""


class Peers(Protocol):
    """What the models of this worker ask."""

    def statuses(self, model: str, own: list[VersionStatus]) -> list[VersionStatus]:
        """Give what clients are told, where this worker would tell `own`."""

    def shared(self, model: str, versions: Collection[int]) -> Collection[int]:
        """Give those of `versions` that each other worker has AVAILABLE, too."""

    def snapshots(self, model: str, own: list[Snapshot]) -> list[Snapshot]:
        """Give what the transition policy sees, where this worker alone would see `own`."""

    def changed(self) -> None:
        """Hear that a version of this worker may have another state."""


class NoPeers:
    """The only worker."""

    def statuses(self, model: str, own: list[VersionStatus]) -> list[VersionStatus]:
        """See `Peers`."""
        return own

    def shared(self, model: str, versions: Collection[int]) -> Collection[int]:
        """See `Peers`."""
        return versions

    def snapshots(self, model: str, own: list[Snapshot]) -> list[Snapshot]:
        """See `Peers`."""
        return own

    def changed(self) -> None:
        """See `Peers`."""


NO_PEERS = NoPeers()


class ListedPeers:
    """Other workers, which show the statuses of their versions.

    Args of the constructor:
        known: gives those of each other worker that takes requests, as they are known now.
        changed: told that a version of this worker may have another state.
    """

    def __init__(self, known: Callable[[], Collection[Known]], changed: Callable[[], None]) -> None:
        self._known = known
        self._changed = changed

    def statuses(self, model: str, own: list[VersionStatus]) -> list[VersionStatus]:
        """See `Peers`."""
        return merged([own, *(known.get(model, ()) for known in self._known())])

    def shared(self, model: str, versions: Collection[int]) -> Collection[int]:
        """See `Peers`."""
        found = set(versions)
        for known in self._known():
            found &= available(known.get(model, ()))
        return found

    def snapshots(self, model: str, own: list[Snapshot]) -> list[Snapshot]:
        """See `Peers`: what is wanted and not AVAILABLE everywhere replaces nothing."""
        serving = [each.version for each in own if each.aspired and each.state is State.AVAILABLE]
        lacking = set(serving) - set(self.shared(model, serving))
        if not lacking:
            return own
        return [
            replace(each, state=State.LOADING, due=False) if each.version in lacking else each
            for each in own
        ]

    def changed(self) -> None:
        """See `Peers`."""
        self._changed()


def available(statuses: Sequence[VersionStatus]) -> frozenset[int]:
    """Give the versions that are AVAILABLE."""
    return frozenset(each.version for each in statuses if each.state is State.AVAILABLE)


def merged(workers: Sequence[Sequence[VersionStatus]]) -> list[VersionStatus]:
    """Give what clients are told of one model, highest version first.

    Args:
        workers: the statuses that each of them has.
    """
    by_version: dict[int, list[VersionStatus]] = {}
    for statuses in workers:
        for status in statuses:
            by_version.setdefault(status.version, []).append(status)
    return [
        _of_all(found, is_everywhere=len(found) == len(workers))
        for _, found in sorted(by_version.items(), reverse=True)
    ]


def _of_all(found: Sequence[VersionStatus], *, is_everywhere: bool) -> VersionStatus:
    error = next((each.error for each in found if each.error), "")
    remark = next((each.remark for each in found if each.remark), "")
    state = _state([each.state for each in found], is_everywhere=is_everywhere)
    return VersionStatus(found[0].version, state, error, "" if error else remark)


def _state(states: Sequence[State], *, is_everywhere: bool) -> State:
    if len(set(states)) == 1 and (is_everywhere or states[0] is not State.AVAILABLE):
        return states[0]
    # Given up somewhere, and so everywhere soon.
    return State.UNLOADING if set(states) & set(_ON_ITS_WAY_OUT) else State.LOADING


def gained_or_lost(before: Collection[Known], after: Collection[Known]) -> set[str]:
    """Name the models of which other workers have other versions AVAILABLE than before."""
    return {
        model
        for model in {name for known in (*before, *after) for name in known}
        if _shares(before, model) != _shares(after, model)
    }


def _shares(workers: Collection[Known], model: str) -> list[frozenset[int]]:
    return [available(known.get(model, ())) for known in workers]
