"""Follows the configuration in one worker: its initial models, and later changes of the file."""

import asyncio
import json
import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ie_serving.config.files import source
from ie_serving.config.files.fleet_models import FleetModels
from ie_serving.config.files.followed_fleet import FollowedFleet
from ie_serving.config.files.json_file import ConfigFile
from ie_serving.config.files.watch import ConfigWatch
from ie_serving.config.schema.contradictions import check_models, refusal
from ie_serving.config.settings import ALL_MODELS, Settings
from ie_serving.core.runtime.handover import Handovers, HandoverStore
from ie_serving.core.values.errors import ConfigError, ServingError
from ie_serving.models.configuration import ModelConfig, labelled
from ie_serving.models.fleet.repository import ModelRepository
from ie_serving.models.fleet.watch import Fleet
from ie_serving.models.manager import Edit, ModelManager
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AppliedConfig:
    """The state of the configuration.

    Attributes:
        desired: the last applied configuration, from the file or by RPC.
        serving: the models as served: for a model whose new configuration does not serve yet, the
            old one.
        seen: digest of the file's content that was applied last, or read at the start.
        repositories: directories of models that the file names.
    """

    desired: tuple[ModelConfig, ...]
    serving: tuple[ModelConfig, ...]
    seen: str | None
    repositories: tuple[ModelRepository, ...] = ()


def read_applied(store: HandoverStore) -> AppliedConfig | None:
    """Give the state of an earlier worker; None in the first worker of a server."""
    left = store.read()
    # Pickled, not JSON: a configuration has policies and options of many classes. Only processes of
    # this server write these bytes, to a file without a name.
    applied: AppliedConfig | None = pickle.loads(left) if left else None
    return applied


def leave_applied(store: HandoverStore, applied: AppliedConfig) -> None:
    """Replace the stored state by `applied`; log a failure."""
    _write(store, pickle.dumps(applied))


def read_answering(store: HandoverStore) -> dict[str, int]:
    """Give the versions that answered when an earlier worker died, by the model's name."""
    found: dict[str, int] = json.loads(store.read() or b"{}")
    return found


def leave_answering(store: HandoverStore, versions: Mapping[str, int]) -> None:
    """Replace the stored answering versions; log a failure."""
    _write(store, json.dumps(versions).encode())


def _write(store: HandoverStore, data: bytes) -> None:
    try:
        store.write(data)
    except OSError as error:
        log.warning(Event("configuration not handed over", cause=error.strerror))


PAUSE_S = 0.05
"""Seconds between two records of the answering versions. A record has all models, and a thousand
may load within seconds. A replacement worker does not wait for models missing in the last."""


class WorkersChange(Protocol):
    """Changes all workers of the server; `several.SeveralWorkerGroup` is one."""

    async def apply(self, wanted: Sequence[ModelConfig] | Edit, *, all_or_nothing: bool) -> None:
        """Change to another configuration; see `ModelManager`."""

    def leads(self) -> bool:
        """Tell whether this worker polls the file."""


class FollowedConfig:
    """Follows the configuration file; without a file the command line's models stay.

    Made before the first load, so that an edit during that load is noticed after it.

    Args of the constructor:
        settings: the file's path, its models at the server's start, and the interval of polls.
        models: the configured models.
        handovers: hold the state of the replaced worker, and then this worker's for its
            replacement.
        among: changes all workers, if there are several.
        fleet: lists directories of models; None where there cannot be any.
    """

    def __init__(
        self,
        settings: Settings,
        models: ModelManager,
        handovers: Handovers,
        among: WorkersChange | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        self._among = among
        self._settings = settings
        self._models = models
        self._handovers = handovers
        self._before = read_applied(handovers.configuration)
        # The configuration to apply once the resumed models serve again. If this worker dies before
        # that, its replacement applies it.
        self._wanted: Sequence[ModelConfig] | None = None
        self._is_pausing = self._has_loaded = False
        self._task: asyncio.Task[None] | None = None
        self._change = (among or models).apply
        self._watch = self._config_watch(among.leads if among else _always)
        self._repositories: tuple[ModelRepository, ...] = ()
        self._fleet = self._followed(fleet) if fleet else None

    async def start(self) -> None:
        """Load the wanted models, and apply later changes of the file, until `close`.

        A replacement worker begins with the served models, then applies the desired ones.

        Raises:
            ServingError: the first worker of a server cannot serve the wanted models.
        """
        wanted = await self._first()
        if self._before is None:
            await self._models.start(wanted)
        else:
            self._wanted = wanted
            answered = read_answering(self._handovers.answering)
            await self._models.resume(self._before.serving, answered)
            self._wanted = None
            await self._change_to(wanted)
        if self._watch:
            self._task = asyncio.create_task(self._watch.run(), name="watch configuration")
        if self._fleet:
            self._fleet.begin()

    def leave(self) -> None:
        """Store the state of the configuration for this worker's replacement."""
        models, watch = self._models, self._watch
        desired = models.desired if self._wanted is None else self._wanted
        applied = AppliedConfig(
            desired=tuple(desired),
            serving=models.serving(),
            seen=watch.seen if watch else None,
            repositories=self._repositories,
        )
        self.leave_answering()
        leave_applied(self._handovers.configuration, applied)

    def leave_answering(self) -> None:
        """Store the answering versions for the replacement."""
        leave_answering(self._handovers.answering, self._models.answering())

    def note_load(self) -> None:
        """After a load, store the answering versions at the end of this turn of the event loop."""
        loop = asyncio.get_running_loop()
        if self._is_pausing:
            self._has_loaded = True
            return
        self._is_pausing = True
        loop.call_soon(self.leave_answering)
        loop.call_later(PAUSE_S, self._end_pause)

    def _end_pause(self) -> None:
        self._is_pausing = False
        if self._has_loaded:
            self._has_loaded = False
            self.note_load()

    @property
    def is_replacement(self) -> bool:
        """Whether another worker has served before this one."""
        return self._before is not None

    @property
    def seen(self) -> str | None:
        """Digest of the file's content that was applied last; None without a file."""
        return self._watch.seen if self._watch else None

    @seen.setter
    def seen(self, digest: str | None) -> None:
        if self._watch:
            self._watch.seen = digest

    @property
    def fault(self) -> str:
        """Why the file as it is now is not applied; empty where it is, or there is none."""
        return self._watch.fault if self._watch else ""

    @property
    def repositories(self) -> tuple[ModelRepository, ...]:
        """Directories of models in the file that was applied last."""
        return self._repositories

    @repositories.setter
    def repositories(self, named: tuple[ModelRepository, ...]) -> None:
        self._repositories = named
        if self._fleet:
            self._fleet.follow(tuple(dict.fromkeys((*self._settings.repositories, *named))))

    async def reload(self) -> None:
        """Read the file and apply it now, changed or not; one of several workers does so.

        Raises:
            ServingError: the file is broken or cannot be applied; nothing has changed.
        """
        if self._among is not None and not self._among.leads():
            return
        if self._watch:
            await self._watch.reload()
        if self._fleet:
            await self._fleet.reload()

    async def reload_if_changed(self) -> bool:
        """Apply the file and the directories of models if they changed; tell whether they did.

        Raises: as `ConfigWatch.reload_if_changed`.
        """
        is_new = self._watch is not None and await self._watch.reload_if_changed()
        return (self._fleet is not None and await self._fleet.reload()) or is_new

    def close(self) -> None:
        """Follow the file no longer."""
        if self._task:
            self._task.cancel()
        if self._fleet:
            self._fleet.close()

    async def _first(self) -> Sequence[ModelConfig]:
        """Give the models to begin with: the last change wins, also across workers.

        The last applied configuration, perhaps by RPC, stays until the content of the file changes,
        and while the file is broken.
        """
        before = self._before
        if before is None:
            return await self._at_start()
        self.repositories = before.repositories
        if self._watch is None or self._watch.seen in (None, before.seen):
            return before.desired
        if self._among:
            # New content of the file is for all workers at once: the next poll applies it.
            self._watch.seen = before.seen
            return before.desired
        file = await self._newest()
        return (
            self._with_client_labels(await self._joined(file), before.desired)
            if file
            else before.desired
        )

    async def _at_start(self) -> Sequence[ModelConfig]:
        file = await self._newest()
        if file is None:
            settings = self._settings
            file = ConfigFile(models=settings.models, repositories=settings.in_file)
        self.repositories = file.repositories
        models = await self._fleet.first(file.models) if self._fleet else file.models
        return self._loaded_at_start(models)

    async def _newest(self) -> ConfigFile | None:
        """Read the file; None if there is none, or it is broken, which is logged."""
        path = self._settings.config_path
        if path is None:
            return None
        try:
            return await asyncio.to_thread(self._read, path)
        except ConfigError as error:
            if self._watch:
                self._watch.note(error)
            for fault in error.faults:
                log.error(
                    Event(
                        "configuration file is broken, the one applied last is used",
                        path=path,
                        cause=fault,
                    )
                )
            return None

    def _read(self, path: source.ConfigPath) -> ConfigFile:
        engine = self._settings.engine
        # A server may begin with an empty file, as the original does; an empty file does not unload
        # serving models.
        return self._load(path) if self._before else source.read(path, engine)

    def _load(self, path: source.ConfigPath) -> ConfigFile:
        """Read a changed file. Raises: ConfigError, also if the server cannot serve its models."""
        settings = self._settings
        file = source.load(path, settings.engine)
        are_all = not (settings.repositories or file.repositories)
        check_models(settings.server, file.models, are_all=are_all)
        return file

    async def configured(self) -> Sequence[ModelConfig]:
        """Give the models that the configuration has now, loaded or not. Raises: ConfigError."""
        path, models = self._settings.config_path, self._settings.models
        if path is not None:
            file = await asyncio.to_thread(source.read, path, self._settings.engine)
            models, self.repositories = file.models, file.repositories
        return await self._fleet.joined(models, anew=True) if self._fleet else models

    async def _joined(self, file: ConfigFile) -> Sequence[ModelConfig]:
        """Give the models of a file with those of its directories."""
        self.repositories = file.repositories
        return await self._fleet.joined(file.models) if self._fleet else file.models

    def _loaded_at_start(self, every: Sequence[ModelConfig]) -> Sequence[ModelConfig]:
        server = self._settings.server
        if not server.is_explicit or ALL_MODELS in server.load_model:
            return every
        return [config for config in every if config.name in server.load_model]

    def _with_client_labels(
        self, configs: Sequence[ModelConfig], loaded: Sequence[ModelConfig]
    ) -> Sequence[ModelConfig]:
        """Keep labels of clients; leave out what these have not loaded, where they decide."""
        configs = labelled(configs, loaded)
        if not self._settings.server.is_explicit:
            return configs
        names = {config.name for config in loaded}
        return [config for config in configs if config.name in names]

    async def _apply(self, file: ConfigFile) -> None:
        # The RPC changes all or nothing; the file lets each model stand for itself.
        configs = await self._joined(file)
        await self._change(partial(self._with_client_labels, configs), all_or_nothing=False)

    def _followed(self, fleet: Fleet) -> FollowedFleet:
        server = self._settings.server
        return FollowedFleet(
            fleet,
            FleetModels(self._settings.engine, partial(refusal, server)),
            lambda: self._models.desired,
            self._change,
            is_lenient=server.allow_unavailable_models,
            is_explicit=server.is_explicit,
        )

    def _config_watch(self, leads: Callable[[], bool]) -> ConfigWatch | None:
        path, server = self._settings.config_path, self._settings.server
        if path is None:
            return None
        return ConfigWatch(
            path, self._load, self._apply, poll_wait_s=server.config_poll_wait_s, leads=leads
        )

    async def _change_to(self, wanted: Sequence[ModelConfig]) -> None:
        try:
            await self._models.apply(wanted, all_or_nothing=False)
        except ServingError as error:
            log.error(Event("configuration not reloaded, the previous one stays", cause=error))


def _always() -> bool:
    return True
