"""Base paths that lie side by side in a store, listed together by one listing of what is above.

A thousand models below `s3://bucket/models/` would cost a thousand requests at every poll, and the
files of a version one more. So whoever is about to list says so beforehand. The first of them that
begins lists for all that are expected by then, with every object below, if that takes fewer
requests; the others find what they need in it.

What else lies there may be much more than the models are, and a listing of it may be forbidden.
Then each lists for itself as if this module were not there, and all together is tried again later.
Trouble that passes (a store that does not answer) is that of all who were expected.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias
from weakref import WeakValueDictionary

from ie_serving.core.values.errors import StorageError
from ie_serving.storage.base import Entry
from ie_serving.storage.remote import Location, Remote
from ie_serving.storage.retry import PASSING
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

FEWEST = 8
"""Base paths from which on they are listed together."""

EACH = 20
"""Objects for each base path that a listing of all may take: beyond it each lists for itself. That
many cost as much processor time as a request of its own: 1.3 ms of 3.5 by boto3, 2.0 of 1.8 by
MinIO's client. A thousand objects are one request, so this is 50 times fewer requests at the
least."""

KNOWN_S = 600.0
"""Seconds for which it is remembered what a listing of all takes, or that it is forbidden."""

Found: TypeAlias = Mapping[str, Sequence[Entry]] | None
"""Objects by the prefix of the base path that they lie under; None: more than is worthwhile."""

Retried: TypeAlias = Callable[[Callable[[], Found]], Found]
"""Runs a listing until it succeeds, or its tries are used up."""


@dataclass(eq=False, slots=True)
class _Turn:
    """One base path's next listing."""

    prefix: str
    outcome: Sequence[Entry] | StorageError | None = None


class Siblings:
    """The base paths directly below one prefix of a bucket.

    Args of the constructor:
        above: that prefix.
        clock: seconds that only grow.
    """

    def __init__(self, above: Location, clock: Callable[[], float] = time.monotonic) -> None:
        self._above = above
        self._clock = clock
        self._expected: set[_Turn] = set()
        self._marking = Lock()  # of what is expected: the event loop takes it, so nobody keeps it
        self._listing = Lock()
        self._fewest: float = FEWEST
        self._known_until = 0.0

    def expect(self, turn: _Turn, instead_of: _Turn | None) -> None:
        """Await the listing of one base path, that before which may never have come about."""
        with self._marking:
            if instead_of:
                self._expected.discard(instead_of)
            self._expected.add(turn)

    def look(self, turn: _Turn, remote: Remote, retried: Retried) -> Sequence[Entry] | None:
        """Give the objects of one base path, or None when it is to be listed alone.

        Raises:
            StorageError: the store does not answer.
        """
        # One listing at a time: whoever waits here for another's mostly finds its outcome then.
        with self._listing:
            if turn.outcome is None and self._is_worthwhile():
                self._list(remote, retried)
            with self._marking:
                self._expected.discard(turn)
        if isinstance(turn.outcome, StorageError):
            # Anew, since each thread that raises one writes its own stack into it.
            raise type(turn.outcome)(*turn.outcome.args)
        return turn.outcome

    def _is_worthwhile(self) -> bool:
        if self._clock() > self._known_until:
            self._fewest = FEWEST
        return len(self._expected) >= self._fewest

    def _list(self, remote: Remote, retried: Retried) -> None:
        # Whoever is expected from now on has asked after this listing began, and may ask for what
        # came since: that is for the next one.
        with self._marking:
            turns, self._expected = self._expected, set()
        self._known_until = self._clock() + KNOWN_S
        prefixes = {turn.prefix for turn in turns}
        found: Found = None
        try:
            found = retried(lambda: self._objects(remote, prefixes, len(turns)))
        except PASSING as error:
            for turn in turns:
                turn.outcome = error
        except StorageError as error:  # most likely it is forbidden, unlike what lies below
            self._fewest = math.inf
            log.info(Event("base paths are listed alone", path=self._above.url, cause=error))
        if found is not None:
            for turn in turns:
                turn.outcome = found[turn.prefix]

    def _objects(self, remote: Remote, prefixes: Collection[str], paths: int) -> Found:
        found: dict[str, list[Entry]] = {prefix: [] for prefix in prefixes}
        begin, count = len(self._above.prefix), 0
        for count, each in enumerate(remote.everything(), 1):
            if count > paths * EACH:
                self._fewest = 2 * paths  # so many could afford it, as far as is known
                return None
            base = each.path[: each.path.find("/", begin) + 1]
            if base in found:
                found[base].append(each)
        self._fewest = max(FEWEST, count / EACH)
        return found


class Sibling:
    """One base path among those beside it. Made by `Neighbours`."""

    def __init__(self, siblings: Siblings, location: Location) -> None:
        self._siblings = siblings
        self._location = location
        self._turn = _Turn(location.prefix)

    def expect(self) -> None:
        """Say that this base path is going to be listed now, on whatever thread; never blocks."""
        before, self._turn = self._turn, _Turn(self._location.prefix)
        self._siblings.expect(self._turn, before)

    def look(self, above: Remote, retried: Retried) -> "Seen | None":
        """Give what a listing of all shows of this base path; None: list it alone.

        Args:
            above: what all base paths lie in.
            retried: runs the listing.

        Raises:
            StorageError: the store does not answer.
        """
        objects = self._siblings.look(self._turn, above, retried)
        return None if objects is None else Seen(self._location, objects)


class Seen:
    """One base path at the time of a listing of all."""

    def __init__(self, location: Location, objects: Sequence[Entry]) -> None:
        self._location = location
        self._objects = objects

    def directories(self) -> list[str]:
        """As `Storage.directories`."""
        below = [each.path.removeprefix(self._location.prefix) for each in self._objects]
        names = dict.fromkeys(path.partition("/")[0] for path in below if "/" in path)
        prefixes = [f"{self._location.prefix}{name}/" for name in names]
        return self._location.directories(prefixes, bool(self._objects))

    def list(self, directory: str) -> Iterator[Entry]:
        """As `Storage.list`."""
        prefix = f"{self._location.prefix}{directory}/"
        return self._location.entries(e for e in self._objects if e.path.startswith(prefix))


class Neighbours:
    """All base paths of a server that lie in buckets. Used on one thread."""

    def __init__(self) -> None:
        self._siblings: WeakValueDictionary[str, Siblings] = WeakValueDictionary()

    def of(self, location: Location) -> Sibling | None:
        """Enter a base path; None where it is a bucket's root, beside which nothing lies."""
        above = location.above()
        if above is None:
            return None
        # Held by its base paths alone: with the last model that lies there it goes.
        siblings = self._siblings.setdefault(above.url, Siblings(above))
        return Sibling(siblings, location)
