"""Answers HTTP probes: whether the process lives, has started, and takes requests.

Source: the health part of the Open Inference Protocol, which load balancers already know.

Also `grpc.health.v1.Health`, which tells clients of gRPC which services and models serve. Bytes to
bytes. Source: GRPC Health Checking Protocol.
"""

import asyncio
import enum
import json
import logging
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from typing import Final
from urllib.parse import unquote_to_bytes

from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.core.runtime.states import after
from ie_serving.core.runtime.waits import set_within
from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.transport.grpc.services import Buffer, CallContext, Services, Streaming
from ie_serving.telemetry.log.logs import Event
from ie_serving.wire.tfs.request_messages import parse

NAME = "grpc.health.v1.Health"
DESCRIPTOR: bytes = health_pb2.DESCRIPTOR.serialized_pb
"""The serialized descriptor of the file that declares the service."""

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


IsReady = Callable[[ModelSpec], bool]
"""Returns whether a configured model serves. Raises NotFound for any other name."""

WATCH_S = 1.0
"""Seconds between two checks of a model for a client that watches it: the default interval at which
repositories are polled."""


class HealthService:
    """Answers for the server as a whole (the empty name), for each service, and for each model.

    Args of the constructor:
        names: full names of the services; clients may also use the last part alone, as clients of
            TensorFlow Serving do.
        is_ready: checks a model by its name.
        watch_s: seconds between two checks of a model for a client that watches it.
        drain_delay_s: seconds for which a Watch stays open after `refuse`. A client whose Watch
            ends opens a new one, without delay if it had got an answer; without this, all clients
            would repeat that until the port closes.

    The server starts as NOT_SERVING, becomes SERVING once, and then NOT_SERVING for good, unless
    another process takes over. A model is SERVING while one of its versions is AVAILABLE.
    """

    def __init__(
        self,
        names: Iterable[str],
        is_ready: IsReady,
        *,
        watch_s: float = WATCH_S,
        drain_delay_s: float = 0.0,
    ) -> None:
        full = list(names)
        self._names = {"", NAME, *full, *(name.rpartition(".")[2] for name in full)}
        self._is_ready = is_ready
        self._watch_s = watch_s
        self._allowed = asyncio.Event()
        self._drain_delay_s = drain_delay_s
        self._stopping = asyncio.Event()
        self._over = asyncio.Event()
        self._replaced = False

    def services(self) -> Services:
        """The service with its methods."""
        return {NAME: {"Check": self._check, "Watch": Streaming(self._watch)}}

    def allow(self) -> None:
        """Answer SERVING from now on, and notify clients that watch."""
        self._allowed.set()

    def refuse(self) -> None:
        """Answer NOT_SERVING from now on, and notify clients that watch."""
        self._stopping.set()
        self._allowed.set()  # a Watch waits for `allow` first and then for `refuse`
        asyncio.get_running_loop().call_later(self._drain_delay_s, self._over.set)

    def hand_over(self) -> None:
        """End every Watch without a change: the next one reaches the process that took over."""
        self._replaced = True
        self._over.set()
        self.refuse()

    async def _check(self, payload: Buffer, _: CallContext) -> bytes:
        name = parse(HealthCheckRequest, payload).service
        status = self._status(name)
        if status == SERVICE_UNKNOWN:
            raise NotFound(
                f'no service or model "{name}" here; the services are: '
                + ", ".join(sorted(self._names - {""}))
            )
        return _reply(status)

    async def _watch(
        self, requests: AsyncIterator[Buffer], _: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Send the state now and at each change; the call ends when the port closes."""
        async for payload in requests:
            name = parse(HealthCheckRequest, payload).service
            changes = self._changes_of_server if name in self._names else self._changes_of_model
            async for status in changes(name):
                yield _reply(status)
            await self._over.wait()
            return

    async def _changes_of_server(self, name: str) -> AsyncGenerator[int, None]:
        for change in (self._allowed, self._stopping):
            if not change.is_set():
                yield self._status(name)
                await change.wait()
        yield self._status(name)

    async def _changes_of_model(self, name: str) -> AsyncGenerator[int, None]:
        told: int | None = None
        is_over = False
        while not is_over:
            is_over = self._stopping.is_set()
            status = self._status(name)
            if status != told:
                yield status
            told = status
            await set_within(self._stopping, self._watch_s)

    def _status(self, name: str) -> int:
        if name in self._names:
            is_serving = self._allowed.is_set()
        else:
            try:
                is_serving = self._is_ready(ModelSpec(name))
            except NotFound:
                return int(SERVICE_UNKNOWN)
        is_stopping = self._stopping.is_set() and not self._replaced
        return int(SERVING if is_serving and not is_stopping else NOT_SERVING)


def _reply(status: int) -> bytes:
    reply: bytes = HealthCheckResponse(status=status).SerializeToString()
    return reply


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
