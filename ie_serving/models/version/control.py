"""Controls one version: loads it, backs off after a failure, drains it and frees it.

Only this class moves a version from stage to stage and holds the loaded model. The stream decides
the next command (`load`, `drop`). A command moves the stage at once and returns the work that
follows; the stream awaits that work in a task and then plans the next step.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from threading import Event as Flag
from typing import Any

from ie_serving.core.runtime.waits import Backoff
from ie_serving.core.values.errors import ServingError, VersionHeldBack
from ie_serving.core.values.hints import Hint
from ie_serving.core.values.versions import State, VersionStatus, remarked
from ie_serving.models.repository.source import Candidate
from ie_serving.models.version.handle import Servable
from ie_serving.models.version.loader import LoadedVersion, Loader
from ie_serving.models.version.states import (
    AWAITING_LOAD,
    LIMITED,
    NOT_LOADED,
    SETTLED,
    VersionEvent,
    VersionLife,
    VersionStage,
)
from ie_serving.storage.trouble import PASSING
from ie_serving.telemetry.log import logs

log = logging.getLogger(__name__)

LOAD_ERROR = "Error occurred while loading version"
"""Clients of `ie_serving` 2020 find this text in the status of a version that failed to load."""

CHANGED = "its files have changed since they were loaded, and the loaded ones answer"
RELOAD = Hint(": upload a version of its own, or set {server.reload_changed_versions}")

VersionWork = Coroutine[Any, Any, None]
"""The work that follows a command. It raises nothing: a failure sets a stage and is logged."""


@dataclass(frozen=True, kw_only=True)
class LoadRules:
    """How all versions of one model are loaded and unloaded.

    Attributes:
        model: model name, for log lines.
        base_path: URL of the model's repository, for log lines: a model that is moved has two
            streams for a while.
        on_load: called when a load ends, with the version and whether it succeeded.
        load_timeout_s: seconds that a load may take, waiting for its turn included; 0: no limit.
        on_overdue: called when that time is over.
        backoff: waits between a failed load and the next try; None: no try without new files.
        store_backoff: waits after a load that failed because the store did not give the files.
        drain_timeout_s: seconds for which requests may keep a version that is no longer wanted.
        clock: gives seconds that only grow.
        chance: gives a random number, 0 to 1, for the jitter of the back-off.
        on_changed: called at each change of the files of a version that serves.
        renews: whether the changed files are loaded, to take the place of the old ones.
    """

    model: str
    base_path: str
    on_load: Callable[[int, bool], None]
    backoff: Backoff | None
    store_backoff: Backoff
    drain_timeout_s: float
    clock: Callable[[], float]
    chance: Callable[[], float]
    load_timeout_s: float = 0.0
    on_overdue: Callable[[], None] = lambda: None
    on_changed: Callable[[], None] = lambda: None
    renews: bool = False


class VersionControl:
    """Loads, retries, drains and frees one version."""

    __slots__ = (
        "_attempts",
        "_candidate",
        "_given_up",
        "_life",
        "_loaded",
        "_loader",
        "_retry_at",
        "_rules",
        "_served",
        "_tried",
    )

    def __init__(
        self, candidate: Candidate, loader: Callable[[], Loader], rules: LoadRules
    ) -> None:
        self._life = VersionLife(candidate.version)
        self._candidate = candidate
        self._loader = loader
        self._rules = rules
        self._loaded: LoadedVersion | None = None
        self._tried = ""  # fingerprint of the content that the attempts are counted of
        self._attempts = 0
        self._retry_at = 0.0
        self._given_up = Flag()
        self._served = ""

    # -- queries of the stream ---------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state that clients see."""
        return self._life.state

    @property
    def status(self) -> VersionStatus:
        """The status that clients get."""
        remark = self.servable.remark if self.servable else ""
        status = VersionStatus(self._life.version, self._life.state, self._life.error, remark)
        advice = "" if self._rules.renews else RELOAD
        return remarked(status, f"{CHANGED}{advice}" if self.is_outdated else "")

    @property
    def error(self) -> str:
        """Why the last load failed; empty when it did not."""
        return self._life.error

    @property
    def servable(self) -> Servable | None:
        """The servable that answers requests, while the version serves."""
        if self._loaded is None or self._life.stage is not VersionStage.SERVING:
            return None
        return self._loaded.servable

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way and no first load is still to begin."""
        return self._life.stage in SETTLED

    @property
    def is_at_rest(self) -> bool:
        """Whether no poll can move it: it serves, is gone, or loads and has not failed before."""
        if self._life.stage in LIMITED:
            return not self.has_failed
        return self.state in (State.AVAILABLE, State.END)

    @property
    def is_due(self) -> bool:
        """Whether a load may begin: at rest in storage, none under way, no back-off to wait for."""
        awaits = self._life.stage in AWAITING_LOAD and self._candidate.at_rest
        return awaits and self._rules.clock() >= self._retry_at

    @property
    def has_failed(self) -> bool:
        """Whether this content has failed to load before, also while it is tried again."""
        if self._is_untried:
            return False
        return self._attempts > (0 if self._life.stage in NOT_LOADED else 1)

    @property
    def _is_untried(self) -> bool:
        """Whether storage lists content now that no load has begun with."""
        return self._candidate.fingerprint != self._tried

    @property
    def candidate(self) -> Candidate:
        """The last known listing of this version."""
        return self._candidate

    @property
    def is_outdated(self) -> bool:
        """Whether it serves other files than those that lie in storage now."""
        is_other = self._candidate.fingerprint != self._served
        return is_other and self._candidate.at_rest and self.servable is not None

    @property
    def retry_at(self) -> float | None:
        """When a failed version is tried again, by the clock of the rules; None without a time."""
        is_due_once = self._life.stage is VersionStage.FAILED and self._retry_at < math.inf
        return self._retry_at if is_due_once else None

    # -- commands of the stream --------------------------------------------------------------

    def found(self, candidate: Candidate) -> None:
        """Take the present listing of this version; new content is tried without back-off."""
        # The files have changed since the failure, so the back-off does not apply to them. The
        # count of failures does not either, but a load under way still uses it.
        is_new = candidate.fingerprint != self._candidate.fingerprint
        if is_new:
            self._retry_at = 0.0
        self._candidate = candidate
        if is_new and self.is_outdated:
            self._note_change()

    def retry_now(self) -> None:
        """End the back-off now: the cause of the failure may be over."""
        self._retry_at = 0.0

    def load(self) -> VersionWork:
        """Begin to load. The work ends when the version serves, has failed, or is gone."""
        self._move(VersionEvent.LOAD)
        self._attempts = 1 if self._is_untried else self._attempts + 1
        self._tried = self._candidate.fingerprint
        return self._load()

    def drop(self) -> VersionWork | None:
        """Give the version up. The work ends when it is gone; None when there is none to do.

        While a load runs there is none either: the work of `load` frees the version at its end.
        """
        self._move(VersionEvent.DROP)
        self._given_up.set()  # a download under way ends, and leaves its thread to others
        return self._free() if self._life.stage is VersionStage.DRAINING else None

    def give_up(self) -> None:
        """Let the load under way end, since the process ends."""
        self._given_up.set()

    @property
    def is_memory(self) -> bool:
        """Whether `leave` gives back files alone, which takes no time."""
        return self._loaded is None or self._loaded.is_memory

    def leave(self) -> None:
        """At process exit, release whatever outlives the process; see `LoadedVersion`. Blocking.

        It raises nothing, so that the other versions are released as well.
        """
        loaded = self._loaded  # looked up once: the event loop may let go of it meanwhile
        try:
            if loaded:
                loaded.leave()
        except BaseException:  # of users' code
            log.exception(logs.Event("version not freed cleanly", **self.facts))

    # -- how it is done ----------------------------------------------------------------------

    @property
    def facts(self) -> dict[str, object]:
        """The fields of its log lines: the base path too, since a moved model has two."""
        rules = self._rules
        return {"model": rules.model, "version": self._life.version, "base_path": rules.base_path}

    async def _load(self) -> None:
        limit_s = self._rules.load_timeout_s
        loop = asyncio.get_running_loop()
        timer = loop.call_later(limit_s, self._expire) if limit_s else None
        try:
            await self._try()
        finally:
            if timer:
                timer.cancel()
        # Dropped while it loaded: `drop` left the freeing to us, since only now is there something
        # to free.
        if self._life.stage is VersionStage.DRAINING and self._loaded:
            await self._free()

    def _expire(self) -> None:
        if self._life.stage not in LIMITED:
            return
        stage, limit_s = self._life.stage.value, self._rules.load_timeout_s
        log.error(logs.Event("load takes too long", **self.facts, stage=stage, limit_s=limit_s))
        why = f"it takes longer than {limit_s:g} s; it goes on, and is served if it ends well"
        self._move(VersionEvent.EXPIRE, f"{LOAD_ERROR}: {why}")
        self._rules.on_overdue()

    async def _try(self) -> None:
        candidate = self._candidate
        try:
            self._loaded = await self._loader().load(candidate, self._move, self._given_up)
        except PASSING as error:
            self._fail(str(error), self._rules.store_backoff)
        except VersionHeldBack as error:
            self._fail(str(error), None)
        except ServingError as error:
            self._fail(str(error), self._rules.backoff)
        # An engine may raise any exception. Passed on, it would leave the version in a stage that
        # no event leads out of, and waiters for the first load would wait for ever.
        except Exception as error:
            log.exception(logs.Event("load failed by a defect", **self.facts))
            self._fail(str(error), self._rules.backoff)
        else:
            self._served = candidate.fingerprint
            self._rules.on_load(self._life.version, True)
            self._move(VersionEvent.READY)

    def _note_change(self) -> None:
        self._rules.on_changed()
        reload = Hint("upload a version of its own, or set {server.reload_changed_versions}")
        advice = "none: they are loaded to take its place" if self._rules.renews else reload
        log.warning(
            logs.Event("files of a served version have changed", **self.facts, advice=advice)
        )

    def _fail(self, why: str, backoff: Backoff | None) -> None:
        """Note the failure; without `backoff` only new files or `retry_now` bring another try."""
        stage = self._move(VersionEvent.FAIL, f"{LOAD_ERROR}: {why}")
        if stage is not VersionStage.FAILED:  # abandoned: no caller waits for it, nor is it retried
            return
        rules = self._rules
        rules.on_load(self._life.version, False)
        # Content that arrived during the try of the old content is tried without back-off.
        backoff_s = backoff.delay_s(self._attempts, rules.chance()) if backoff else math.inf
        wait_s = 0.0 if self._is_untried else backoff_s
        self._retry_at = rules.clock() + wait_s
        facts = {**self.facts, "attempt": self._attempts}
        facts |= {"next_try_s": wait_s} if wait_s < math.inf else {}
        log.error(logs.Event("version failed to load", **facts, cause=why))

    async def _free(self) -> None:
        loaded = self._loaded
        assert loaded is not None  # the table leads to DRAINING only from a load that succeeded
        try:
            await self._drain_and_free(loaded)
        # An error of a device that closes does not affect clients, and a version that did not reach
        # its end would keep its model from ever retiring.
        except Exception:
            log.exception(logs.Event("version not freed cleanly", **self.facts))
        # The model is forgotten here and not before: if the process ends during the drain, `leave`
        # closes it. From here on only late requests hold the model.
        self._loaded = None
        self._move(VersionEvent.FREED)

    async def _drain_and_free(self, loaded: LoadedVersion) -> None:
        servable = loaded.servable
        is_idle = await servable.drained(self._rules.drain_timeout_s)
        # Objects that front ends bound to the servable refer back to it. Without this the version's
        # memory would wait for the cyclic garbage collector, which may not run for minutes.
        servable.bound.clear()
        if is_idle:
            await self._loader().unload(loaded)
            return
        # The memory goes when the last request ends: freed now, it would crash that request.
        facts, holders = self.facts, servable.holders
        log.warning(
            logs.Event("version still in use after the drain timeout", **facts, holders=holders)
        )

    def _move(self, event: VersionEvent, error: str = "") -> VersionStage:
        before, stage = self._life.stage, self._life.apply(event, error)
        if stage is not before:  # steps of an abandoned load change nothing worth a line
            self._log_move(stage)
        return stage

    def _log_move(self, stage: VersionStage) -> None:
        log.info(
            logs.Event(
                "version state changed",
                model=self._rules.model,
                version=self._life.version,
                state=self._life.state.name,
                stage=stage.value,
                base_path=self._rules.base_path,
            )
        )
