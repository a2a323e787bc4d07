"""The services over `grpc.aio`: listen, route, turn errors into status codes. Nothing else."""

from __future__ import annotations

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ie_serving.server.calls import Answer, Services
from ie_serving.server.status import Code, explain

LONGEST_TEXT = 1024
"""Longest status message, as TensorFlow Serving cuts it: many proxies refuse longer headers."""
CUT = "...TRUNCATED"

GRPC_CODE = {code: grpc.StatusCode[code.name] for code in Code}


class GrpcServer:
    """A `grpc.aio` server that is started, marked as not serving, and drained."""

    def __init__(
        self,
        services: Services,
        pool: DescriptorPool,
        *,
        max_message_bytes: int,
    ) -> None:
        options = {
            "grpc.max_send_message_length": max_message_bytes,
            "grpc.max_receive_message_length": max_message_bytes,
            "grpc.so_reuseport": 1,
        }
        self._server = aio.server(options=list(options.items()))
        for name, methods in services.items():
            handlers = {method: _unary(answer) for method, answer in methods.items()}
            self._server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(name, handlers)]
            )
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # no stubs
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = ("", *services, *(name.rpartition(".")[2] for name in services))
        _add_reflection(self._server, services, pool)

    def listen(self, address: str) -> int:
        """Bind `address` and return its port.

        Raises:
            OSError: the address is not to be had.
        """
        try:
            port = int(self._server.add_insecure_port(address))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address} for gRPC: {error}") from error
        if port == 0:
            raise OSError(f"cannot listen on {address} for gRPC")
        return port

    async def start(self) -> None:
        """Accept calls, and report SERVING to health checks."""
        await self._server.start()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def refuse_health(self) -> None:
        """Report NOT_SERVING from now on; calls are still answered."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, and give those in flight `grace_s` seconds to end."""
        await self._server.stop(grace_s)


def _unary(answer: Answer) -> grpc.RpcMethodHandler[bytes, bytes]:
    async def call(payload: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            return await answer(payload, context)
        except Exception as error:
            code, text = explain(error)
        await context.abort(GRPC_CODE[code], _cut(text))
        raise AssertionError("abort returns to nobody")

    return grpc.unary_unary_rpc_method_handler(call)


def _cut(text: str) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= LONGEST_TEXT:
        return encoded.decode()
    return encoded[: LONGEST_TEXT - len(CUT)].decode("utf-8", "ignore") + CUT


def _add_reflection(server: aio.Server, services: Services, pool: DescriptorPool) -> None:
    """Offer reflection of our services, and of health, from our own descriptor pool."""
    pool.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=pool)
