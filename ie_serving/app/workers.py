"""The workers of one server as `app/application.py` sees them: a single one, or one of several."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ie_serving.config.files.followed_config import FollowedConfig, WorkersChange
from ie_serving.models.admin.reload_requests import PollModel, ReloadRequests
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.manager import Edit, ModelManager
from ie_serving.models.peers import NO_PEERS, Peers
from ie_serving.server.fronts.admin.log_pages import Set as SetLevel
from ie_serving.server.fronts.admin.log_pages import here
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.listener import SocketSharing
from ie_serving.telemetry.metrics.page import Metrics

Reload = Callable[[], Awaitable[bool]]
"""Reloads; returns whether anything changed. Raises ServingError."""

Follow = Callable[[WorkersChange | None], FollowedConfig]
"""Makes what follows the configuration; the argument is that of `FollowedConfig`."""


class ModelChanges(Protocol):
    """Changes the models of all workers; with one worker, `ModelManager` is this."""

    async def apply(self, wanted: Sequence[ModelConfig] | Edit, *, all_or_nothing: bool) -> None:
        """See `ModelManager.apply`."""

    async def relabel(self, edit: Edit) -> None:
        """See `ModelManager.relabel`."""


class WorkerGroup:
    """The parts over the models that one worker has otherwise than several; here those of one.

    Args of the constructor:
        changes: object that changes the models of all workers.
        among: changes the configuration of all workers; None where there is only one.
        follow: maker of the follower of the configuration, a `Follow`.

    Attributes:
        changes: changes the models of all workers.
        config: follows the configuration.
        sharing: spreads connections over the workers; None where there is only one.
    """

    sharing: SocketSharing | None = None

    def __init__(self, changes: ModelChanges, among: WorkersChange | None, follow: Follow) -> None:
        self.changes = changes
        self.config = follow(among)

    def config_fault(self) -> str:
        """Return why the configuration file is not applied, as the worker that leads knows it."""
        return self.config.fault

    async def begin(self) -> None:
        """Start the models; return when the ports may open. Raises: ServingError."""
        await self.config.start()

    def poll_all(self, own: PollModel) -> PollModel:
        """Return a function that polls a model in all workers; `own` polls in this one."""
        return own

    def reload_all(self, own: ReloadRequests) -> Reload:
        """Return a function that reloads all workers; `own` reloads this one."""
        return own

    def level_all(self, own: SetLevel) -> Callable[[str], Awaitable[None]]:
        """Return a function that sets the log level of all workers; `own` sets this one's."""
        return here(own)

    def ready(self, own: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Return a function that awaits readiness of all workers; `own` awaits this one's."""
        return own

    def end(self) -> None:
        """Leave the group of workers."""


class Workers:
    """What a worker knows of the others before it has models; here it is the only one.

    Attributes:
        others: the other workers, as the models see them.
    """

    others: Peers = NO_PEERS

    def leads(self) -> bool:
        """Return whether this worker is the one that follows files and directories of models."""
        return True

    def over(
        self, models: ModelManager, metrics: Metrics, limit: ConnectionLimit, follow: Follow
    ) -> WorkerGroup:
        """Connect the workers to this one's models, metrics and connections."""
        return WorkerGroup(models, None, follow)
