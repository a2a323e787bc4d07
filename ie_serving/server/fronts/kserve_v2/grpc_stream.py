"""Triton's `ModelStreamInfer`: a stream of ModelInferRequests, answered in order."""

from collections.abc import Callable
from functools import partial

from ie_serving.core.values.errors import NotSupported
from ie_serving.core.values.requests import InferRequest
from ie_serving.inference.stream_flow import StreamOutcome
from ie_serving.server.fronts.kserve_v2.asked import model_spec
from ie_serving.server.fronts.streams.grpc_service import StreamCodec
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc.services import Buffer
from ie_serving.wire.kserve.grpc_messages import stream_error, stream_reply
from ie_serving.wire.kserve.infer_fields import id_of
from ie_serving.wire.kserve.infer_request import InferParser, ModelInfer, parse_whole
from ie_serving.wire.kserve.regions import Regions


def _encoded(answer: StreamOutcome[bytes]) -> bytes:
    outcome = answer.outcome
    if isinstance(outcome, Exception):
        return stream_error(explain(outcome).whole, id_of(answer.payload))
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
