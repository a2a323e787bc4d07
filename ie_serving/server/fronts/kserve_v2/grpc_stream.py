"""Triton's `ModelStreamInfer`: a stream of ModelInferRequests, answered in order."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.requests import InferRequest
from ie_serving.inference.interface import Interface
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.streams import OpenStreams, StreamAnswers, options_of
from ie_serving.server.fronts.kserve_v2.asked import model_spec
from ie_serving.server.fronts.rest.callers import named
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc.services import Buffer, CallContext
from ie_serving.wire.kserve.grpc_messages import stream_error, stream_reply
from ie_serving.wire.kserve.infer_fields import id_of
from ie_serving.wire.kserve.infer_layout import InferParser
from ie_serving.wire.kserve.infer_request import ModelInfer, parse_whole
from ie_serving.wire.protobuf.fields import Unclear


class InferStreams:
    """Answers ModelStreamInfer.

    Args of the constructor:
        plane: answers the requests.
        interface: of the protocol.
        every: the streams of this process.
        tells_callers: see `PredictionService`.
    """

    def __init__(
        self,
        plane: DataPlane,
        interface: Interface[bytes],
        every: OpenStreams,
        *,
        tells_callers: bool,
    ) -> None:
        self._streams = StreamAnswers(plane, interface, every, _with_id)
        self._tells_callers = tells_callers
        self._parser = InferParser(model_spec)

    async def converse(
        self, requests: AsyncIterator[Buffer], context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Answer each request; a faulty request does not end the others."""
        options = options_of(named(context.invocation_metadata() or ()))
        answers = self._streams.answers(requests, self._reader(context), options)
        async with aclosing(answers) as each:
            async for answer in each:
                outcome = answer.outcome
                if isinstance(outcome, Exception):
                    yield stream_error(explain(outcome).whole, id_of(answer.payload))
                else:
                    yield stream_reply(outcome)

    def _reader(self, context: CallContext) -> Callable[[Buffer], Awaitable[InferRequest]]:
        async def read(payload: Buffer) -> InferRequest:
            try:
                request = self._parser.parse(payload)
            except Unclear:
                request = await in_thread(parse_whole, model_spec, payload)
            if self._tells_callers:
                request.caller = context
            return request

        return read


def _with_id(request: InferRequest, reply: bytes) -> bytes:
    """Add the id of a request to its reply."""
    id = request.id if isinstance(request, ModelInfer) else b""
    return b"".join((reply, id)) if id else reply
