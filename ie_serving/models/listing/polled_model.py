"""A model, or a repository of models, as the schedule of listings sees it."""

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeAlias

from ie_serving.core.values.errors import StorageError
from ie_serving.models.listing.notices import Watched

Found: TypeAlias = Any
"""What a listing found, which only the listed object understands; never None or an exception."""

List = Callable[[], Found]
"""Lists a repository once, in a thread. Raises StorageError."""


class TurnWanted(Exception):
    """A model has more to do at its poll than to look."""


class Polled(Protocol):
    """Its repository is never listed twice at a time: neither by `List` nor by `look`."""

    name: str
    store: str

    def next_poll_s(self) -> float | None:
        """Give the seconds until the next listing is due; None: not before `Polls.now`."""

    def to_list(self) -> List:
        """Give the function that makes the next listing of the repository."""

    def listed(self, listing: Found) -> None:
        """Act on a listing."""

    def not_listed(self, error: StorageError) -> None:
        """Know that a listing has failed."""

    @property
    def is_quiet(self) -> bool:
        """Whether `look` is all that the next poll takes."""

    def watched(self) -> Collection[Watched]:
        """Give the directories in which every change of a quiet model shows; empty where none."""

    def announce(self, after_s: float) -> bool:
        """Know that `look` is called soon, so many seconds after the last one; never blocks.

        Returns:
            False where it would find nothing new, and is not to be called.
        """

    def look(self) -> Found | None:
        """List the repository, in a thread; None: nothing new.

        Raises:
            TurnWanted: it is not quiet any more, and has not been listed.
            StorageError: the listing failed.
        """
