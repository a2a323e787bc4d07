"""The workers of one server as `app/application.py` sees them: a single one, or one of several."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ie_serving.config.files.followed import Among, FollowedConfig
from ie_serving.config.settings import ServerSettings
from ie_serving.models.admin.poll_requests import Poll
from ie_serving.models.admin.reload_requests import ReloadRequests
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.manager import Edit, ModelManager
from ie_serving.models.peers import NO_PEERS, Peers
from ie_serving.server.fronts.admin.log_pages import Set as SetLevel
from ie_serving.server.fronts.admin.log_pages import here
from ie_serving.server.process.handover import Handovers
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.listener import Sharing
from ie_serving.server.workers.member import Member
from ie_serving.telemetry.metrics.page import Metrics

Reload = Callable[[], Awaitable[bool]]
"""Reloads; returns whether anything changed. Raises ServingError."""


class Changing(Protocol):
    """Changes the models of all workers; with one worker, `ModelManager` is this."""

    async def apply(self, configs: Sequence[ModelConfig], *, all_or_nothing: bool) -> None:
        """See `ModelManager.apply`."""

    async def relabel(self, edit: Edit) -> None:
        """See `ModelManager.relabel`."""


class Workers(Protocol):
    """The interface of the parts that differ between one worker and several."""

    @property
    def others(self) -> Peers:
        """The other workers, as the models see them."""

    @property
    def among(self) -> Among | None:
        """Changes the configuration of all workers; None where there is only one."""

    def over(self, models: ModelManager, metrics: Metrics) -> Changing:
        """Connect to the models and the metrics; return the object that changes the models."""

    def sharing(self, limit: ConnectionLimit) -> Sharing | None:
        """Return what spreads connections over the workers; None where there is only one."""

    async def begin(self, config: FollowedConfig) -> None:
        """Start the models; return when the ports may open. Raises: ServingError."""

    def poll_all(self, own: Poll) -> Poll:
        """Return a function that polls a model in all workers; `own` polls in this one."""

    def reload_all(self, own: ReloadRequests) -> Reload:
        """Return a function that reloads all workers; `own` reloads this one."""

    def level_all(self, own: SetLevel) -> Callable[[str], Awaitable[None]]:
        """Return a function that sets the log level of all workers; `own` sets this one's."""

    def ready(self, own: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Return a function that awaits readiness of all workers; `own` awaits this one's."""

    def end(self) -> None:
        """Leave the group of workers."""


class OneWorker:
    """A single worker: each operation concerns this process alone."""

    others = NO_PEERS
    among = None

    def over(self, models: ModelManager, metrics: Metrics) -> ModelManager:
        """See `Workers`."""
        return models

    def sharing(self, limit: ConnectionLimit) -> None:
        """See `Workers`."""

    async def begin(self, config: FollowedConfig) -> None:
        """See `Workers`."""
        await config.start()

    def poll_all(self, own: Poll) -> Poll:
        """See `Workers`."""
        return own

    def reload_all(self, own: ReloadRequests) -> Reload:
        """See `Workers`."""
        return own

    def level_all(self, own: SetLevel) -> Callable[[str], Awaitable[None]]:
        """See `Workers`."""
        return here(own)

    def ready(self, own: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """See `Workers`."""
        return own

    def end(self) -> None:
        """See `Workers`."""


def workers_of(member: Member | None, handovers: Handovers, server: ServerSettings) -> Workers:
    """Return the workers: `member` is this one's part among several, or None for a single one."""
    if member is None:
        return OneWorker()
    from ie_serving.app.several import SeveralWorkers  # here: a single worker does not need it

    return SeveralWorkers(member, handovers.configuration, server)
