"""Loads and unloads models of the configuration at a client's request: Triton's explicit mode.

Source: Triton's `--model-control-mode=explicit` and its `model_repository` extension. A load makes
all versions that the model's version policy wants serve before the call returns; an unload lets
requests under way end. A second load lists the model's repository again; a second unload changes
nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ie_serving.core.values.errors import (
    ConfigError,
    LoadFailed,
    NotAvailable,
    NotFound,
    PreconditionFailed,
    advised,
)
from ie_serving.core.values.hints import Hint, nearest
from ie_serving.models.admin.reload_requests import PollModel
from ie_serving.models.admission import identity
from ie_serving.models.configuration import ModelConfig, labelled
from ie_serving.models.manager import ApplyEdit, ModelManager

Configured = Callable[[], Awaitable[Sequence[ModelConfig]]]
"""Gives the models of the configuration as it is now, loaded or not. Raises ConfigError."""


class ModelControl:
    """Lives on one event loop.

    Args of the constructor:
        models: the models of this worker.
        change: changes those of all workers.
        configured: function that gives the configured models, a `Configured`.
        poll: lists one model's repository in all workers, limited in rate (`PollRequests`).
        is_explicit: whether the server loads what clients ask for; otherwise calls are refused.
    """

    def __init__(
        self,
        models: ModelManager,
        change: ApplyEdit,
        configured: Configured,
        poll: PollModel,
        *,
        is_explicit: bool,
    ) -> None:
        self._models = models
        self._change = change
        self._configured = configured
        self._poll = poll
        self._is_explicit = is_explicit

    async def load(self, name: str) -> None:
        """Load a model as the configuration now has it; return when it serves.

        Raises:
            NotAvailable: the server is not in explicit mode.
            NotFound: the configuration has no such model.
            PreconditionFailed: another call has unloaded it meanwhile.
            LoadFailed: no version loads; what served before goes on.
        """
        wanted = (await self._every()).get(name)
        if wanted is None:
            raise await self._unknown(name)
        served = self._models.served.entries.get(name)
        await self._change(lambda desired: _with(desired, wanted), all_or_nothing=True)
        if served is not None and identity(served.config) == identity(wanted):
            try:
                await self._poll(name)
            except NotFound:
                if name in self._models.served.entries:
                    raise
            if name not in self._models.served.entries:
                raise PreconditionFailed(
                    f"model {name} was unloaded by another call during this load: load it again"
                )
            await self._loaded(name)

    async def unload(self, name: str) -> None:
        """Unload a model; requests under way are answered.

        Raises:
            NotAvailable: the server is not in explicit mode.
            NotFound: no such model is loaded or configured.
        """
        self._check_mode()
        if name in self._models.served.entries:
            await self._change(lambda desired: _without(desired, name), all_or_nothing=True)
        elif name not in await self._every():
            raise await self._unknown(name)

    async def unloaded(self) -> Sequence[str]:
        """Name the models that the configuration has and that are not loaded.

        It names none while the configuration file cannot be read, which the log says.
        """
        if not self._is_explicit:
            return ()
        loaded = self._models.served.entries
        try:
            configured = await self._configured()
        except ConfigError:
            return ()
        return [config.name for config in configured if config.name not in loaded]

    async def _every(self) -> Mapping[str, ModelConfig]:
        self._check_mode()
        return {config.name: config for config in await self._configured()}

    def _check_mode(self) -> None:
        if not self._is_explicit:
            raise NotAvailable(
                "clients may not load or unload models: the model control mode is poll, not"
                " explicit; the configuration and the repositories decide which models serve",
                Hint(". {server.model_control_mode} explicit changes that"),
            )

    async def _unknown(self, name: str) -> NotFound:
        known = sorted(await self._every())
        advice = f": the configuration has no such model{nearest(name, known)}"
        return NotFound(advised(f"Could not find any versions of model {name}", advice))

    async def _loaded(self, name: str) -> None:
        streams = [stream for each, stream in self._models.streams() if each == name]
        await asyncio.gather(*(stream.settled() for stream in streams))
        failures = (item for stream in streams for item in sorted(stream.all_failures().items()))
        causes = [f"version {number}: {cause}" for number, cause in failures]
        if causes:
            raise LoadFailed(f"model {name} does not load: {'; '.join(causes)}")


def _with(desired: Sequence[ModelConfig], wanted: ModelConfig) -> Sequence[ModelConfig]:
    return [*_without(desired, wanted.name), *labelled([wanted], desired)]


def _without(desired: Sequence[ModelConfig], name: str) -> Sequence[ModelConfig]:
    return [config for config in desired if config.name != name]
