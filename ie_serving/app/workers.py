"""The workers of the server as `app/application.py` asks them: one, or this one among several."""

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
"""Reloads, and tells whether anything changed. Raises ServingError."""


class Changing(Protocol):
    """Changes the models of all workers; `ModelManager` does where there is one."""

    async def apply(self, configs: Sequence[ModelConfig], *, all_or_nothing: bool) -> None:
        """See `ModelManager.apply`."""

    async def relabel(self, edit: Edit) -> None:
        """See `ModelManager.relabel`."""


class Workers(Protocol):
    """What differs between one worker and several."""

    @property
    def others(self) -> Peers:
        """The other ones, as models see them."""

    @property
    def among(self) -> Among | None:
        """What changes the configuration of all; None where there is one."""

    def over(self, models: ModelManager, metrics: Metrics) -> Changing:
        """Stand over the models and before the metrics; give what changes the models."""

    def sharing(self, limit: ConnectionLimit) -> Sharing | None:
        """Give what shares the connections of all ports; None where there is nobody."""

    async def begin(self, config: FollowedConfig) -> None:
        """Start the models; return when the ports may be opened. Raises: ServingError."""

    def poll_all(self, own: Poll) -> Poll:
        """Give what polls a model in all workers, where `own` does in this one."""

    def reload_all(self, own: ReloadRequests) -> Reload:
        """Give what reloads in all workers, where `own` does in this one."""

    def level_all(self, own: SetLevel) -> Callable[[str], Awaitable[None]]:
        """Give what logs from a level on in all workers, where `own` does in this one."""

    def ready(self, own: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Give what waits until all workers are ready, where `own` does for this one."""

    def end(self) -> None:
        """Take part no more."""


class OneWorker:
    """There is one: everything is as it stands there."""

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
    """Give the workers, where `member` is the part of this one among several, None for one."""
    if member is None:
        return OneWorker()
    from ie_serving.app.several import SeveralWorkers  # here: one worker does without it

    return SeveralWorkers(member, handovers.configuration, server)
