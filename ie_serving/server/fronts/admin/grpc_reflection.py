"""`grpc.reflection`: which services there are, for tools such as grpcurl. Bytes to bytes.

The answers come from grpcio's own package, which costs 40 ms to import: that waits for the first
who asks.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool

from ie_serving.server.transport.grpc.services import Buffer, Services, Streaming
from ie_serving.wire.tfs.requests import parse

NAMES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""Two names of one protocol: its messages have the same fields."""


class ReflectionService:
    """Describes services.

    Args of the constructor:
        names: of the services that are served.
        pool: holds their descriptors.
    """

    def __init__(self, names: Sequence[str], pool: DescriptorPool) -> None:
        self._names = (*names, *NAMES)
        self._pool = pool

    def services(self) -> Services:
        """The service, by both of its names."""
        return {name: {"ServerReflectionInfo": Streaming(self._converse)} for name in NAMES}

    async def _converse(self, requests: AsyncIterator[Buffer]) -> AsyncGenerator[bytes, None]:
        from grpc_reflection.v1alpha import reflection, reflection_pb2

        servicer = reflection.aio.ReflectionServicer  # type: ignore[attr-defined]  # no stubs
        answers = servicer(self._names, self._pool)
        messages = _parsed(requests, reflection_pb2.ServerReflectionRequest)
        async for reply in answers.ServerReflectionInfo(messages, None):
            yield reply.SerializeToString()


async def _parsed(requests: AsyncIterator[Buffer], kind: Any) -> AsyncIterator[Any]:  # noqa: ANN401
    async for payload in requests:
        yield parse(kind, payload)
