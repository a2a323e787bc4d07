"""Answers `grpc.health.v1.Health`: tells clients of gRPC which services and models serve.

Takes and gives the bytes of messages. Source: GRPC Health Checking Protocol.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.core.runtime.waits import set_within
from ie_serving.core.values.errors import NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.server.transport.grpc.services import Buffer, CallContext, Services, StreamingMethod
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
            ends opens a new one, without delay if it had got a reply; without this, all clients
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
        return {NAME: {"Check": self._check, "Watch": StreamingMethod(self._watch)}}

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
