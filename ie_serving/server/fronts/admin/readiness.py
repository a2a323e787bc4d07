"""When probes are told that requests are welcome, over both interfaces in the same step."""

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
        health: what probes over HTTP are told.
        grpc_health: what `grpc.health.v1` answers.
        served: awaited when the ports are open.
    """

    def __init__(self, health: Health, grpc_health: HealthService, served: Served) -> None:
        self._health = health
        self._grpc_health = grpc_health
        self._served = served
        self._waiting: asyncio.Task[None] | None = None

    def set_ready(self, ready: bool) -> None:
        """See `begin` where `ready` is True, else `end`."""
        if ready:
            self.begin()
        else:
            self.end()

    def begin(self) -> None:
        """Know that the ports are open: the process is ready when the models have served."""
        self._waiting = asyncio.create_task(self._wait(), name="wait for every model")

    def end(self) -> None:
        """Send clients elsewhere from now on."""
        if self._waiting:
            self._waiting.cancel()
        self._health.phase = Phase.STOPPING
        self._grpc_health.refuse()

    def hand_over(self) -> None:
        """Let clients that watch ask anew: others answer at this address, and are ready."""
        self._grpc_health.hand_over()

    async def _wait(self) -> None:
        try:
            await self._served()
        except Exception:
            # Nobody awaits this task: without the log line its error would never be seen.
            log.exception(Event("readiness failed by a defect"))
            return
        self._health.phase = Phase.READY
        self._grpc_health.allow()
