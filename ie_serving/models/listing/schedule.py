"""The listing schedule: when each model's repository is listed, and in which thread.

A thousand models cost one timer and, where storage is quick, one thread: listings due at about the
same time run one after the other. Each store has its own threads. A slow store gets more threads,
up to a limit, so that one directory that hangs does not delay the others.

Idle models are polled in batches (`models/listing/polled_model.py`). A model with news, failures or
requests to poll has its own turns in this schedule.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

from ie_serving.core.runtime.threads import tell
from ie_serving.core.values.errors import NotAvailable, StorageError
from ie_serving.models.listing.notices import NoticeCover, Notices
from ie_serving.models.listing.polled_model import (
    Found,
    List,
    ListingDue,
    Look,
    PolledModel,
    Rounds,
)
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

EARLY = 0.25
"""Share of its interval by which a listing may come early, to be made together with others: after
one interval all models of the same interval are listed in one turn."""

SLOW_S = 0.05
"""Seconds after which a store that still has listings to make gets one more thread. A thousand
local directories take about a third of it; a request to a remote store takes most of it."""

NO_THREAD_S = 1.0
"""Seconds after which a thread is requested again when the system could not start one."""

WATCHED_FROM = 200
"""Models from which on the directories of idle ones are watched: fewer cost less than the watch."""

WATCHED_S = 30.0
"""Seconds between two polls of a model whose directories are watched."""

MOST_THREADS = 8
"""Threads that list one store at a time. One that hangs holds all of them until its time-out."""

TOLD_AT_ONCE = 50
"""Listings reported to the event loop in one callback: 50 take the loop about 0.3 ms."""

Waiter = asyncio.Future[None]


@dataclass(slots=True)
class _ListingRequest:
    """A listing to make, and its outcome."""

    model: PolledModel
    to_list: List
    waiters: list[Waiter]
    outcome: Found | Exception | None = None

    def make(self) -> bool:
        """List, in a thread; True: the event loop has to know."""
        try:
            self.outcome = self.to_list()
        except Exception as error:
            self.outcome = error
        return True


@dataclass(slots=True)
class _Store:
    """The listings that wait for one store, and how many threads make them."""

    threads: Executor
    waiting: deque[_ListingRequest | Look] = field(default_factory=deque)
    working: int = 0
    is_watched: bool = False


class Polls:
    """The schedule of all models. Lives on one event loop.

    Args of the constructor:
        threads_of: gives the threads of a store, by its name.
    """

    def __init__(self, threads_of: Callable[[str], Executor]) -> None:
        self._threads_of = threads_of
        self._stores: dict[str, _Store] = {}
        # Heap of due times. Rescheduling a model gives it a new number, and its old entry is
        # skipped when it comes up: searching the heap for that entry would cost more.
        self._due: list[tuple[float, int, float, PolledModel]] = []
        self._turns: dict[PolledModel, int] = {}
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # uvloop's handle of an overdue timer has no time
        # Models being listed: the waiters for their next listing, None when no caller has asked for
        # one. A repository is never listed twice at a time.
        self._again: dict[PolledModel, list[Waiter] | None] = {}
        self._rounds = Rounds(self._queue)
        self._notices = Notices(self._changed)
        self._watches = False

    async def once(self, model: PolledModel) -> None:
        """List now, and return when the model has acted on it.

        Raises:
            StorageError: the listing failed.
        """
        self._call_in(model)
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._ask(model, [waiter])
        await waiter

    def follow(self, model: PolledModel) -> None:
        """List whenever the model says that it is due, from now until `leave`."""
        self._call_in(model)
        wait_s = model.next_poll_s()
        self._turns[model] = number = next(self._numbers)
        if wait_s is not None and model.is_quiet and model not in self._again:
            self._join(model, wait_s)
        elif wait_s is not None:
            at = asyncio.get_running_loop().time() + wait_s
            heapq.heappush(self._due, (at, number, wait_s * EARLY, model))
            if self._due[0][1] == number:  # else the timer is set for an earlier one
                self._set_timer()

    def _join(self, model: PolledModel, wait_s: float) -> None:
        if len(self._turns) < WATCHED_FROM:
            self._rounds.join(model, wait_s)
            return
        if not self._watches:
            self._watches = True
            for each in self._turns.keys() - {model}:  # those that came before
                self.reschedule(each)
        match self._notices.cover(model):
            case NoticeCover.NO:
                self._rounds.join(model, wait_s)
            case NoticeCover.YES:
                self._rounds.join(model, max(wait_s, WATCHED_S), is_spread=True)
            case NoticeCover.NEW:  # listed once more, for what has changed before it was watched
                self._begin(model)

    def _changed(self, model: PolledModel) -> None:
        if model in self._turns:
            self.now(model)

    def reschedule(self, model: PolledModel) -> None:
        """Ask a followed model again when its next listing is due."""
        if model in self._turns and model not in self._again:
            self.follow(model)

    def leave(self, model: PolledModel) -> None:
        """Follow the model no longer."""
        self._turns.pop(model, None)
        self._notices.drop(model)
        self._call_in(model)

    def now(self, model: PolledModel) -> None:
        """List at once a model that is followed, and once more one that is being listed."""
        self._call_in(model)
        if model in self._again:
            self._ask(model, [])
        elif model in self._turns:
            self._begin(model)

    def _call_in(self, model: PolledModel) -> None:
        """Let the model have a turn of its own, after the look that a thread may be taking."""
        if self._rounds.withdraw(model):
            self._again[model] = None

    # -- when --------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._due:
            return
        at = self._due[0][0]
        if self._timer is None or at < self._timer_at:
            if self._timer:
                self._timer.cancel()
            self._timer, self._timer_at = loop.call_at(at, self._fire), at

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due and self._due[0][0] - self._due[0][2] <= now:
            _, number, _, model = heapq.heappop(self._due)
            if self._turns.get(model) == number:
                self._begin(model)
        self._set_timer()

    def _begin(self, model: PolledModel) -> None:
        # It is followed while it is listed, too, but its turn comes only after that.
        self._turns[model] = next(self._numbers)
        self._ask(model, [])

    # -- where -------------------------------------------------------------------------------

    def _ask(self, model: PolledModel, waiters: list[Waiter]) -> None:
        if model in self._again:
            self._again[model] = [*(self._again[model] or ()), *waiters]
            return
        self._again[model] = None
        self._queue(model.store, [_ListingRequest(model, model.to_list(), waiters)])

    def _queue(self, name: str, listings: Iterable[_ListingRequest | Look]) -> None:
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = _Store(self._threads_of(name))
        store.waiting.extend(listings)
        self._resume(store)

    def _work(self, store: _Store) -> None:
        """Take one more thread for `store`, and another one later if that is not enough."""
        loop = asyncio.get_running_loop()
        if not self._is_begun(store, loop):
            loop.call_later(NO_THREAD_S, self._resume, store)
            return
        store.working += 1
        self._watch(store)

    def _watch(self, store: _Store) -> None:
        """Check later whether waiting listings need another thread: all running ones may hang."""
        if store.waiting and not store.is_watched:
            store.is_watched = True
            asyncio.get_running_loop().call_later(SLOW_S, self._help, store)

    def _is_begun(self, store: _Store, loop: asyncio.AbstractEventLoop) -> bool:
        """Hand the listings to a thread; False: none will make them."""
        turn = [store]  # popped by the thread that takes it, or here to cancel it
        try:
            store.threads.submit(self._take, turn, loop)
        except RuntimeError:  # the system has no thread left, or the server ends
            # `submit` queues the work before it starts a thread, and a thread that becomes free
            # would run the work left there. A thread may have taken it already.
            return _popped(turn) is None
        return True

    def _take(self, turn: list[_Store], loop: asyncio.AbstractEventLoop) -> None:
        store = _popped(turn)
        if store is not None:
            self._list_all(store, loop)

    def _help(self, store: _Store) -> None:
        store.is_watched = False
        if store.waiting and 0 < store.working < MOST_THREADS:
            self._work(store)

    def _list_all(self, store: _Store, loop: asyncio.AbstractEventLoop) -> None:
        """Make the listings that wait; in a thread."""
        while store.waiting and not loop.is_closed():
            if done := _make_listings(store.waiting):
                tell(loop, self._report, done)
        tell(loop, self._ended, store)

    def _ended(self, store: _Store) -> None:
        store.working -= 1
        self._resume(store)  # listings requested after the thread's last look

    def _resume(self, store: _Store) -> None:
        if store.waiting and not store.working:
            self._work(store)
        else:
            self._watch(store)

    # -- the outcome -------------------------------------------------------------------------

    def _report(self, done: list[_ListingRequest | Look]) -> None:
        for each in done:
            if isinstance(each, Look):
                self._tell_of_look(each)
            else:
                self._act(each.model, each.outcome, each.waiters)
                self._go_on(each.model)

    def _tell_of_look(self, look: Look) -> None:
        model = look.model
        self._call_in(model)
        if not isinstance(look.outcome, ListingDue):
            self._act(model, look.outcome)
        elif model in self._turns:  # at once, as if asked for
            self._again[model] = self._again[model] or []
        self._go_on(model)

    def _go_on(self, model: PolledModel) -> None:
        again = self._again.pop(model)
        if again is not None:
            self._ask(model, again)
        elif model in self._turns:
            self.follow(model)

    def _act(
        self, model: PolledModel, outcome: Found | Exception | None, waiters: Sequence[Waiter] = ()
    ) -> None:
        """Let the model act; a defect must not end its polls, or those of the others."""
        try:
            _hand_over(model, outcome)
        except Exception as error:
            outcome = error
        for waiter in waiters:
            _answer(waiter, outcome)
        # A listing that a stopping server breaks off is no defect.
        if waiters or not isinstance(outcome, Exception):
            return
        if isinstance(outcome, StorageError | NotAvailable):
            return
        log.error(Event("poll failed", model=model.name), exc_info=outcome)


def _popped(turn: list[_Store]) -> _Store | None:
    """Take the one item, in any thread; None when another thread has taken it."""
    try:
        return turn.pop()
    except IndexError:
        return None


def _hand_over(model: PolledModel, outcome: Found | Exception | None) -> None:
    if isinstance(outcome, StorageError):
        model.not_listed(outcome)
    elif outcome is not None and not isinstance(outcome, Exception):
        model.listed(outcome)


def _make_listings(waiting: deque[_ListingRequest | Look]) -> list[_ListingRequest | Look]:
    """Make some of the waiting listings, and give those to report to the loop together."""
    done: list[_ListingRequest | Look] = []
    began = time.monotonic()
    with suppress(IndexError):  # nothing waits any more
        # Outcomes are told in portions: a thousand in one callback would block the loop.
        while len(done) < TOLD_AT_ONCE and time.monotonic() - began <= SLOW_S:
            # The deque is not tested before: another thread may take the last one in between.
            asked = waiting.popleft()
            if asked.make():
                done.append(asked)
    return done


def _answer(waiter: Waiter, outcome: Found | Exception | None) -> None:
    if waiter.done():  # cancelled
        return
    if isinstance(outcome, Exception):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(None)
