"""Decides when the process is ready, and tells both health services in the same step."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ie_serving.server.fronts.admin.grpc_health import HealthService
from ie_serving.server.fronts.admin.health import Health, Phase
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

Served = Callable[[], Awaitable[None]]
"""Waits until every model that readiness depends on has served."""


class Readiness:
    """Moves the process from phase to phase. Belongs to one event loop.

    Args of the constructor:
        health: answers probes over HTTP.
        grpc_health: answers `grpc.health.v1`.
        served: awaited when the ports are open.
    """

    def __init__(self, health: Health, grpc_health: HealthService, served: Served) -> None:
        self._health = health
        self._grpc_health = grpc_health
        self._served = served
        self._waiting: asyncio.Task[None] | None = None

    def set_ready(self, ready: bool) -> None:
        """Call `begin` if `ready` is True, else `end`."""
        if ready:
            self.begin()
        else:
            self.end()

    def begin(self) -> None:
        """Note that the ports are open: the process is ready once the models have served."""
        self._waiting = asyncio.create_task(self._wait(), name="wait for every model")

    def end(self) -> None:
        """Report not ready from now on, so that clients use another server."""
        if self._waiting:
            self._waiting.cancel()
        self._health.phase = Phase.STOPPING
        self._grpc_health.refuse()

    def hand_over(self) -> None:
        """End all health watches: clients open them anew at the process that has taken over."""
        self._grpc_health.hand_over()

    async def _wait(self) -> None:
        try:
            await self._served()
        except Exception:
            # The task is not awaited: without this log line its error would stay unseen.
            log.exception(Event("readiness failed by a defect"))
            return
        self._health.phase = Phase.READY
        self._grpc_health.allow()
