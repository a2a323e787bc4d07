"""The model manager: makes the served models those of the configuration.

A new configuration is prepared beside the present one: each model that is new, or needs a new
load, gets its own stream and loads first. Then one step on the event loop switches all names to
their new streams; replaced and removed streams retire afterwards. So a request sees the old
configuration or the new one, and a change that fails leaves no trace.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from ie_serving.core.runtime.waits import Tasks, side_by_side
from ie_serving.core.values.errors import DirectoryGone, Emptied, Missing, NotThereYet, StorageError
from ie_serving.models.admission import (
    check_labels_of,
    check_platforms,
    going_on,
    identity,
    updated,
)
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.first_loads import (
    begin,
    begin_alone,
    load_alone,
    require_available,
    until_it_serves,
    until_they_answer,
)
from ie_serving.models.load_report import details_of, reported
from ie_serving.models.served_models import PreparedModels, ServedModel, ServedModels, Successors
from ie_serving.models.stream import ModelStream
from ie_serving.models.version.versions import leave_all
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

OpenStream = Callable[[ModelConfig], ModelStream]
"""Makes the stream of one model, not yet started."""
REMINDER_S = 10.0
"""Seconds between two lines of the log that say which models readiness waits for."""
MOST_NAMES = 10
"""Models that such a line names."""
Edit = Callable[[Sequence[ModelConfig]], Sequence[ModelConfig]]
"""Gives the models wanted from now on, of those that are desired so far."""


class ApplyEdit(Protocol):
    """Changes the models of all workers; see `ModelManager.apply`."""

    async def __call__(self, wanted: Edit, *, all_or_nothing: bool) -> None:
        """Apply an edit of the desired models."""


Agreed = Callable[[], Awaitable[None]]
"""Awaited when all is prepared, in the step before names change hands. Raises: ServingError, which
refuses the change."""


def edited(
    wanted: Sequence[ModelConfig] | Edit, desired: Sequence[ModelConfig]
) -> Sequence[ModelConfig]:
    """Give the models that are wanted; an edit is made of the `desired` ones."""
    return wanted(desired) if callable(wanted) else wanted


async def at_once() -> None:
    """Agree at once: no other worker takes part in the change."""


class ModelManager:
    """Starts, changes and ends the models of this process. Lives on one event loop.

    Args of the constructor:
        open_stream: makes the stream of one model.
        labels_for_unavailable: lets a new label name a version that does not serve yet.
        allow_unavailable_models: start although a base path cannot be listed. Without it only a
            local directory that does not exist yet is waited for.
        require_available: the start waits until each model serves, and ends when one has failed.
        opens_early: the start lists every repository, and does not wait for the loads.
        ready_after_s: seconds for which `ready` waits for models that have never served; None: for
            ever.
        poll_wait_of: gives how often a model's repository is listed; 0: once.
        on_names: called with the names of all models, in the step that switches them.
        on_applied: called after each change of the desired or the served models.

    Attributes:
        served: the models that requests can use.
        within_reach: the models that graphs can use: also those an all-or-nothing change loads.
        desired: the configuration that was applied last.
        list_repository: lists a directory of models, by its base path; raises StorageError. None
            where no directories of models are watched.
        tasks: loads, starts and ends of models that are under way.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        *,
        labels_for_unavailable: bool,
        allow_unavailable_models: bool,
        require_available: bool,
        opens_early: bool = False,
        ready_after_s: float | None = None,
        poll_wait_of: Callable[[ModelConfig], float] = lambda config: config.poll_wait_s or 0.0,
        on_names: Callable[[Collection[str]], None] = lambda names: None,
        on_applied: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_stream = open_stream
        self.list_repository: Callable[[str], Awaitable[None]] | None = None
        self._poll_wait_of = poll_wait_of
        self._on_names = on_names
        self._on_applied = on_applied
        self._labels_for_unavailable = labels_for_unavailable
        self._allow_unavailable_models = allow_unavailable_models
        self._require_available = require_available
        self._opens_early = opens_early
        self._ready_after_s = ready_after_s
        self.served = ServedModels()
        self._prepared = ServedModels()
        self.within_reach = PreparedModels(self.served, self._prepared)
        self.desired: Sequence[ModelConfig] = ()
        self._awaits_all = not allow_unavailable_models
        self._applying = asyncio.Lock()
        self.tasks = Tasks()
        self._successors = Successors(self._take_over, self._note_failed, self.tasks)
        self._retiring: set[ModelStream] = set()

    async def start(self, configs: Sequence[ModelConfig]) -> None:
        """Load the first configuration; returns when each first load is done or has failed.

        Models of repositories begin each alone: one that cannot be listed concerns no other.

        Raises:
            StorageError: a base path exists, as far as is known, but cannot be listed; unless
                that is allowed.
            LoadFailed: a model has failed to load although each is required.
        """
        with details_of(configs):
            opened = self._opened(configs)
        self._commit(configs, opened)
        alone = [each for each in opened.values() if each.config.repository]
        strictly = [each for each in opened.values() if not each.config.repository]
        loading = [each for each in opened.values() if each.stream.is_admitted]
        async with reported(loading, opens_early=self._opens_early):
            begun = [self.tasks.begin(begin_alone(each)) for each in alone]
            await side_by_side(map(self._begin_strictly, strictly))
            if not self._opens_early:
                await asyncio.gather(*begun)

    async def resume(self, configs: Sequence[ModelConfig], answered: Mapping[str, int]) -> None:
        """Begin with the models of the worker that this one replaces.

        Returns when each model that served does so again, or cannot, and each on demand is listed:
        until then requests for it would find no version that they could load. A model that fails
        does not affect the others, and models that had not served yet are not waited for.

        Args:
            configs: the models as they were served.
            answered: the version of each model that served, by the model's name.
        """
        self._awaits_all = False
        opened = self._opened(configs)
        for name, served in opened.items():
            served.stream.recall(answered.get(name))
        self._commit(configs, opened)
        begun = [(each, self.tasks.begin(begin_alone(each))) for each in opened.values()]
        if not self._opens_early:
            awaited = [b for b in begun if b[0].config.name in answered or b[0].stream.is_on_demand]
            await until_they_answer(awaited)

    async def apply(
        self,
        wanted: Sequence[ModelConfig] | Edit,
        *,
        all_or_nothing: bool,
        agreed: Agreed = at_once,
    ) -> None:
        """Change to another configuration.

        Args:
            wanted: all models wanted from now on, or an edit that gives them; no other change comes
                between the edit and its effect.
            agreed: agreement before the change, an `Agreed`; its exception refuses an
                all-or-nothing change.
            all_or_nothing: load first, and refuse the change when a model that must be loaded does
                not become AVAILABLE. Otherwise the change is made at once; each model serves when
                it is ready, and keeps its predecessor serving until then.

        Raises:
            InvalidRequest: a model's platform would change; nothing has changed.
            PreconditionFailed: all or nothing, and a label names a version that does not serve;
                nothing has changed. Otherwise such a label waits for its version.
            LoadFailed: a model did not become AVAILABLE; nothing has changed.
        """
        # One change at a time: file and RPC may come together, and each compares with the present.
        async with self._applying:
            configs = edited(wanted, self.desired)
            check_platforms(configs, self.served.entries)
            if all_or_nothing:
                self._check_labels(configs)
            else:
                waiting = self._successors.entries
                going = [config for config in configs if config.name not in waiting]
                changed = await updated(self.served.entries, going)
                # Read after the await: another successor may have taken over meanwhile.
                self.served.entries = {**self.served.entries, **changed}
            fresh = self._opened(c for c in configs if self._must_load(c, anew=all_or_nothing))
            if all_or_nothing:
                await self._prepare(fresh.values(), agreed)
            else:
                await agreed()
            self._commit(configs, fresh)
            log.info(Event("configuration applied", models=",".join(self.served.entries)))
            if not all_or_nothing:
                self._begin_each_alone(fresh.values())

    async def relabel(self, edit: Edit, *, agreed: Agreed = at_once) -> None:
        """Change only labels, by an `edit` of the desired models; nothing is loaded.

        Args:
            edit: gives the same models, in their order, with other labels.
            agreed: agreement before the change, an `Agreed`.

        Raises:
            PreconditionFailed: a label names a version that does not serve; nothing has changed.
        """
        async with self._applying:
            configs = edit(self.desired)
            pairs = zip(configs, self.desired, strict=True)
            self._check_labels(new for new, old in pairs if new != old)
            await agreed()
            self._commit(configs, {})

    def serving(self) -> tuple[ModelConfig, ...]:
        """Give the models as they are served now: a predecessor until its successor serves."""
        return tuple(served.config for served in self.served.entries.values())

    def count_in(self, repository: str) -> int:
        """Count the desired models that come from a repository, by its base path."""
        return sum(config.repository == repository for config in self.desired)

    def answering(self) -> dict[str, int]:
        """Give the version of each model that answers requests, or will be the first to.

        Without models on demand: no earlier version of theirs answers while they load.
        """
        streams = {each.config.name: each.stream for each in self._entries()}
        found = {
            n: stream.expected_default for n, stream in streams.items() if not stream.is_on_demand
        }
        return {name: version for name, version in found.items() if version is not None}

    async def ready(self) -> None:
        """Wait until every model has had an AVAILABLE version; one of a repository may have failed.

        Returns at once if the start may lack models, and in a worker that replaces another: no
        rollout waits for that, and a model that was broken before must not keep requests from the
        others.
        """
        if not self._awaits_all:
            return
        reminder = self.tasks.begin(self._remind())
        try:
            await asyncio.wait_for(self._all_served(), self._ready_after_s)
        except asyncio.TimeoutError:
            lacking = ",".join(self.lacking())
            log.warning(Event("ready without models that never served", models=lacking))
        finally:
            reminder.cancel()

    def _awaited(self) -> list[ServedModel]:
        return [each for each in self._entries() if _is_awaited(each)]

    def lacking(self) -> list[str]:
        """Name the models that readiness waits for."""
        return [each.config.name for each in self._awaited()]

    async def _remind(self) -> None:
        """Log which model readiness waits for, and why, as long as it does."""
        while True:
            await asyncio.sleep(REMINDER_S)
            lacking = self._awaited()
            if lacking:
                first, names = (
                    lacking[0],
                    ",".join(each.config.name for each in lacking[:MOST_NAMES]),
                )
                cause = first.stream.why_none or "it is loading"
                log.warning(Event("not ready", waits_for=names, models=len(lacking), cause=cause))

    async def _all_served(self) -> None:
        while lacking := next((s for s in self._entries() if _is_awaited(s)), None):
            await lacking.stream.changed()

    def _entries(self) -> Iterable[ServedModel]:
        return self.served.entries.values()

    async def close(self, limit_s: float | None = None) -> None:
        """Let go of everything, since the process ends; see `leave_all`.

        Args:
            limit_s: seconds in which the code of versions has to end; None waits for ever.
        """
        streams = [stream for _, stream in self.streams()]
        streams += [each.stream for each in self._prepared.entries.values()]
        left = [stream.leave() for stream in (*streams, *self._retiring)]
        own = tuple(self.tasks)
        self.tasks.cancel()
        self.served.entries = {}
        versions = [version for versions, _ in left for version in versions]
        works = [work for _, works in left for work in works]
        await leave_all(versions, [*works, *own], limit_s)

    async def poll(self, name: str) -> None:
        """List a model's repository, and the files that serve; return once loads have begun.

        Raises:
            NotFound: no such model.
            DirectoryGone: the model's directory has gone from its repository of models.
            StorageError: the listing failed; nothing has changed.
        """
        config = self.served.entry(name).config
        streams = [stream for each, stream in self.streams() if each == name]
        try:
            polls = [stream.poll(compares=True) for stream in streams]
            for error in filter(None, await asyncio.gather(*polls, return_exceptions=True)):
                raise error
        except Missing as error:
            if not config.repository or isinstance(error, Emptied):
                raise
            if self.list_repository:  # where it is away as a whole, that is the trouble
                await self.list_repository(config.repository)
            raise DirectoryGone(
                f"Could not find any versions of model {name}: its directory has gone, put it back"
                " to have it served"
            ) from error

    async def settled(self) -> None:
        """Wait until of each model that was listed everything wanted is loaded or has failed."""
        listed = [stream for _, stream in self.streams() if stream.trouble is None]
        await side_by_side(stream.settled() for stream in listed)

    def streams(self) -> list[tuple[str, ModelStream]]:
        """Give model name and stream of all that serve, and of those that load to replace them."""
        every = (*self._entries(), *self._successors.entries.values())
        return [(each.config.name, each.stream) for each in every]

    def poll_now(self) -> None:
        """Poll every repository now."""
        for _, stream in self.streams():
            stream.poll_now()

    def _check_labels(self, configs: Iterable[ModelConfig]) -> None:
        allowed = self._labels_for_unavailable
        check_labels_of(configs, self.served.entries, unavailable_allowed=allowed)

    def _opened(self, configs: Iterable[ModelConfig]) -> dict[str, ServedModel]:
        return {config.name: ServedModel(config, self._open_stream(config)) for config in configs}

    async def _begin_strictly(self, served: ServedModel) -> None:
        if not await self._is_listed(served) and not self._require_available:
            return
        if self._opens_early:
            self.tasks.begin(load_alone(served))
            return
        await load_alone(served)
        if self._require_available:
            await until_it_serves(served)

    async def _is_listed(self, served: ServedModel) -> bool:
        """List for the first time; raise, unless it is allowed, where that fails."""
        try:
            await served.stream.start()
        except StorageError as error:
            if not self._allow_unavailable_models and not isinstance(error, NotThereYet):
                raise
            return False
        return True

    def _begin_each_alone(self, fresh: Iterable[ServedModel]) -> None:
        for served in fresh:
            self.tasks.begin(begin_alone(served))

    async def _prepare(self, fresh: Collection[ServedModel], agreed: Agreed) -> None:
        """Load all of `fresh`, or retire all of it and raise; also where others do not agree."""
        self._prepared.entries = {served.config.name: served for served in fresh}
        try:
            # Its tasks end before the streams retire: one that had not begun would go on unseen.
            await side_by_side(begin(served) for served in fresh)
            require_available(fresh)
            await agreed()
        except BaseException:  # also when the RPC is cancelled: these streams have no other owner
            self._retire(served.stream for served in fresh)
            raise
        finally:  # the caller gives them their names without an await
            self._prepared.entries = {}

    def _must_load(self, config: ModelConfig, *, anew: bool) -> bool:
        """Tell whether no served model, and no loading successor, is read as `config` says.

        With `anew` a model that has a successor always loads: the successor may take over while the
        caller waits, and replace the model that the caller saw.
        """
        old = self.served.entries.get(config.name)
        successor = self._successors.entries.get(config.name)
        if old and _keeps(old, config):
            return False
        if successor and anew:
            return True
        there = (old, successor)
        return not any(each and identity(each.config) == identity(config) for each in there)

    def _commit(self, configs: Sequence[ModelConfig], fresh: Mapping[str, ServedModel]) -> None:
        """Switch all names at once; no await, so that no request sees half of the change."""
        before, waiting = self.served.entries, self._successors.give_up()
        after: dict[str, ServedModel] = {}
        for config in configs:
            old = before.get(config.name)
            if old and _keeps(old, config):
                after[config.name] = _noted(old, config.fault)
                continue
            new = fresh.get(config.name) or going_on(config, old, waiting)
            # The old model keeps its name, version policy and labels until its successor serves: a
            # typo in a file must not take a model down, and a model on demand has to stay known.
            is_known = old and (
                old.stream.expected_default is not None or old.stream.reachable_versions
            )
            if old and new and is_known and not new.stream.reachable_versions:
                after[config.name] = replace(old, not_applied="")
                self._successors.add(new)
            else:
                after[config.name] = new or ServedModel(config, before[config.name].stream)
        self.served.entries = after
        for name in before.keys() - after.keys():
            self.served.remember(name, before[name].stream.own_statuses)
        self.desired = tuple(configs)
        self._on_names(self.served.names())
        # Policies and labels change after the names, in the same turn of the loop: no request runs
        # in between.
        used = (*after.values(), *self._successors.entries.values())
        for served in used:
            config = served.config
            served.stream.adopt(config.version_policy, config.version_labels, config.split)
        self._take_settings(before, after)
        # Identity decides: an entry that is kept is a new object around the same stream.
        kept = {id(served.stream) for served in used}
        left = (*before.values(), *waiting.values())
        self._retire(s.stream for s in left if id(s.stream) not in kept)
        self._on_applied()

    def _take_settings(
        self, before: Mapping[str, ServedModel], after: Mapping[str, ServedModel]
    ) -> None:
        for name, served in after.items():
            old, config = before.get(name), served.config
            if old is None or old.stream is not served.stream:
                continue
            if old.config.signature_changes != config.signature_changes:
                served.stream.retry_now()
                served.stream.poll_now()
            if old.config.poll_wait_s != config.poll_wait_s:
                served.stream.poll_every(self._poll_wait_of(config))

    def _note_failed(self, new: ServedModel, cause: str) -> None:
        """Say in the status of a model why its successor does not serve."""
        name = new.config.name
        old = self.served.entries[name]
        if old.not_applied != cause:
            self.served.entries = {**self.served.entries, name: replace(old, not_applied=cause)}

    def _take_over(self, new: ServedModel) -> None:
        """Let a successor that serves have its name."""
        name = new.config.name
        old = self.served.entries[name]
        self.served.entries = {**self.served.entries, name: new}
        self._on_applied()
        self._retire([old.stream])

    def _retire(self, streams: Iterable[ModelStream]) -> None:
        for stream in streams:
            self._retiring.add(stream)
            self.tasks.begin(self._retired(stream))

    async def _retired(self, stream: ModelStream) -> None:
        await stream.retire()
        self._retiring.discard(stream)
        if self.served.gone.get(stream.name) == stream.own_statuses:
            self.served.gone[stream.name] = partial(list, stream.own_statuses())  # frees the stream


def _keeps(old: ServedModel, config: ModelConfig) -> bool:
    """Tell whether a model keeps its settings, as the new ones cannot be used."""
    return bool(config.fault) and not old.config.fault


def _noted(old: ServedModel, fault: str) -> ServedModel:
    if fault != old.not_applied:
        log.error(Event("settings of a model not applied", model=old.config.name, cause=fault))
    return replace(old, not_applied=fault)


def _is_awaited(served: ServedModel) -> bool:
    """Tell whether readiness waits for a model: not for one that requests load."""
    stream = served.stream
    if stream.has_served or not stream.is_admitted:
        return False
    return not (served.config.repository and (stream.trouble or stream.is_settled))
