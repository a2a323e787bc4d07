"""The Open Inference Protocol v2 over gRPC; its modules are imported at the first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from ie_serving.core.values.requests import CallerPassing
from ie_serving.inference.interface import HandOn, Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served_models import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.streams import LazyStreams, later
from ie_serving.server.transport.grpc.services import Buffer, CallContext, RpcMethod, Unary
from ie_serving.telemetry.metrics.page import Metrics

if TYPE_CHECKING:  # modules of a port are imported only if that port is on
    from ie_serving.server.fronts.kserve_v2.grpc_service import InferenceService
    from ie_serving.server.fronts.kserve_v2.management import MakeManagement
    from ie_serving.server.fronts.streams.grpc_service import GrpcStreams

NAME: Final = "inference.GRPCInferenceService"
INFER: Final = "ModelInfer"
HANDLERS: Final = {
    "ServerLive": "server_live",
    "ServerReady": "server_ready",
    "ModelReady": "model_ready",
    "ServerMetadata": "server_metadata",
    "ModelMetadata": "model_metadata",
    "ModelStatistics": "model_statistics",
    "RepositoryIndex": "repository_index",
    "ModelConfig": "model_config",
    "TraceSetting": "trace_setting",
    "LogSettings": "log_settings",
    "RepositoryModelLoad": "repository_load",
    "RepositoryModelUnload": "repository_unload",
    "SystemSharedMemoryStatus": "shared_memory_status",
    "SystemSharedMemoryRegister": "shared_memory_register",
    "SystemSharedMemoryUnregister": "shared_memory_unregister",
    "CudaSharedMemoryStatus": "cuda_status",
    "CudaSharedMemoryUnregister": "cuda_unregister",
    INFER: "model_infer",
}
"""Methods of one message, and the function that answers each."""
STREAM: Final = "ModelStreamInfer"


@dataclass(frozen=True)
class LazyInference:
    """The service of one worker.

    Attributes:
        health: health of the server.
        streams: streams of the worker.
        metrics: metrics of all workers.
        management: makes what answers for a caller's models beside inferences.
        hand_on: callback for outputs, from `inference.request_notes.handing_on`.
        limit_s: longest time in seconds of an inference; None sets no limit.
        callers: whether requests refer to their calls.
    """

    health: Health
    streams: LazyStreams
    metrics: Metrics
    management: MakeManagement
    hand_on: HandOn
    limit_s: float | None
    callers: CallerPassing

    def grpc(self, plane: DataPlane, served: ServedModels) -> dict[str, RpcMethod]:
        """Return the methods over one data plane and its models."""
        service = cache(lambda: self._service(plane, served))
        handlers = {name: _later(service, handler) for name, handler in HANDLERS.items()}
        return {**handlers, STREAM: later(lambda: self._conversations(plane, served))}

    def _service(self, plane: DataPlane, served: ServedModels) -> InferenceService:
        from ie_serving.server.fronts.kserve_v2.grpc_service import InferenceService, ServiceParts

        management = self.management(served)
        parts = ServiceParts(plane, served, self.health, self.metrics, management, self.callers)
        return InferenceService(parts, self._interface, self._of_classes)

    def _conversations(self, plane: DataPlane, served: ServedModels) -> GrpcStreams:
        from ie_serving.inference.streams import StreamReplies
        from ie_serving.server.fronts.kserve_v2.grpc_service import triton, with_id
        from ie_serving.server.fronts.streams.grpc_service import GrpcStreams

        streams = StreamReplies(plane, self._interface, self.streams.opened, with_id)
        codec = triton(self.management(served).regions)
        return GrpcStreams(streams, codec, tells_callers=self.callers.are_passed)

    # One object for all callers, since each version keeps its `BoundSignature` by interface.
    @cached_property
    def _interface(self) -> Interface[bytes]:
        from ie_serving.server.fronts.kserve_v2.grpc_service import interface

        return self.hand_on(interface(limit_s=self.limit_s))

    @cached_property
    def _of_classes(self) -> Interface[Any]:
        from ie_serving.server.fronts.kserve_v2.servable_lookup import of_classes

        return of_classes(self._interface, (True, False))


def _later(service: Callable[[], InferenceService], name: str) -> Unary:
    handler: Unary | None = None

    def answered(payload: Buffer, context: CallContext) -> Awaitable[bytes]:
        nonlocal handler
        if handler is None:
            handler = getattr(service(), name)
        return handler(payload, context)

    return answered
