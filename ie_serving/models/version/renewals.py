"""The renewal of versions whose files have changed.

When the files of a version change, the new content loads while the old one serves, and replaces it
once it can serve: so the version has two models in memory for a while, which is why renewal is an
option. Content that does not load is tried again after a back-off; the old content goes on serving
and the log has a line.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from ie_serving.core.values.versions import State
from ie_serving.models.version.control import VersionControl, VersionWork

Renew = Callable[[VersionControl], VersionControl]
"""Makes the control of a version's present content."""


class Renewals:
    """The renewals of one model.

    Args of the constructor:
        renew: makes the control of the replacement of a serving version.
    """

    def __init__(self, renew: Renew) -> None:
        self._renew = renew
        self._fresh: dict[int, VersionControl] = {}
        self._replaced: list[VersionControl] = []

    @property
    def under_way(self) -> Collection[VersionControl]:
        """The controls of content that does not serve yet."""
        return self._fresh.values()

    @property
    def failures(self) -> Mapping[int, str]:
        """Versions whose new content has failed to load, with the cause."""
        return {number: fresh.error for number, fresh in self._fresh.items() if fresh.error}

    @property
    def are_settled(self) -> bool:
        """Whether all new content whose files are at rest has taken over, or has failed once."""
        fresh = self._fresh.values()
        return all(each.is_settled or not each.candidate.at_rest for each in fresh)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is in memory or on its way."""
        versions = (*self._fresh.values(), *self._replaced)
        return all(version.state is State.END for version in versions)

    def advance(
        self, versions: dict[int, VersionControl], wanted: Collection[int]
    ) -> Iterator[VersionWork]:
        """Begin renewals, continue those begun, and let those that serve take over.

        Args:
            versions: the model's, by number; those that are renewed are replaced in it.
            wanted: numbers of those that go on.

        Yields:
            The work that follows, to run in tasks.
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
    ) -> Iterator[VersionWork]:
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
