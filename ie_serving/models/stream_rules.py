"""How a model's repository is followed: fixed for the stream's life, except the interval."""

import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from ie_serving.core.runtime.waits import Backoff
from ie_serving.models.peers import NO_PEERS, Peers
from ie_serving.models.repository.relisting import ListingTrouble
from ie_serving.models.version.control import LoadRules
from ie_serving.models.version.handle import Servable

LONGEST_BACK_OFF_S = 60.0
"""Longest wait before a broken version is tried again: its owner may have repaired it."""

LONGEST_PAUSE_S = 10.0
"""Seconds after which a failed store is listed again at most, or the poll interval where that is
longer: once the store is back, a new version waits no longer than this."""

FIRST_BACK_OFF_S = 1.0
"""First wait after a failed load where no poll interval says how often to look."""

SOON_S = 1.0
"""Longest wait in seconds for the next listing while a version is still being written, since the
first load waits for it and a start should not take as long as a long poll interval."""

LOCAL = "file"
"""Name of the store of paths on this machine."""

LOOK_ANEW_S = 2.0
"""Seconds for which a load on demand waits for a listing of its store; then the last one counts."""

POLLS_UNTIL_GONE = 2
"""Polls for which a directory of a repository may be missing before that is trouble."""

POLLS_FOR_REST = 3
"""Polls for which the first load waits for versions that are still being written. Beyond it the
start goes on without them: an upload may take hours."""


class DormantModel(Protocol):
    """A model that is loaded on demand, as the residency sees its stream."""

    name: str
    available: Mapping[int, Servable]

    @property
    def is_admitted(self) -> bool:
        """Whether its wanted versions are to be in memory."""

    @property
    def is_out(self) -> bool:
        """Whether none of its versions is in memory or on its way."""

    @property
    def stored_bytes(self) -> int:
        """The bytes of the files of the versions that an admission loads."""

    async def look_anew(self) -> None:
        """List anew the files that `admit` is to load."""

    def admit(self) -> None:
        """Load the wanted versions."""

    def dismiss(self) -> None:
        """Unload every version."""

    async def first_load(self) -> None:
        """Wait until every wanted version is loaded or has failed once."""

    async def changed(self) -> None:
        """Wait for the next change of any version."""


LoadOnDemand = Callable[[DormantModel], Awaitable[None]]
"""Brings a model into memory, see `models.residency.Residency.load`."""


@dataclass(frozen=True, kw_only=True)
class StreamRules:
    """How a model is followed; unlike its policy and labels, only the interval changes.

    Attributes:
        labels_wait: whether a label waits until its version is AVAILABLE.
        poll_wait_s: seconds between two listings; 0 lists once.
        drain_timeout_s: seconds for which requests may keep a version that is no longer wanted.
        load_timeout_s: seconds that a load may take, waiting for its turn included; 0: for ever.
        reload_changed: load a version anew whose files change while it serves.
        is_found: whether the model was found in a repository of models, and goes with its
            directory.
        retries: try versions again that have failed; not where settings are the cause.
        held: gives the versions that graphs name, which stay loaded.
        on_trouble: called for each listing that fails.
        on_changed: called for each change of the files of a serving version.
        on_load: called at the end of each load, with the version and whether it succeeded.
        on_served: called with the AVAILABLE versions whenever these change.
        remark: gives what else the status of a version says; empty for nothing.
        on_demand: brings the model into memory when it is asked for, see
            `models.residency`; None: it is always loaded.
        others: the other workers of the server.
        clock: seconds that only grow.
        chance: 0 to 1 at random, for the jitter of the back-off.
    """

    labels_wait: bool
    poll_wait_s: float
    drain_timeout_s: float
    load_timeout_s: float = 0.0
    reload_changed: bool = False
    is_found: bool = False
    retries: bool = True
    held: Callable[[], Collection[int]] = tuple
    on_trouble: Callable[[], None] = lambda: None
    on_changed: Callable[[], None] = lambda: None
    on_load: Callable[[int, bool], None] = lambda version, succeeded: None
    on_served: Callable[[Collection[Servable]], None] = lambda versions: None
    remark: Callable[[int], str] = lambda version: ""
    on_demand: LoadOnDemand | None = None
    others: Peers = NO_PEERS
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def pause_s(
        self, trouble: ListingTrouble, retries: Collection[float], *, is_moving: bool
    ) -> float | None:
        """Give the seconds until the next poll; None: the next poll comes only on request.

        The pause is the poll interval, another one while listings fail, and a shorter one while a
        version is being written. Without an interval it lasts until the next retry of a failed
        version.

        Args:
            trouble: trouble of the listings.
            retries: times at which failed versions are due for a retry, by `clock`.
            is_moving: whether a version is still being written.
        """
        if trouble.retry_s and self.poll_wait_s:
            # The interval may have become shorter since the listing failed.
            return min(trouble.retry_s, self._longest_pause_s)
        if is_moving:
            return min(self.poll_wait_s, SOON_S)
        if self.poll_wait_s > 0:
            return self.poll_wait_s
        # A retry begins with a listing. One that fails leaves the retry due, and must not be
        # repeated without a pause.
        pause_s = trouble.retry_s or (FIRST_BACK_OFF_S if trouble.error else 0.0)
        return max(pause_s, min(retries) - self.clock()) if retries else None

    def store_backoff(self) -> Backoff:
        """Give the waits after a store has failed: in a listing, or while files were fetched.

        Their jitter spreads the models that failed together, also where every wait is as long as
        the poll interval.
        """
        return Backoff(first_s=self._first_pause_s, longest_s=self._longest_pause_s)

    @property
    def _first_pause_s(self) -> float:
        # The store is listed at each poll interval anyway: an earlier second try gains little.
        return self.poll_wait_s or FIRST_BACK_OFF_S

    @property
    def _longest_pause_s(self) -> float:
        return max(self.poll_wait_s, LONGEST_PAUSE_S)

    def of_versions(self, model: str, base_path: str, on_overdue: Callable[[], None]) -> LoadRules:
        """Give the rules that each version of `model` needs."""
        backoff = Backoff(first_s=self._first_pause_s, longest_s=LONGEST_BACK_OFF_S)
        return LoadRules(
            model=model,
            base_path=base_path,
            on_load=self.on_load,
            load_timeout_s=self.load_timeout_s,
            on_overdue=on_overdue,
            backoff=backoff if self.retries else None,
            store_backoff=self.store_backoff(),
            drain_timeout_s=self.drain_timeout_s,
            clock=self.clock,
            chance=self.chance,
            on_changed=self.on_changed,
            renews=self.reload_changed,
        )
