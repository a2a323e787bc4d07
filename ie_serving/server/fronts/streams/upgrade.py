"""Streams by WebSocket at `/v1/models/MODEL:stream`; each message is the body of a `:predict`."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import (
    InvalidRequest,
    NotAvailable,
    NotSupported,
    QueueFull,
    RequestTooLarge,
    ServingError,
)
from ie_serving.core.values.requests import InferRequest, ModelSpec
from ie_serving.inference.plane import DataPlane
from ie_serving.inference.stream_flow import StreamOutcome
from ie_serving.inference.streams import StreamOptions, StreamReplies, options_of
from ie_serving.server.fronts.rest.replies import JSON_REPLY, refusal
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.fronts.tfs.rest_routes import stream_asked
from ie_serving.server.status import explain, http_of
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.channel import Channel
from ie_serving.server.transport.http1.messages import (
    AnyReply,
    ProtocolSwitch,
    Reply,
    Request,
    RequestHead,
)
from ie_serving.server.transport.websocket import VERSION, UpgradeRequired, accepted
from ie_serving.wire.json.request import PredictBody, SlicedBody, parse_at_once, parse_predict

if TYPE_CHECKING:
    from ie_serving.server.transport.websocket import WebSocketSession

UPGRADE_REQUIRED: Final = 426
NORMAL: Final = 1000
CLOSE_CODES: Final[Mapping[type[ServingError], int]] = {
    NotAvailable: 1001,  # "going away"
    QueueFull: 1013,  # "try again later"
    ServingError: 1011,  # the server cannot go on
}
"""Close codes by the stream's final error. Source: RFC 6455 section 7.4.1, and IANA's list."""
OPTIONS: Final = ("in_flight", "drop_oldest")


@dataclass(eq=False)
class Upgrades:
    """Answers requests that open a WebSocket.

    Attributes:
        plane: has the models.
        streams: answers the messages.
        limit: bytes of the largest message.
        any_origin: pages of other origins may open a WebSocket, too.
    """

    plane: DataPlane
    streams: StreamReplies[Octets]
    _: KW_ONLY
    limit: int
    any_origin: bool

    async def answer(self, request: Request, _: bool) -> AnyReply:
        """Switch the connection to a WebSocket, or refuse it."""
        try:
            return self._switch(request)
        except UpgradeRequired as error:
            headers = (
                *JSON_REPLY,
                (b"upgrade", b"websocket"),
                (b"connection", b"upgrade"),
                (b"sec-websocket-version", VERSION),
            )
            return Reply(UPGRADE_REQUIRED, headers, _error(str(error), UPGRADE_REQUIRED))
        except Exception as error:
            return refusal(error)

    def _switch(self, request: Request) -> ProtocolSwitch:
        head = request.head
        with self.streams.counting_refusals():
            model = stream_asked(head)
        with self.streams.counting_refusals(model.name):
            headers = accepted(head, any_origin=self.any_origin)
            _check_library()
            options = _options(head.query)
            self._check_ready(model)
        self.streams.check()
        return ProtocolSwitch(101, headers, b"", partial(self._serve, head, model, options))

    def _check_ready(self, model: ModelSpec) -> None:
        if not self.plane.is_ready(model):
            raise NotAvailable(
                f"{_unready(model)}: GET /v1/models/{model.name} says why; try again later"
            )

    async def _serve(
        self, head: RequestHead, model: ModelSpec, options: StreamOptions, channel: Channel
    ) -> None:
        # Imported here: a server without WebSockets does not need the library.
        from ie_serving.server.transport.websocket import WebSocketSession

        task = asyncio.current_task()
        assert task is not None
        session = WebSocketSession(channel, self.limit, task.cancel)
        replies = self.streams.replies(session.messages(), _reader(head, model), options)
        try:
            async with aclosing(replies) as each:
                async for answer in each:
                    if answer.dropped:
                        await session.send(json.dumps({"dropped": answer.dropped}).encode())
                    await _send_outcome(session, answer)
        except asyncio.CancelledError:
            await session.close(CLOSE_CODES[NotAvailable])
            raise
        except Exception as error:
            told = explain(error)
            await session.close(_close_code(error), f"{told.code.name}: {told.whole}")
        else:
            await session.close(NORMAL)
        finally:
            # Tasks and generators form cycles, so the session lives until garbage collection.
            session.release()


def _check_library() -> None:
    try:
        import wsproto  # noqa: F401  whether it is there
    except ImportError:
        raise NotSupported(
            "WebSockets need the extra websocket: pip install '.[websocket]'"
        ) from None


def _unready(model: ModelSpec) -> str:
    label, version = model.label, model.version
    if label is None and version is None:
        return f'no version of "{model.name}" is AVAILABLE'
    which = f"version {version}" if label is None else f'the version of label "{label}"'
    return f'{which} of "{model.name}" is not AVAILABLE'


def _options(query: bytes) -> StreamOptions:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    given = dict(pairs)
    unknown = [name for name in given if name not in OPTIONS]
    if unknown:
        raise InvalidRequest(
            f'"{unknown[0][:100]}" is no option of a stream: expected {" or ".join(OPTIONS)}'
        )
    if len(given) < len(pairs):
        raise InvalidRequest("an option of a stream is given twice: give each once")
    return options_of(given)


def _reader(
    head: RequestHead, model: ModelSpec
) -> Callable[[bytes], Coroutine[Any, Any, InferRequest]]:
    async def read(body: bytes) -> InferRequest:
        size = len(body)
        asked: PredictBody | SlicedBody | None = parse_at_once(body)
        if asked is None:
            asked = await in_thread(parse_predict, body)
            size = max(size, LARGE_BODY)  # decoding takes long, so it is done in a thread
        name, decode = asked.signature_name, asked.decode
        return InferRequest(model, name, decode, size, asked.decode_at_once, (), head)

    return read


async def _send_outcome(session: "WebSocketSession", answer: StreamOutcome[Octets]) -> None:
    """Send a reply, or the error that it is too large for the budget; the stream goes on."""
    try:
        await session.send(_text(answer))
    except (QueueFull, RequestTooLarge) as error:
        await session.send(_text(replace(answer, outcome=error)))


def _text(answer: StreamOutcome[Octets]) -> bytes:
    outcome = answer.outcome
    if not isinstance(outcome, Exception):
        return bytes(outcome)
    told = explain(outcome)
    return _error(told.whole, http_of(outcome, told.code))


def _error(text: str, status: int) -> bytes:
    return json.dumps({"error": text, "status": status}).encode()


def _close_code(error: Exception) -> int:
    kinds = [kind for kind in type(error).__mro__ if kind in CLOSE_CODES]
    return CLOSE_CODES[kinds[0] if kinds else ServingError]
