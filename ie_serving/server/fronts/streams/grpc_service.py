"""A stream of requests over gRPC, answered in order: `ie_serving.StreamService`, and Triton's."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.requests import InferRequest
from ie_serving.inference.stream_flow import StreamOutcome
from ie_serving.inference.streams import StreamReplies, options_of
from ie_serving.server.fronts.rest.callers import named
from ie_serving.server.status import explain
from ie_serving.server.transport.grpc.services import Buffer, CallContext
from ie_serving.wire.protobuf.fields import UnusualField
from ie_serving.wire.tfs.predict import encode_error, encode_response, parse_whole
from ie_serving.wire.tfs.predict_layout import RequestParser


class StreamCodec(NamedTuple):
    """The messages of one service.

    Attributes:
        parser: makes the function that parses requests quickly; it raises UnusualField.
        parse_whole: parses any request, in a thread.
        encode: writes one reply.
    """

    parser: Callable[[], Callable[[Buffer], InferRequest]]
    parse_whole: Callable[[Buffer], InferRequest]
    encode: Callable[[StreamOutcome[bytes]], bytes]


class GrpcStreams:
    """Answers the streams of one service.

    Args of the constructor:
        streams: answers the requests.
        codec: codec of the service.
        tells_callers: switch of `PredictionService`.
    """

    def __init__(
        self, streams: StreamReplies[bytes], codec: StreamCodec, *, tells_callers: bool
    ) -> None:
        self._streams = streams
        self._parse = codec.parser()
        self._parse_whole = codec.parse_whole
        self._encode = codec.encode
        self._tells_callers = tells_callers

    async def converse(
        self, requests: AsyncIterator[Buffer], context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Answer each request; a faulty request does not end the others."""
        options = options_of(named(context.invocation_metadata() or ()))
        replies = self._streams.replies(requests, self._reader(context), options)
        async with aclosing(replies) as each:
            async for outcome in each:
                yield self._encode(outcome)

    def _reader(self, context: CallContext) -> Callable[[Buffer], Awaitable[InferRequest]]:
        async def read(payload: Buffer) -> InferRequest:
            try:
                request = self._parse(payload)
            except UnusualField:
                request = await in_thread(self._parse_whole, payload)
            if self._tells_callers:
                request.caller = context
            return request

        return read


def _encoded(streamed: StreamOutcome[bytes]) -> bytes:
    outcome = streamed.outcome
    if isinstance(outcome, Exception):
        told = explain(outcome)
        return encode_error(told.code, told.whole, streamed.index, streamed.dropped)
    return encode_response(outcome, streamed.index, streamed.dropped)


OWN: Final = StreamCodec(lambda: RequestParser().parse, parse_whole, _encoded)
"""`PredictStream`: PredictRequests."""
