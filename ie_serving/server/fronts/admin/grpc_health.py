"""`grpc.health.v1.Health`: whether services take requests. Bytes to bytes.

Source: GRPC Health Checking Protocol.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable

from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from ie_serving.core.errors import NotFound
from ie_serving.server.transport.grpc.services import Buffer, CallContext, Services, Streaming
from ie_serving.wire.tfs.requests import parse

NAME = "grpc.health.v1.Health"
DESCRIPTOR: bytes = health_pb2.DESCRIPTOR.serialized_pb
"""The file that declares it, serialized."""

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """Answers for the server as a whole, the empty name, and for each service.

    Args of the constructor:
        names: full names of the services that are served; asked for by the last word, too, as
            clients of TensorFlow Serving do.

    The state begins as NOT_SERVING, becomes SERVING once, and then NOT_SERVING for good.
    """

    def __init__(self, names: Iterable[str]) -> None:
        full = list(names)
        self._names = {"", NAME, *full, *(name.rpartition(".")[2] for name in full)}
        self._allowed = asyncio.Event()
        self._stopping = asyncio.Event()

    def services(self) -> Services:
        """The service with its methods."""
        return {NAME: {"Check": self._check, "Watch": Streaming(self._watch)}}

    def allow(self) -> None:
        """Answer SERVING from now on, and tell it to clients that watch."""
        self._allowed.set()

    def refuse(self) -> None:
        """Answer NOT_SERVING from now on, and tell it to clients that watch."""
        self._stopping.set()
        self._allowed.set()  # a watch waits for one after the other

    async def _check(self, payload: Buffer, _: CallContext) -> bytes:
        name = parse(HealthCheckRequest, payload).service
        if name not in self._names:
            raise NotFound(
                f'no service "{name}" here; it has: {", ".join(sorted(self._names - {""}))}'
            )
        return self._reply(name)

    async def _watch(self, requests: AsyncIterator[Buffer]) -> AsyncGenerator[bytes, None]:
        """Tell the state now and whenever it changes; the call ends with the last change."""
        async for payload in requests:
            name = parse(HealthCheckRequest, payload).service
            for change in (self._allowed, self._stopping):
                if not change.is_set():
                    yield self._reply(name)
                    await change.wait()
            yield self._reply(name)
            return

    def _reply(self, name: str) -> bytes:
        is_serving = self._allowed.is_set() and not self._stopping.is_set()
        known = SERVING if is_serving else NOT_SERVING
        status = known if name in self._names else SERVICE_UNKNOWN
        reply: bytes = HealthCheckResponse(status=status).SerializeToString()
        return reply
