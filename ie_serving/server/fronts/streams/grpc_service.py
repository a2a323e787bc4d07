"""`ie_serving.StreamService` over gRPC: a stream of PredictRequests, answered in order."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.requests import InferRequest
from ie_serving.inference.stream_flow import Answered
from ie_serving.inference.streams import StreamAnswers, options_of
from ie_serving.server.fronts.rest.callers import named
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc.services import Buffer, CallContext, Streaming
from ie_serving.wire.protobuf.fields import Unclear
from ie_serving.wire.tfs.predict import parse_whole
from ie_serving.wire.tfs.predict_layout import RequestParser
from ie_serving.wire.tfs.stream_reply import encode_error, encode_response


class StreamService:
    """Answers the methods of StreamService.

    Args of the constructor:
        streams: answers the requests.
        tells_callers: see `PredictionService`.
    """

    def __init__(self, streams: StreamAnswers[bytes], *, tells_callers: bool) -> None:
        self._streams = streams
        self._tells_callers = tells_callers
        self._parser = RequestParser()

    def answers(self) -> dict[str, Streaming]:
        """The methods by name."""
        return {"PredictStream": Streaming(self.predict_stream)}

    async def predict_stream(
        self, requests: AsyncIterator[Buffer], context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Answer each request; a faulty request does not end the others."""
        options = options_of(named(context.invocation_metadata() or ()))
        answers = self._streams.answers(requests, self._reader(context), options)
        async with aclosing(answers) as each:
            async for answer in each:
                yield _encoded(answer)

    def _reader(self, context: CallContext) -> Callable[[Buffer], Awaitable[InferRequest]]:
        async def read(payload: Buffer) -> InferRequest:
            try:
                request = self._parser.parse(payload)
            except Unclear:
                request = await in_thread(parse_whole, payload)
            if self._tells_callers:
                request.caller = context
            return request

        return read


def _encoded(answer: Answered[bytes]) -> bytes:
    outcome = answer.outcome
    if isinstance(outcome, Exception):
        told = explain(outcome)
        return encode_error(told.code, told.whole, answer.index, answer.dropped)
    return encode_response(outcome, answer.index, answer.dropped)
