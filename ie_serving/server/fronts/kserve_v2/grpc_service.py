"""`inference.GRPCInferenceService`, the Open Inference Protocol v2: bytes to bytes."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from ie_serving import __version__
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import NotFound, NotSupported, UnknownLabel
from ie_serving.core.values.requests import CallerPassing, InferRequest, ModelSpec
from ie_serving.core.values.signatures import named
from ie_serving.core.values.tensors import Signature
from ie_serving.inference.interface import Api, Encode, Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.stream_flow import StreamOutcome
from ie_serving.models.served_models import ServedModels
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.admin.health import Health, ProcessPhase
from ie_serving.server.fronts.kserve_v2.management import Management, config_of
from ie_serving.server.fronts.kserve_v2.servable_lookup import (
    EVERYWHERE,
    METHODS,
    CopiedOutputs,
    model_spec,
    no_signature,
    typed_outputs,
)
from ie_serving.server.fronts.kserve_v2.statistics import statistics_of
from ie_serving.server.fronts.rest.callers import grpc_callers
from ie_serving.server.fronts.streams.grpc_service import StreamCodec
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc.services import Buffer, CallContext
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.wire.kserve import grpc_messages as written
from ie_serving.wire.kserve.grpc_messages import stream_error, stream_reply
from ie_serving.wire.kserve.infer_fields import id_of
from ie_serving.wire.kserve.infer_reply import (
    GrpcReplyEncoder,
    OpenGrpcReplyEncoder,
    encode_in_regions,
)
from ie_serving.wire.kserve.infer_request import InferParser, ModelInfer, parse_whole
from ie_serving.wire.kserve.model_metadata import model_metadata
from ie_serving.wire.kserve.regions import Regions, ReplyRegions
from ie_serving.wire.protobuf import inference_messages as messages
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.tfs.predict import OpenEncoder

SERVER_NAME: Final = "ie_serving"


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """The objects that the service uses to answer.

    Attributes:
        plane: runs the models.
        served: the served models.
        health: health of the server.
        metrics: metrics of all workers.
        management: management of models and server.
        callers: access to the calls of requests, as in `PredictionService`.
    """

    plane: DataPlane
    served: ServedModels
    health: Health
    metrics: Metrics
    management: Management
    callers: CallerPassing


def interface(*, limit_s: float | None) -> Interface[bytes]:
    """Describe the protocol over gRPC to the data plane.

    Args:
        limit_s: longest time in seconds of an inference, beside the caller's own deadline.
    """
    return Interface(
        entrypoint="GRPC",
        labels=METHODS,
        methods=METHODS,
        encoders=_encoders,
        encoder=_placed,
        unknown_signature=no_signature,
        caller=grpc_callers(limit_s),
        limit_s=limit_s,
    )


class InferenceService:
    """Answers the methods of GRPCInferenceService.

    Args of the constructor:
        parts: parts of the service.
        interface: front end of the requests, made by `interface`.
        of_classes: takes the outputs of requests for classes.
    """

    def __init__(
        self, parts: ServiceParts, interface: Interface[bytes], of_classes: Interface[CopiedOutputs]
    ) -> None:
        self._plane = parts.plane
        self._served = parts.served
        self._health = parts.health
        self._metrics = parts.metrics
        self._repository, self._settings, self._regions = parts.management
        self._callers = parts.callers
        self._interface = interface
        self._of_classes = of_classes
        self._parser = InferParser(model_spec, self._regions)

    async def server_live(self, payload: Buffer, context: CallContext) -> bytes:
        """Answer that the server lives."""
        return written.server_live()

    async def server_ready(self, payload: Buffer, context: CallContext) -> bytes:
        """Answer whether the server takes requests."""
        return written.server_ready(self._health.phase is ProcessPhase.READY)

    async def model_ready(self, payload: Buffer, context: CallContext) -> bytes:
        """Answer whether a model serves; an unknown model is not ready, as in Triton."""
        began = time.perf_counter()
        name, version = written.read_model(messages.ModelReadyRequest, payload)
        try:
            model = self._resolved(model_spec(name, version))
            ready = self._plane.answer_ready(model, self._interface, began)
        except (NotFound, UnknownLabel):
            ready = False
        return written.model_ready(ready and self._health.phase is not ProcessPhase.STOPPING)

    async def server_metadata(self, payload: Buffer, context: CallContext) -> bytes:
        """Describe the server: name, version, extensions."""
        extensions = (*EVERYWHERE, *self._regions.extensions)
        return written.server_metadata(SERVER_NAME, __version__, extensions)

    async def model_metadata(self, payload: Buffer, context: CallContext) -> bytes:
        """Describe a model: versions that serve, inputs and outputs."""
        began = time.perf_counter()
        with self._plane.counting_refusals("", self._interface, Api.METADATA):
            model = model_spec(*written.read_model(messages.ModelMetadataRequest, payload))
        return await self._plane.metadata(model, self._interface, began, self._described)

    async def model_statistics(self, payload: Buffer, context: CallContext) -> bytes:
        """Report the number of inferences and the time that they took."""
        with self._plane.counting_refusals("", self._interface):
            name, version = written.read_model(messages.ModelStatisticsRequest, payload)
        with self._plane.counting_refusals(name, self._interface):
            found = await statistics_of(self._metrics, self._served, name, version)
        return written.model_statistics(found)

    async def repository_index(self, payload: Buffer, context: CallContext) -> bytes:
        """List every version of every model, and models that are not loaded."""
        with self._plane.counting_refusals("", self._interface):
            ready = written.read_repository_index(payload)
            return written.repository_index(await self._repository.index(ready=ready))

    async def repository_load(self, payload: Buffer, context: CallContext) -> bytes:
        """Load a model of the configuration; answer when it serves."""
        with self._plane.counting_refusals("", self._interface):
            name, parameters = written.read_repository_load(payload)
        with self._plane.counting_refusals(name, self._interface):
            await self._repository.load(name, parameters)
        return written.nothing()

    async def repository_unload(self, payload: Buffer, context: CallContext) -> bytes:
        """Unload a model."""
        with self._plane.counting_refusals("", self._interface):
            name, parameters = written.read_repository_unload(payload)
        with self._plane.counting_refusals(name, self._interface):
            await self._repository.unload(name, parameters)
        return written.nothing()

    async def model_config(self, payload: Buffer, context: CallContext) -> bytes:
        """Describe a version as Triton's ModelConfig."""
        with self._plane.counting_refusals("", self._interface):
            model = model_spec(*written.read_model(messages.ModelConfigRequest, payload))
        with self._plane.counting_refusals(model.name, self._interface):
            return written.model_config(config_of(self._served.main(model), self._served))

    async def trace_setting(self, payload: Buffer, context: CallContext) -> bytes:
        """Show the settings of traces; a change is refused."""
        with self._plane.counting_refusals("", self._interface):
            model, wanted = written.read_trace_setting(payload)
            if model:
                self._served.entry(model)  # raises NotFound, as over REST
            return written.trace_setting(self._settings.change_traces(wanted))

    async def log_settings(self, payload: Buffer, context: CallContext) -> bytes:
        """Show the settings of the log, or change its level."""
        with self._plane.counting_refusals("", self._interface):
            wanted = written.read_log_settings(payload)
            settings = self._settings
            shown = await settings.change_log(wanted) if wanted else settings.log_settings()
        return written.log_settings(shown)

    async def shared_memory_status(self, payload: Buffer, context: CallContext) -> bytes:
        """Describe the regions of shared memory, or one."""
        with self._plane.counting_refusals("", self._interface):
            name = written.read_shared_memory_name(payload)
            return written.shared_memory_status(self._regions.status(name))

    async def shared_memory_register(self, payload: Buffer, context: CallContext) -> bytes:
        """Register a region of shared memory."""
        with self._plane.counting_refusals("", self._interface):
            self._regions.register(*written.read_shared_memory_register(payload))
        return written.nothing()

    async def shared_memory_unregister(self, payload: Buffer, context: CallContext) -> bytes:
        """Forget a region of shared memory, or all."""
        with self._plane.counting_refusals("", self._interface):
            self._regions.unregister(written.read_shared_memory_name(payload))
        return written.nothing()

    async def cuda_status(self, payload: Buffer, context: CallContext) -> bytes:
        """List the regions of CUDA memory: there are none."""
        with self._plane.counting_refusals("", self._interface):
            self._regions.check_cuda(written.read_shared_memory_name(payload))
        return written.nothing()

    async def cuda_unregister(self, payload: Buffer, context: CallContext) -> bytes:
        """Forget regions of CUDA memory: there are none."""
        with self._plane.counting_refusals("", self._interface):
            self._regions.check_cuda("")
        return written.nothing()

    def model_infer(self, payload: Buffer, context: CallContext) -> Awaitable[bytes]:
        """Run a model on named tensors."""
        began = time.perf_counter()
        # Inline, as in `PredictionService.predict`: every small request runs this code.
        try:
            request = self._parser.parse(payload)
        except UnusualField:
            return self._infer_unclear(payload, context, began)
        except Exception as error:
            self._plane.refused("", error, self._interface, Api.PREDICT)
            raise
        if self._callers.are_passed:
            request.caller = context
        if request.classes is not None:
            return _with_id(self._classified(request, request.classes, began), request.id)
        reply = self._plane.predict(request, self._interface, began)
        return _with_id(reply, request.id) if request.id else reply

    async def _classified(
        self, request: ModelInfer, wanted: Mapping[str, int], began: float
    ) -> bytes:
        taken = await self._plane.predict(request, self._of_classes, began)
        # A thread writes the classes: an output may have a million of these texts.
        specs, arrays = await in_thread(taken.with_classes, wanted)
        name, version = taken.servable.name, taken.servable.version
        return GrpcReplyEncoder(name, version, specs, raw=bool(taken.form)).encode(arrays)

    async def _infer_unclear(self, payload: Buffer, context: CallContext, began: float) -> bytes:
        """Let protobuf parse a large request that is not in the form that clients usually write."""
        with self._plane.counting_refusals("", self._interface, Api.PREDICT):
            request = await in_thread(parse_whole, model_spec, payload, self._regions)
        if self._callers.are_passed:
            request.caller = context
        if request.classes is not None:
            return await _with_id(self._classified(request, request.classes, began), request.id)
        return await _with_id(self._plane.predict(request, self._interface, began), request.id)

    def _resolved(self, model: ModelSpec) -> ModelSpec:
        """Replace a version label by its number. Raises: UnknownLabel."""
        if model.label is None:
            return model
        return ModelSpec(model.name, self._served.resolve_label(model.name, model.label))

    def _described(self, servable: Servable) -> bytes:
        whose = f'model "{servable.name}" version {servable.version}'
        signature = named(servable.signatures, "", whose)
        versions = self._served.entry(servable.name).stream.available
        return written.model_metadata(model_metadata(servable.name, versions, signature))


async def _with_id(reply: Awaitable[bytes], id: bytes) -> bytes:
    # The id goes last: the fields of a message may come in any order.
    return b"".join((await reply, id))


def _encoders(
    servable: Servable, signature: Signature, outputs: Sequence[str]
) -> Mapping[object, Encode[bytes]]:
    """Return an encoder for each form: raw replies for raw requests, else typed ones.

    Untyped outputs are always raw, as in OpenVINO Model Server.
    """

    def made(raw: bool, described: Signature) -> GrpcReplyEncoder:
        specs = {alias: described.outputs[alias] for alias in outputs or described.outputs}
        return GrpcReplyEncoder(servable.name, servable.version, specs, raw=raw)

    if any(spec.untyped for spec in signature.outputs.values()):
        encoder = OpenGrpcReplyEncoder(servable.name, servable.version, outputs)
        return dict.fromkeys((True, False), encoder.encode)
    if signature.gives_any:
        return {
            raw: OpenEncoder(signature, outputs, partial(made, raw)).encode for raw in (True, False)
        }
    return {raw: made(raw, signature).encode for raw in (True, False)}


def _placed(
    servable: Servable, signature: Signature, outputs: Sequence[str], form: object
) -> Encode[bytes]:
    specs = typed_outputs(signature, outputs)
    return partial(
        encode_in_regions, servable.name, servable.version, specs, cast("ReplyRegions", form)
    )


# -- a stream of requests: Triton's ModelStreamInfer ----------------------------------------------


def _encoded(streamed: StreamOutcome[bytes]) -> bytes:
    outcome = streamed.outcome
    if isinstance(outcome, Exception):
        return stream_error(explain(outcome).whole, id_of(streamed.payload))
    return stream_reply(outcome)


def with_id(request: InferRequest, reply: bytes) -> bytes:
    """Add the id of a request to its reply."""
    id = request.id if isinstance(request, ModelInfer) else b""
    return b"".join((reply, id)) if id else reply


def _without_classes(parse: Callable[[Buffer], ModelInfer], payload: Buffer) -> ModelInfer:
    request = parse(payload)
    if request.classes is not None:
        raise NotSupported("classification is not supported in a stream: ask by ModelInfer")
    return request


def triton(regions: Regions) -> StreamCodec:
    """Return the messages of the stream; `regions` are those of shared memory."""

    def whole(payload: Buffer) -> ModelInfer:
        return parse_whole(model_spec, payload, regions)

    return StreamCodec(
        lambda: partial(_without_classes, InferParser(model_spec, regions).parse),
        partial(_without_classes, whole),
        _encoded,
    )
