"""A model, or a repository of models, as the schedule of listings sees it.

`Rounds` polls idle models in batches, so that an idle model costs the event loop nothing. A poll of
an idle model finds nothing new. The idle models of one store and poll interval make a round: one
timer hands all of them to the store's threads, which report only models with news to the event
loop. Models whose directories are watched are handed over in parts, spread over the interval: ten
thousand at once would hold the event loop, and the interpreter, for tens of milliseconds. A model
with news, a requested poll, or more work than a look at its repository leaves its round for its own
turn in the schedule, and returns to the round when it is idle again.

The event loop owns a look until a thread begins it; then the thread owns it until it has found
nothing new or has reported its findings to the event loop.
"""

import asyncio
import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any, Final, Protocol, TypeAlias

from ie_serving.core.runtime.states import after
from ie_serving.core.values.errors import StorageError
from ie_serving.models.listing.notices import WatchedDirectory

PART_S: Final = 0.25
"""Least seconds between two parts of a round that is spread: for 10,000 models and an interval of
30 s a part has 84 models."""
PART: Final = 80
"""Models of a part where these seconds allow it: few wake the event loop and a thread more often
than it is worth. With 8 for 1,000 models they took twice the time, 0.5 % of a processor."""
MOST_SHARE: Final = 0.25
"""Largest share of a round in one part. A model that joins, or is left to the next part, is looked
at within about 1.25 intervals."""

Found: TypeAlias = Any
"""Result of a listing, which only the listed object understands; never None or an exception."""

List = Callable[[], Found]
"""Lists a repository once, in a thread. Raises StorageError."""


class ListingDue(Exception):
    """A model has more to do at its poll than `look` does: it must be listed in its turn."""


class PolledModel(Protocol):
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

    def watched(self) -> Collection[WatchedDirectory]:
        """Give the directories in which every change of a quiet model shows; empty where none."""

    def announce(self, after_s: float) -> bool:
        """Announce a `look` in `after_s` seconds. Returns False if it would find nothing."""

    def look(self) -> Found | None:
        """List the repository, in a thread; None: nothing new.

        Raises:
            ListingDue: it is not quiet any more, and has not been listed.
            StorageError: the listing failed.
        """


class LookState(enum.IntEnum):
    """The holder of a look: the round, a queue or a thread."""

    IDLE = enum.auto()  # the round, until it is due
    QUEUED = enum.auto()  # a queue, until a thread is free
    BEGUN = enum.auto()  # a thread
    FOUND = enum.auto()  # the event loop, with an outcome
    WITHDRAWN = enum.auto()  # none; where it was begun, its end is reported to the loop


class LookEvent(enum.IntEnum):
    """What happens to a look, and where."""

    QUEUE = enum.auto()  # event loop: it is due
    BEGIN = enum.auto()  # thread
    NO_NEWS = enum.auto()  # thread
    NEWS = enum.auto()  # thread: a listing, or an error
    WITHDRAW = enum.auto()  # event loop: the model leaves its round


LOOK: Final[Mapping[LookState, Mapping[LookEvent, LookState]]] = {
    LookState.IDLE: {
        LookEvent.QUEUE: LookState.QUEUED,
        LookEvent.WITHDRAW: LookState.WITHDRAWN,
    },
    LookState.QUEUED: {
        LookEvent.BEGIN: LookState.BEGUN,
        LookEvent.WITHDRAW: LookState.WITHDRAWN,
    },
    LookState.BEGUN: {
        LookEvent.NO_NEWS: LookState.IDLE,
        LookEvent.NEWS: LookState.FOUND,
        LookEvent.WITHDRAW: LookState.WITHDRAWN,
    },
    LookState.FOUND: {LookEvent.WITHDRAW: LookState.WITHDRAWN},
    # The thread may not know yet.
    LookState.WITHDRAWN: dict.fromkeys(
        (LookEvent.BEGIN, LookEvent.NO_NEWS, LookEvent.NEWS), LookState.WITHDRAWN
    ),
}


@dataclass(eq=False, slots=True)
class Look:
    """An idle model in its round, and the outcome of the last look at it.

    Attributes:
        model: the model that is looked at.
        state: stage of the look.
        outcome: the news; None when there are none.
    """

    model: PolledModel
    state: LookState = LookState.IDLE
    outcome: Found | Exception | None = None
    _lock: Lock = field(default_factory=Lock)

    def apply(self, event: LookEvent) -> tuple[LookState, LookState]:
        """Move, in the event loop or in a thread; give the states before and after."""
        with self._lock:
            before, self.state = self.state, after(LOOK, self.state, event, "look")
            return before, self.state

    def make(self) -> bool:
        """Look, in a thread; tell whether the event loop has to know."""
        if self.apply(LookEvent.BEGIN)[1] is LookState.WITHDRAWN:
            return False
        try:
            self.outcome = self.model.look()
        except Exception as error:
            self.outcome = error
        event = LookEvent.NO_NEWS if self.outcome is None else LookEvent.NEWS
        # A caller that has withdrawn it meanwhile waits for its end.
        return self.apply(event)[1] is not LookState.IDLE

    def withdraw(self) -> bool:
        """Cancel the look; tell whether the event loop will receive, or has, its outcome."""
        return self.apply(LookEvent.WITHDRAW)[0] in (LookState.BEGUN, LookState.FOUND)


@dataclass(slots=True)
class _Round:
    store: str
    interval_s: float
    is_spread: bool
    looks: dict[PolledModel, Look] = field(default_factory=dict)
    _due: float = 0.0

    def next_part(self) -> list[Look]:
        """Give the looks that are due, those first that have waited longest."""
        models = list(islice(self.looks, int(self._due)) if self.is_spread else self.looks)
        self._due %= 1
        for model in models:
            self.looks[model] = self.looks.pop(model)
        return [self.looks[model] for model in models]

    def plan_part(self) -> float:
        """Choose how many looks the next part has; give the seconds until it is due."""
        if not (self.is_spread and self.looks):
            return self.interval_s
        share = min(MOST_SHARE, PART / len(self.looks))
        share = min(1.0, max(PART_S / self.interval_s, share))
        self._due += len(self.looks) * share
        return self.interval_s * share


class Rounds:
    """The rounds of all models. Lives on one event loop.

    Args of the constructor:
        begin: hands looks to the threads of a store, by its name.
    """

    def __init__(self, begin: Callable[[str, Iterable[Look]], None]) -> None:
        self._begin = begin
        self._rounds: dict[tuple[str, float, bool], _Round] = {}
        self._round_of: dict[PolledModel, _Round] = {}

    def join(self, model: PolledModel, interval_s: float, *, is_spread: bool = False) -> None:
        """Look at a model with others of its store and interval, after about an interval.

        Args:
            model: an idle one.
            interval_s: seconds between two looks at it.
            is_spread: look at the models of the round in parts, and not at all of them at once.
        """
        key = (model.store, interval_s, is_spread)
        if key not in self._rounds:
            self._rounds[key] = _Round(*key)
            # Soon where it is spread: how many models there are is not known yet.
            first_s = min(PART_S, interval_s) if is_spread else interval_s
            asyncio.get_running_loop().call_later(first_s, self._look_at_part, key)
        self._round_of[model] = self._rounds[key]
        self._rounds[key].looks[model] = Look(model)

    def withdraw(self, model: PolledModel) -> bool:
        """Take a model out of its round, if it is in one; see `Look.withdraw`."""
        found = self._round_of.pop(model, None)
        return found is not None and found.looks.pop(model).withdraw()

    def _look_at_part(self, key: tuple[str, float, bool]) -> None:
        each = self._rounds[key]
        if not each.looks:
            del self._rounds[key]
            return
        part = each.next_part()
        asyncio.get_running_loop().call_later(each.plan_part(), self._look_at_part, key)
        # A look that hangs in a thread is left out, so that it does not hold up the others.
        waiting = [look for look in part if look.state is LookState.IDLE]
        looks = [look for look in waiting if look.model.announce(each.interval_s)]
        for look in looks:
            look.apply(LookEvent.QUEUE)
        self._begin(each.store, looks)
