"""Lists sibling base paths of a store together, by one listing of their common parent.

A thousand models below `s3://bucket/models/` would cost a thousand requests at every poll, and the
files of a version one more. So callers announce that they will list (`expect`). The first caller to
start lists once for all announced callers, with every object below the parent, if that takes fewer
requests; the others read that result.

The parent may hold much more than the models, or listing it may be forbidden. Then each caller
lists its own path, and the common listing is tried again after `KNOWN_S`. A transient error (a
store that does not answer) is raised to all announced callers.

A repository of models (`ParentListing`) is the parent itself, with all that lies below: it always
lists in common, and its models read the same result. A listing of several pages is repeated by idle
polls only as often as makes one request a second.
"""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from ie_serving.core.runtime.machine_share import SHARE
from ie_serving.core.values.errors import StorageError
from ie_serving.storage.base import Entry, Location, Remote
from ie_serving.storage.trouble import PASSING
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
"""Seconds for which the cost of a common listing, or its refusal, is remembered."""

PAGE: Final = 1000
"""Objects that a store lists in one request."""

PAGE_S: Final = 1.0
"""Seconds that each page of a common listing keeps idle polls from the next one: thousands of
models cost one request a second in all, and their changes are seen after as many seconds as their
listing has pages. One page alone is listed at each poll."""

EARLY_S: Final = 0.1
"""Seconds by which such a pause is shorter: polls at whole seconds are then not a second late."""

Objects: TypeAlias = Mapping[str, Sequence[Entry]]
"""Objects by the prefix of the base path that they lie under."""

FoundObjects: TypeAlias = Objects | None
"""None: more than is worthwhile."""

Retried: TypeAlias = Callable[[Callable[[], FoundObjects]], FoundObjects]
"""Runs a listing until it succeeds, or its tries are used up."""


@dataclass(eq=False, slots=True)
class _Turn:
    """The next listing of one base path, or of the parent itself.

    Attributes:
        prefix: prefix of the base path; empty for the parent.
        is_idle: no caller waits for it, so a listing made a few seconds ago will do.
        outcome: result of listing the parent.
    """

    prefix: str = ""
    is_idle: bool = False
    outcome: Objects | StorageError | None = None


class Siblings:
    """The base paths directly below one prefix of a bucket.

    Args of the constructor:
        above: prefix of the parent.
        clock: seconds that only grow.

    Attributes:
        above: as given.
    """

    def __init__(self, above: Location, clock: Callable[[], float] = time.monotonic) -> None:
        self.above = above
        self._clock = clock
        self._expected: set[_Turn] = set()
        self._marking = Lock()  # guards the announcements; held briefly, since the loop takes it
        self._listing = Lock()
        self._fewest: float = FEWEST
        self._known_until = 0.0
        self._last: Objects = {}
        self._rests_until = 0.0

    def expect(self, turn: _Turn, instead_of: _Turn) -> bool:
        """Await the listing of one base path, in place of an earlier one that may not have begun.

        Returns:
            False where a look would find what the last one has found: it need not be taken.
        """
        with self._marking:
            self._expected.discard(instead_of)
            if turn.is_idle and turn.prefix in self._last and self._clock() < self._rests_until:
                return False
            self._expected.add(turn)
        return True

    def look(self, turn: _Turn, remote: Remote, retried: Retried) -> FoundObjects:
        """Give the objects of the announced base paths, or None: the caller must list its own.

        Raises:
            StorageError: the store does not answer.
        """
        # One listing at a time: a caller that waits here mostly finds the outcome it needs.
        with self._listing:
            if turn.outcome is None and self._is_worthwhile(turn):
                self._list(remote, retried)
            with self._marking:
                self._expected.discard(turn)
        if isinstance(turn.outcome, StorageError):
            # A new exception for each thread, since raising writes the thread's stack into it.
            raise type(turn.outcome)(*turn.outcome.args)
        return turn.outcome

    def _is_worthwhile(self, turn: _Turn) -> bool:
        # A few models that are listed rarely may be looked at while the others rest.
        if turn.is_idle and self._rests_until:
            return True
        if self._clock() > self._known_until:
            self._fewest = FEWEST
        if len(self._expected) >= self._fewest:
            return True
        return any(not turn.prefix for turn in self._expected)  # the parent is listed in any case

    def _list(self, remote: Remote, retried: Retried) -> None:
        # A caller announced from now on may want objects uploaded after this listing began: the
        # next listing is for it.
        with self._marking:
            turns, self._expected = self._expected, set()
        began = self._clock()
        self._known_until = began + KNOWN_S
        # Those that were listed the last time rest on this listing, too.
        resting = self._last if self._rests_until else ()
        prefixes = {*resting, *(turn.prefix for turn in turns)}
        self._last, self._rests_until = {}, 0.0
        found: Objects | StorageError | None = None
        try:
            found = retried(lambda: self._objects(remote, prefixes, began))
        except PASSING as error:
            found = error
        except StorageError as error:  # most likely listing the parent is forbidden
            self._fewest = math.inf
            log.info(Event("base paths are listed alone", path=self.above.url, cause=error))
            for turn in turns:
                turn.outcome = None if turn.prefix else error
        if found is not None:
            for turn in turns:
                turn.outcome = found

    def _objects(self, remote: Remote, prefixes: Collection[str], began: float) -> FoundObjects:
        whole = "" in prefixes
        found: dict[str, list[Entry]] = defaultdict(list, {prefix: [] for prefix in prefixes})
        begin, count = len(self.above.prefix), 0
        for count, each in enumerate(remote.everything(), 1):
            if count > len(prefixes) * EACH and not whole:
                self._fewest = 2 * len(prefixes)  # so many could afford it, as far as is known
                return None
            base = each.path[: each.path.find("/", begin) + 1]
            if base in found or (whole and base):
                found[base].append(each)
        self._fewest = max(FEWEST, count / EACH)
        pages = count // PAGE + 1  # some stores answer a full page with one more, which is empty
        self._last = found
        pause_s = pages * PAGE_S * SHARE.workers - EARLY_S
        self._rests_until = began + pause_s if pages > 1 else 0.0
        return found


class Sibling:
    """One base path among those beside it. Made by `Neighbours`."""

    def __init__(self, siblings: Siblings, location: Location) -> None:
        self._siblings = siblings
        self._location = location
        self._turn = _Turn(location.prefix)

    def expect(self, *, is_idle: bool = False) -> bool:
        """Say that this base path is going to be listed now, on whatever thread; never blocks.

        Args:
            is_idle: a listing that was made a few seconds ago will do.

        Returns:
            False where it need not be listed.
        """
        before, self._turn = self._turn, _Turn(self._location.prefix, is_idle)
        return self._siblings.expect(self._turn, before)

    def look(self, above: Remote, retried: Retried) -> "BasePathListing | None":
        """Give the objects of this base path from a common listing; None: list it alone.

        Args:
            above: the parent of all base paths.
            retried: runs the listing.

        Raises:
            StorageError: the store does not answer.
        """
        objects = self._siblings.look(self._turn, above, retried)
        if objects is None:
            return None
        return BasePathListing(self._location, objects.get(self._location.prefix, ()))


class ParentListing:
    """The parent of base paths, with all that lies below. Made by `Neighbours`.

    Attributes:
        location: location of the parent.
    """

    def __init__(self, siblings: Siblings, location: Location) -> None:
        self._siblings = siblings
        self.location = location
        self._turn = _Turn()

    def expect(self, *, is_idle: bool = False) -> bool:
        """As `Sibling.expect`."""
        before, self._turn = self._turn, _Turn(is_idle=is_idle)
        return self._siblings.expect(self._turn, before)

    def look(self, remote: Remote, retried: Retried) -> Mapping[str, Sequence[Entry]]:
        """Give the objects of each directory by its name. Raises: StorageError."""
        found = self._siblings.look(self._turn, remote, retried) or {}
        prefixes = [prefix for prefix, objects in found.items() if prefix and objects]
        names = self.location.directories(prefixes, bool(prefixes))
        return {name: found.get(f"{self.location.prefix}{name}/", ()) for name in names}


class BasePathListing:
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
        return Sibling(self._at(above), location)

    def below(self, location: Location) -> ParentListing:
        """Enter a repository of models, whose base paths lie directly below it."""
        above = location.directory()
        return ParentListing(self._at(above), above)

    def _at(self, above: Location) -> Siblings:
        return self.add(Siblings(above))

    def add(self, siblings: Siblings) -> Siblings:
        """Enter a parent of base paths, unless it is known already; give the one that is known."""
        # Held by its base paths alone: with the last model that lies there it goes.
        return self._siblings.setdefault(siblings.above.url, siblings)
