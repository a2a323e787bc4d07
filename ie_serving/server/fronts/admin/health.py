"""Answers HTTP probes: whether the process lives, has started, and takes requests.

Source: the health part of the Open Inference Protocol, which load balancers already know.
"""

import asyncio
import enum
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from ie_serving.core.runtime.states import after
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.fronts.admin.grpc_health import HealthService
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

LIVE = "/v2/health/live"
READY = "/v2/health/ready"
STARTUP = "/v2/health/startup"
"""Our addition: the protocol has no startup probe, which Kubernetes uses."""
MOST_NAMES: Final = 10
"""Models in the body of a probe that is not answered with ready: a probe's log keeps few bytes."""
_MODEL = re.compile(rb"/v2/models/([^/]+)(?:/versions/([0-9]{1,18}))?/ready")


def model_asked(path: bytes) -> ModelSpec | None:
    """Return the model whose readiness a path asks for; None for any other path."""
    found = _MODEL.fullmatch(path)
    if found is None:
        return None
    name = unquote_to_bytes(found[1]).decode("utf-8", "replace")
    return ModelSpec(name, int(found[2]) if found[2] else None)


class ProcessPhase(enum.Enum):
    """Phase of the process."""

    STARTING = "starting"
    """Not every model has served yet. Requests are answered: other models may serve already."""
    READY = "ready"
    """The ports are open and every model has served."""
    STOPPING = "stopping"
    """Clients should use another server: each reply closes its connection."""


class PhaseEvent(enum.Enum):
    """Events of the process."""

    SERVED = "served"  # the ports are open, and every model has served
    STOP = "stop"


PHASES: Final[Mapping[ProcessPhase, Mapping[PhaseEvent, ProcessPhase]]] = {
    ProcessPhase.STARTING: {
        PhaseEvent.SERVED: ProcessPhase.READY,
        PhaseEvent.STOP: ProcessPhase.STOPPING,
    },
    ProcessPhase.READY: {PhaseEvent.STOP: ProcessPhase.STOPPING},
    ProcessPhase.STOPPING: {PhaseEvent.STOP: ProcessPhase.STOPPING},
}


class Health:
    """The replies to probes.

    Attributes:
        phase: phase of this process; only `apply` sets it.
        lacking: names the models that readiness waits for; none where callers are asked who they
            are, since probes are not.
    """

    def __init__(self) -> None:
        self.phase = ProcessPhase.STARTING
        self.lacking: Callable[[], Collection[str]] = tuple

    def apply(self, event: PhaseEvent) -> None:
        """Move the process to its next phase."""
        self.phase = after(PHASES, self.phase, event, "process")

    def live_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a liveness probe."""
        return 200, b'{"live":true}'

    def startup_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a startup probe: whether the process was ever ready."""
        started = self.phase is not ProcessPhase.STARTING
        return (200, b'{"started":true}') if started else (503, b'{"started":false}')

    def ready_reply(self) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe."""
        if self.phase is ProcessPhase.READY:
            return 200, b'{"ready":true}'
        names = self.lacking() if self.phase is ProcessPhase.STARTING else ()
        if not names:
            return 503, b'{"ready":false}'
        # Clients of the protocol read `ready` alone.
        told = {"ready": False, "waits_for": [*names][:MOST_NAMES], "models": len(names)}
        return 503, json.dumps(told, separators=(",", ":")).encode()

    def model_reply(self, model: ModelSpec, serves: bool) -> tuple[int, bytes]:
        """HTTP status and JSON body of a readiness probe of one configured model."""
        ready = serves and self.phase is not ProcessPhase.STOPPING
        return (200 if ready else 503), json.dumps({"name": model.name, "ready": ready}).encode()


AwaitServed = Callable[[], Awaitable[None]]
"""Waits until every model that readiness depends on has served."""


class ProcessReadiness:
    """Moves the process from phase to phase. Belongs to one event loop.

    Args of the constructor:
        health: answers probes over HTTP.
        grpc_health: answers `grpc.health.v1`.
        served: awaited when the ports are open.
    """

    def __init__(self, health: Health, grpc_health: HealthService, served: AwaitServed) -> None:
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
        self._health.apply(PhaseEvent.STOP)
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
        self._health.apply(PhaseEvent.SERVED)
        self._grpc_health.allow()
