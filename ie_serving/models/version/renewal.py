"""Versions whose files have changed while they serve, loaded beside themselves.

The new content loads while the old one serves, and takes its place when it serves as well: so the
number has two models in memory for a while, which is why this is an option. Content that does not
load is tried again after a back-off, and costs nothing but a line in the log.
"""

from collections.abc import Callable, Collection, Iterator

from ie_serving.core.values.versions import State
from ie_serving.models.version.control import VersionControl, Work

Renew = Callable[[VersionControl], VersionControl]
"""Makes the control of a version's present content."""


class Renewals:
    """The renewals of one model.

    Args of the constructor:
        renew: makes the control of what is to replace one that serves.
    """

    def __init__(self, renew: Renew) -> None:
        self._renew = renew
        self._fresh: dict[int, VersionControl] = {}
        self._replaced: list[VersionControl] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is in memory or on its way."""
        versions = (*self._fresh.values(), *self._replaced)
        return all(version.state is State.END for version in versions)

    def advance(
        self, versions: dict[int, VersionControl], wanted: Collection[int]
    ) -> Iterator[Work]:
        """Begin renewals, carry on those begun, and let those that serve take over.

        Args:
            versions: the model's, by number; those that are renewed are replaced in it.
            wanted: numbers of those that go on.

        Yields:
            What is to be done for it, to be run in tasks.
        """
        self._replaced = [v for v in self._replaced if v.state is not State.END]
        for number in wanted:
            version = versions.get(number)
            if version and version.is_outdated and number not in self._fresh:
                self._fresh[number] = self._renew(version)
        for number, fresh in list(self._fresh.items()):
            yield from self._carry_on(number, fresh, versions, wanted)

    def _carry_on(
        self,
        number: int,
        fresh: VersionControl,
        versions: dict[int, VersionControl],
        wanted: Collection[int],
    ) -> Iterator[Work]:
        old = versions.get(number)
        if old is None or not old.is_outdated or number not in wanted:
            leaving = self._fresh.pop(number)
        elif fresh.servable:
            leaving, versions[number] = old, self._fresh.pop(number)
        else:
            fresh.found(old.candidate)
            if fresh.is_due:
                yield fresh.load()
            return
        self._replaced.append(leaving)
        if work := leaving.drop():
            yield work
