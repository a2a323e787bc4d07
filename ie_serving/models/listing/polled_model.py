"""A model as the schedule of listings sees it."""

from collections.abc import Callable
from typing import Protocol

from ie_serving.core.values.errors import StorageError
from ie_serving.models.repository.source import Listing

List = Callable[[], Listing]
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
        """Give what lists the repository as it is asked for now."""

    def listed(self, listing: Listing) -> None:
        """Act on a listing."""

    def not_listed(self, error: StorageError) -> None:
        """Know that a listing has failed."""

    @property
    def is_quiet(self) -> bool:
        """Whether `look` is all that the next poll takes."""

    def look(self) -> Listing | None:
        """List the repository, in a thread; None: nothing new.

        Raises:
            TurnWanted: it is not quiet any more, and has not been listed.
            StorageError: the listing failed.
        """
