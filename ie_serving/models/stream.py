"""One model: all its versions over time, driven from what storage lists.

The executor of the pure parts. Each poll asks the source what there is and the version policy what
is wanted; `_advance` then carries out, one at a time, the steps that the transition policy names,
and is called again whenever one of them ends. All state lives on the event loop; only listing,
fetching, compiling and freeing happen in threads.
"""

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from ie_serving.errors import ServingError, StorageError
from ie_serving.models.handle import Servable
from ie_serving.models.loader import LoadedVersion, Loader
from ie_serving.models.source import Candidate, Listing, Source
from ie_serving.models.transition_policy import (
    Action,
    Load,
    Snapshot,
    preserve_availability,
)
from ie_serving.models.version_policy import VersionPolicy
from ie_serving.models.versions import Event, State, VersionLife
from ie_serving.telemetry import logs

log = logging.getLogger(__name__)

LOAD_ERROR = "Error occurred while loading version"
"""What clients of `ie_serving` 2020 find in the status of a version that failed to load."""

LONGEST_BACK_OFF_S = 60.0
ENDED_VERSIONS_KEPT = 100
SOON_S = 1.0
"""Longest wait for the next listing while a version is still being written."""
POLLS_FOR_REST = 3
"""How many polls the first load waits for versions that are still being written."""


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """What clients are told of one version; `error` is empty unless its load failed."""

    version: int
    state: State
    error: str


class _Version:
    """One version's life and what belongs to it."""

    __slots__ = ("attempts", "busy", "candidate", "due_at", "life", "loaded")

    def __init__(self, candidate: Candidate) -> None:
        self.life = VersionLife(candidate.version)
        self.candidate = candidate
        self.loaded: LoadedVersion | None = None
        self.busy = False
        self.attempts = 0
        self.due_at = 0.0

    def due(self, now: float) -> bool:
        waiting = self.life.state is State.START or bool(self.life.error)
        return waiting and not self.busy and self.candidate.at_rest and now >= self.due_at


class ModelStream:
    """The versions of one model.

    Args of the constructor, beside those that are attributes:
        listings: threads for listings alone, as a store that hangs holds them.
        poll_wait_s: between two listings; 0 lists once.

    Attributes:
        name: model name.
        policy: version policy.
        labels: version labels.
        available: AVAILABLE versions by number.
        default: the highest of them; None when there is none.
        trouble: why the last listing failed; None when it did not.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        loader: Loader,
        listings: Executor,
        *,
        policy: VersionPolicy,
        labels: Mapping[str, int],
        poll_wait_s: float,
        drain_timeout_s: float,
    ) -> None:
        self.name = name
        self.policy = policy
        self.labels = labels
        self.available: dict[int, Servable] = {}
        self.default: Servable | None = None
        self.trouble: StorageError | None = None
        self._source = source
        self._loader = loader
        self._listings = listings
        self._poll_wait_s = poll_wait_s
        self._drain_timeout_s = drain_timeout_s
        self._versions: dict[int, _Version] = {}
        self._aspired: frozenset[int] = frozenset()
        self._listing = Listing({}, moving=False)
        self._looks = 0
        self._listed = False
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what others ask ---------------------------------------------------------------------

    async def start(self) -> None:
        """List once and begin to load and to poll.

        Raises:
            StorageError: the base path cannot be listed. Polling has begun all the same, so a
                caller may choose to wait.
        """
        try:
            await self.poll()
        finally:
            self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def first_load(self) -> None:
        """Wait until every wanted version is loaded or has failed once."""
        while not self._settled():
            await self.changed()

    async def changed(self) -> None:
        """Wait for the next change of any version."""
        self._changed.clear()
        await self._changed.wait()

    def adopt(self, policy: VersionPolicy, labels: Mapping[str, int]) -> None:
        """Take another version policy and other labels, at once."""
        self.policy = policy
        self.labels = labels
        self._aspire()

    def look(self) -> None:
        """Poll now instead of at the next interval."""
        self._wake.set()

    def statuses(self) -> list[VersionStatus]:
        """Status of every known version, highest first."""
        return [
            VersionStatus(number, v.life.state, v.life.error)
            for number, v in sorted(self._versions.items(), reverse=True)
        ]

    def failures(self) -> dict[int, str]:
        """Wanted versions that failed to load, with the cause."""
        return {n: v.life.error for n, v in self._versions.items() if v.life.error}

    async def retire(self) -> None:
        """Want no version any more, and wait until all are gone."""
        if self._watcher:
            self._watcher.cancel()
        self._listing = Listing({}, moving=False)
        self._aspire()
        while any(v.life.state is not State.END for v in self._versions.values()):
            await self.changed()

    # -- listing -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await self._pause()
            try:
                await self.poll()
            except StorageError:
                continue  # logged by poll; what serves goes on
            except Exception:
                log.exception(logs.Event("poll failed", model=self.name))

    async def _pause(self) -> None:
        """Wait for the interval, or without polling for a retry that is due, or for `look`.

        What is still being written is looked at again soon: the first load waits for it, and a
        start should not take as long as the interval.
        """
        due = [v.due_at for v in self._versions.values() if v.life.error]
        wait_s: float | None = self._poll_wait_s
        if self._listing.moving:
            wait_s = min(self._poll_wait_s, SOON_S)
        elif self._poll_wait_s <= 0:
            wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        try:
            await asyncio.wait_for(self._wake.wait(), wait_s)
        except asyncio.TimeoutError:
            return
        finally:
            self._wake.clear()

    async def poll(self) -> None:
        """List once and act on it.

        Raises:
            StorageError: nothing has changed.
        """
        failed = self.failures().keys()
        try:
            self._listing = await asyncio.get_running_loop().run_in_executor(
                self._listings, self._source.poll, failed
            )
        except StorageError as error:
            self._note_trouble(error)
            raise
        finally:
            self._looks += 1
        self._listed = True
        self._note_recovery()
        self._aspire()

    def _note_trouble(self, error: StorageError) -> None:
        if str(error) != str(self.trouble):
            log.error(logs.Event("listing failed, what serves goes on", model=self.name, why=error))
        self.trouble = error
        self._changed.set()

    def _note_recovery(self) -> None:
        if self.trouble is None:
            return
        log.info(logs.Event("listing works again", model=self.name))
        self.trouble = None
        for version in self._versions.values():
            version.due_at = 0.0

    def _aspire(self) -> None:
        self._aspired = self.policy.aspired(self._listing.candidates)
        for number in self._aspired:
            self._notice(self._listing.candidates[number])
        self._advance()

    def _notice(self, candidate: Candidate) -> None:
        version = self._versions.get(candidate.version)
        if version is None or version.life.state is State.END:
            self._versions[candidate.version] = _Version(candidate)
            return
        if version.candidate.fingerprint != candidate.fingerprint:
            version.due_at = 0.0
            version.attempts = 0
        version.candidate = candidate

    # -- stepping ----------------------------------------------------------------------------

    def _advance(self) -> None:
        while action := preserve_availability(self._snapshots()):
            self._carry_out(action)
        self._forget_ended()
        self._changed.set()

    def _snapshots(self) -> list[Snapshot]:
        now = time.monotonic()
        return [
            Snapshot(number, v.life.state, number in self._aspired, v.due(now))
            for number, v in self._versions.items()
        ]

    def _carry_out(self, action: Action) -> None:
        version = self._versions[action.version]
        if isinstance(action, Load):
            self._move(version, Event.LOAD)
            version.busy = True
            self._spawn(self._load(version))
            return
        self._withdraw(action.version)
        self._move(version, Event.DROP)
        if version.life.state is State.UNLOADING and not version.busy:
            version.busy = True
            self._spawn(self._unload(version))

    async def _load(self, version: _Version) -> None:
        version.attempts += 1
        try:
            version.loaded = await self._loader.load(version.candidate)
        except ServingError as error:
            self._failed(version, error)
        except Exception as error:
            log.exception(logs.Event("load failed unexpectedly", model=self.name))
            self._failed(version, error)
        version.busy = False
        if version.life.state is State.UNLOADING:
            await self._unload(version)
        elif version.loaded:
            self._move(version, Event.READY)
            self._publish(version.loaded.servable)
        self._advance()

    def _failed(self, version: _Version, error: Exception) -> None:
        if version.life.state is State.UNLOADING:
            return
        wait_s = self._back_off(version.attempts)
        version.due_at = time.monotonic() + wait_s
        self._move(version, Event.FAIL, f"{LOAD_ERROR}: {error}")
        log.error(
            logs.Event(
                "version failed to load",
                model=self.name,
                version=version.life.version,
                attempt=version.attempts,
                next_try_s=wait_s,
                why=error,
            )
        )

    def _back_off(self, attempts: int) -> float:
        """Seconds until the next try: doubling from the poll interval, with jitter."""
        first = self._poll_wait_s or 1.0
        wait_s = min(LONGEST_BACK_OFF_S, first * 2.0 ** min(attempts - 1, 16))
        return wait_s * random.uniform(0.75, 1.0)

    async def _unload(self, version: _Version) -> None:
        if version.loaded:
            try:
                await self._drain_and_free(version.loaded)
            except Exception:
                log.exception(logs.Event("version not freed cleanly", model=self.name))
        version.loaded = None
        version.busy = False
        self._move(version, Event.FREED)
        self._advance()

    async def _drain_and_free(self, loaded: LoadedVersion) -> None:
        if await loaded.servable.drained(self._drain_timeout_s):
            await self._loader.unload(loaded)
            return
        # Memory goes when the last holder lets go: freeing it now would crash their requests.
        log.warning(
            logs.Event(
                "version still in use after the drain timeout",
                model=self.name,
                version=loaded.servable.version,
                holders=loaded.servable.holders,
            )
        )

    # -- what serves -------------------------------------------------------------------------

    def _publish(self, servable: Servable) -> None:
        self.available[servable.version] = servable
        self._choose_default()

    def _withdraw(self, number: int) -> None:
        if self.available.pop(number, None):
            self._choose_default()

    def _choose_default(self) -> None:
        highest = max(self.available, default=None)
        self.default = None if highest is None else self.available[highest]

    # -- bookkeeping -------------------------------------------------------------------------

    def _settled(self) -> bool:
        """Tell whether the first load is over: nothing on its way, nothing still being written."""
        if not self._listed or (self._listing.moving and self._looks < POLLS_FOR_REST):
            return False
        return not any(v.busy or v.life.state is State.START for v in self._versions.values())

    def _move(self, version: _Version, event: Event, error: str = "") -> None:
        state = version.life.apply(event, error)
        log.info(
            logs.Event(
                "version state changed",
                model=self.name,
                version=version.life.version,
                state=state.name,
            )
        )

    def _forget_ended(self) -> None:
        ended = sorted(n for n, v in self._versions.items() if v.life.state is State.END)
        for number in ended[:-ENDED_VERSIONS_KEPT]:
            del self._versions[number]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
