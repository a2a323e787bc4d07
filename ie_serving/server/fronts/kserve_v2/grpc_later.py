"""The Open Inference Protocol v2 over gRPC; its modules are imported at the first request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.models.served import ServedModels
from ie_serving.server.fronts.admin.health import Health
from ie_serving.server.fronts.streams.later import LaterStreams
from ie_serving.server.transport.grpc.services import (
    Answer,
    Buffer,
    CallContext,
    Method,
    Streaming,
)
from ie_serving.telemetry.metrics.page import Metrics

if TYPE_CHECKING:  # modules of a port are imported only if that port is on
    from ie_serving.server.fronts.kserve_v2.grpc_service import InferenceService
    from ie_serving.server.fronts.kserve_v2.grpc_stream import InferStreams
    from ie_serving.server.fronts.kserve_v2.management import MakeManagement

    HandOn = Callable[[Interface[Any]], Interface[Any]]

NAME: Final = "inference.GRPCInferenceService"
INFER: Final = "ModelInfer"
ANSWERS: Final = {
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
    INFER: "model_infer",
}
"""Methods of one message, and the function that answers each."""
STREAM: Final = "ModelStreamInfer"


class LaterInference:
    """The service of one worker.

    Args of the constructor:
        health: of the server.
        streams: of the worker.
        metrics: of all workers.
        management: makes what answers for a caller's models beside inferences.
        hand_on: see `inference.observed.handing_on`.
        limit_s: longest time in seconds of an inference; None sets no limit.
        tells_callers: whether models may see the caller.
    """

    def __init__(
        self,
        health: Health,
        streams: LaterStreams,
        metrics: Metrics,
        management: MakeManagement,
        hand_on: HandOn,
        *,
        limit_s: float | None,
        tells_callers: bool,
    ) -> None:
        self._health = health
        self._streams = streams
        self._metrics = metrics
        self._management = management
        self._hand_on = hand_on
        self._limit_s = limit_s
        self._tells_callers = tells_callers
        # One object for all callers, since each version keeps its `Bound` by interface.
        self._interface = cache(self._described)

    def grpc(self, plane: DataPlane, served: ServedModels) -> dict[str, Method]:
        """Return the methods over one data plane and its models."""
        service = cache(lambda: self._service(plane, served))
        streams = cache(lambda: self._conversations(plane))

        async def converse(
            requests: AsyncIterator[Buffer], context: CallContext
        ) -> AsyncGenerator[bytes, None]:
            async with aclosing(streams().converse(requests, context)) as replies:
                async for reply in replies:
                    yield reply

        answers: dict[str, Method] = {
            name: _later(service, answer) for name, answer in ANSWERS.items()
        }
        return {**answers, STREAM: Streaming(converse)}

    def _service(self, plane: DataPlane, served: ServedModels) -> InferenceService:
        from ie_serving.server.fronts.kserve_v2.grpc_service import InferenceService, ServiceParts

        management = self._management(served)
        parts = ServiceParts(
            plane, served, self._health, self._metrics, management, self._tells_callers
        )
        return InferenceService(parts, self._interface())

    def _conversations(self, plane: DataPlane) -> InferStreams:
        from ie_serving.server.fronts.kserve_v2.grpc_stream import InferStreams

        every, tells_callers = self._streams.opened, self._tells_callers
        return InferStreams(plane, self._interface(), every, tells_callers=tells_callers)

    def _described(self) -> Interface[bytes]:
        from ie_serving.server.fronts.kserve_v2.grpc_service import interface

        return self._hand_on(interface(limit_s=self._limit_s))


def _later(service: Callable[[], InferenceService], name: str) -> Answer:
    answer: Answer | None = None

    def answered(payload: Buffer, context: CallContext) -> Awaitable[bytes]:
        nonlocal answer
        if answer is None:
            answer = getattr(service(), name)
        return answer(payload, context)

    return answered
