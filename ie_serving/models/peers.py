"""The server's other workers, as this worker's models see them. Clients see one server.

A server with one worker has `NO_PEERS`. With several workers, a version is AVAILABLE once every
worker serves it: only then does it become the default, replace other versions, and have that
status. A version that only some workers serve answers there, to requests that name its number.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.models.version.transition_policy import Snapshot

_ON_ITS_WAY_OUT = (State.UNLOADING, State.END)

_NEARNESS = (State.END, State.START, State.UNLOADING, State.LOADING, State.AVAILABLE)

KnownStatuses = Mapping[str, Sequence[VersionStatus]]
"""Statuses of versions by the name of the model, highest first."""


class Peers:
    """The questions that this worker's models ask about the other workers; here there are none."""

    def statuses(
        self, model: str, own: list[VersionStatus], *, anywhere: bool = False
    ) -> list[VersionStatus]:
        """Give the statuses for clients.

        Args:
            model: its name.
            own: the statuses of this worker.
            anywhere: a version is AVAILABLE where one worker has it; each loads its own on demand.
        """
        return own

    def shared(self, model: str, versions: Collection[int]) -> Collection[int]:
        """Give those of `versions` that each other worker has AVAILABLE, too."""
        return versions

    def snapshots(self, model: str, own: list[Snapshot]) -> list[Snapshot]:
        """Give the snapshots for the transition policy, where this worker's are `own`."""
        return own

    def changed(self) -> None:
        """Hear that a version of this worker may have another state."""


NO_PEERS = Peers()


class ListedPeers(Peers):
    """Other workers, which show the statuses of their versions.

    Args of the constructor:
        known: gives the statuses of each other worker that takes requests, as they are known now.
        changed: called when a version of this worker may have another state.
        show: shows them the present states of this worker's versions.
    """

    def __init__(
        self,
        known: Callable[[], Collection[KnownStatuses]],
        changed: Callable[[], None],
        show: Callable[[], None] = lambda: None,
    ) -> None:
        self._known = known
        self._changed = changed
        self._show = show

    def statuses(
        self, model: str, own: list[VersionStatus], *, anywhere: bool = False
    ) -> list[VersionStatus]:
        """See `Peers`: any other worker that is asked after this reply says the same, or newer."""
        self._show()
        workers = [own, *(known.get(model, ()) for known in self._known())]
        return furthest(workers) if anywhere else merged(workers)

    def shared(self, model: str, versions: Collection[int]) -> Collection[int]:
        """See `Peers`."""
        found = set(versions)
        for known in self._known():
            found &= available(known.get(model, ()))
        return found

    def snapshots(self, model: str, own: list[Snapshot]) -> list[Snapshot]:
        """See `Peers`: a wanted version that is not AVAILABLE everywhere replaces nothing."""
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
    """Give the statuses of one model for clients, highest version first.

    Args:
        workers: the statuses of each worker.
    """
    by_version: dict[int, list[VersionStatus]] = {}
    for statuses in workers:
        for status in statuses:
            by_version.setdefault(status.version, []).append(status)
    return [
        _of_all(found, is_everywhere=len(found) == len(workers))
        for _, found in sorted(by_version.items(), reverse=True)
    ]


def furthest(workers: Sequence[Sequence[VersionStatus]]) -> list[VersionStatus]:
    """Give of each version the status of the worker that is nearest to serve it."""
    found: dict[int, VersionStatus] = {}
    for status in (each for statuses in workers for each in statuses):
        known = found.setdefault(status.version, status)
        if _NEARNESS.index(status.state) > _NEARNESS.index(known.state):
            found[status.version] = status
    return [status for _, status in sorted(found.items(), reverse=True)]


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


def gained_or_lost(before: Collection[KnownStatuses], after: Collection[KnownStatuses]) -> set[str]:
    """Name the models whose AVAILABLE versions on other workers have changed."""
    return {
        model
        for model in {name for known in (*before, *after) for name in known}
        if _shares(before, model) != _shares(after, model)
    }


def _shares(workers: Collection[KnownStatuses], model: str) -> list[frozenset[int]]:
    return [available(known.get(model, ())) for known in workers]
