"""`grpc.reflection`: describes the services, for tools such as grpcurl. Bytes to bytes.

The answers come from grpcio's own package. Its import takes 40 ms, and happens at the first
request.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from ie_serving.server.transport.grpc.services import Buffer, CallContext, Services, StreamingMethod
from ie_serving.wire.tfs.request_messages import parse

NAMES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""Two versions of one protocol: their messages have the same fields."""


class ReflectionService:
    """Describes services.

    Args of the constructor:
        names: names of the services that are served.
        pool: holds their descriptors.
    """

    def __init__(self, names: Sequence[str], pool: DescriptorPool) -> None:
        self._names = (*names, *NAMES)
        self._pool = pool

    def services(self) -> Services:
        """The service, under both of its names."""
        return {name: {"ServerReflectionInfo": StreamingMethod(self._converse)} for name in NAMES}

    async def _converse(
        self, requests: AsyncIterator[Buffer], _: CallContext
    ) -> AsyncGenerator[bytes, None]:
        from grpc_reflection.v1alpha import reflection, reflection_pb2

        _add_reflection(self._pool, reflection_pb2.DESCRIPTOR.serialized_pb)
        servicer = reflection.aio.ReflectionServicer  # type: ignore[attr-defined]  # no stubs
        handlers = servicer(self._names, _MethodPool(self._pool))
        messages = _parsed(requests, reflection_pb2.ServerReflectionRequest)
        async for reply in handlers.ServerReflectionInfo(messages, None):
            yield reply.SerializeToString()


def _add_reflection(pool: DescriptorPool, serialized: bytes) -> None:
    """Make both versions describable: grpcio's package adds the file of the first alone."""
    pool.AddSerializedFile(serialized)
    file = FileDescriptorProto.FromString(serialized)
    text = text_format.MessageToString(file).replace("v1alpha", "v1")
    pool.AddSerializedFile(text_format.Parse(text, FileDescriptorProto()).SerializeToString())


class _MethodPool:
    """A pool that also finds methods, by the name of their service; grpcurl asks for methods."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the package asks for
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802  as the pool
        """Return the file that declares a symbol. Raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            if method not in found.methods_by_name:
                raise
            return found.file


async def _parsed(requests: AsyncIterator[Buffer], kind: Any) -> AsyncIterator[Any]:  # noqa: ANN401
    async for payload in requests:
        yield parse(kind, payload)
