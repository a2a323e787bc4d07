"""The known versions of one model, and their end at exit.

`leave_all` closes the code of all versions at process exit, and leaves their memory to the system.
Freeing a thousand models takes five seconds of processor time; the exit of the process frees their
memory at once. What outlives memory is closed: kernels, their child processes, and files.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ie_serving.core.values.versions import State, VersionStatus
from ie_serving.models.repository.source import Candidate
from ie_serving.models.version.control import VersionControl
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.transition_policy import Snapshot
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

ENDED_VERSIONS_KEPT = 100
"""Freed versions of a model that stay in its status; beyond it the oldest numbers go, so that a
model which gets a version every minute does not grow without limit."""


class Versions(dict[int, VersionControl]):
    """Controls of versions by number. Used on the event loop."""

    def notice(self, found: Candidate, make: Callable[[Candidate], VersionControl]) -> None:
        """Pass a version's listing to its control; `make` gives a new version its control."""
        # A version that is being unloaded keeps its control until its end, and a later poll loads
        # it again, so that one number never has two models in memory.
        known = self.get(found.version)
        if known is None or known.state is State.END:
            self[found.version] = make(found)
        else:
            known.found(found)

    def statuses(self) -> list[VersionStatus]:
        """Status of every version, highest first."""
        return [version.status for _, version in sorted(self.items(), reverse=True)]

    def failures(self) -> dict[int, str]:
        """Versions that failed to load, with the cause."""
        return {number: version.error for number, version in self.items() if version.error}

    def failed(self) -> frozenset[int]:
        """Versions that do not serve since their content failed to load, also during retries."""
        return frozenset(n for n, each in self.items() if each.has_failed and not each.servable)

    def is_tried(self, number: int) -> bool:
        """Tell whether a version serves, or has failed to load."""
        version = self.get(number)
        return version is not None and (bool(version.servable) or version.has_failed)

    def serving(self) -> Mapping[int, Servable]:
        """The versions that answer requests."""
        return {number: v.servable for number, v in self.items() if v.servable}

    def snapshots(self, wanted: Collection[int]) -> list[Snapshot]:
        """Give the snapshots for the transition policy, where `wanted` should serve."""
        return [Snapshot(n, v.state, n in wanted, v.is_due) for n, v in self.items()]

    def retries_at(self) -> list[float]:
        """When versions that failed are tried again."""
        return [v.retry_at for v in self.values() if v.retry_at is not None]

    @property
    def are_settled(self) -> bool:
        """Whether nothing is under way, and no first load is still to begin."""
        return all(version.is_settled for version in self.values())

    def are_at_rest(self, wanted: Collection[int]) -> bool:
        """Whether the same listing, found again, moves none; of `wanted`, all serve or load."""
        ended = (n not in self or self[n].state is State.END for n in wanted)
        return not any(ended) and all(version.is_at_rest for version in self.values())

    @property
    def are_out(self) -> bool:
        """Whether none is in memory or on its way; a load may be still to begin."""
        return all(version.state in (State.START, State.END) for version in self.values())

    @property
    def are_gone(self) -> bool:
        """Whether none is in memory or on its way."""
        return all(version.state is State.END for version in self.values())

    def forget_ended(self) -> None:
        """Forget the oldest of the many that are gone."""
        ended = sorted(number for number, v in self.items() if v.state is State.END)
        for number in ended[:-ENDED_VERSIONS_KEPT]:
            del self[number]


async def leave_all(
    versions: Collection[VersionControl],
    works: Iterable["asyncio.Future[Any]"],
    limit_s: float | None = None,
) -> None:
    """Close the code of every version within `limit_s` seconds.

    Args:
        versions: versions, as for `VersionControl.leave`.
        works: tasks that are already ending, such as cancelled loads.
        limit_s: seconds after which code that hangs is abandoned; None: no limit.
    """
    coded = [version for version in versions if not version.is_memory]
    plain = [version for version in versions if version.is_memory]
    calls: list[Callable[[], object]] = [partial(_leave, plain), *(each.leave for each in coded)]
    # A thread for each that runs code: one that hangs holds up no other.
    threads = ThreadPoolExecutor(len(calls), "leave")
    loop = asyncio.get_running_loop()
    begun = [loop.run_in_executor(threads, call) for call in calls]
    await asyncio.wait([*begun, *works], timeout=limit_s)
    threads.shutdown(wait=False)
    for version, left in zip(coded, begun[1:], strict=True):
        if not left.done():
            log.warning(Event("version not closed in time", **version.facts, limit_s=limit_s))


def _leave(versions: Iterable[VersionControl]) -> None:
    for version in versions:
        version.leave()
