"""Limits how many requests are processed at a time, over all models and both ports.

The byte budget (`core/runtime/budget.py`) bounds the memory of requests in any case. A limit on
their number also bounds those that wait for slow models, so that a client is refused at once
instead of late.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.hints import Hint
from ie_serving.server.transport.grpc.services import (
    Buffer,
    CallContext,
    RpcMethod,
    StreamingMethod,
    Unary,
)
from ie_serving.server.transport.http1.messages import AnyReply, App, Reply, Request

_LOOKS: Final = (
    "GetModelMetadata",
    "ServerLive",
    "ServerReady",
    "ModelReady",
    "ServerMetadata",
    "ModelMetadata",
    "ModelStatistics",
    "RepositoryIndex",
)
"""Methods of the prediction services that run no model."""
_BESIDE: Final = frozenset((b"/v1/config/reload", b"/v1/log_level", b"/page/programs"))
_OF_A_MODEL: Final = (b":poll", b":labels")
"""Paths of POSTs that run no model, and ends of such paths. They are not limited, so that operators
can send them while the limit is reached."""


class InFlightLimit:
    """Counts the requests in flight. Belongs to one event loop.

    Args of the constructor:
        most: limit, beyond which requests are refused; 0: no limit, and nothing is counted.
        refused: called for each refused request, for the metrics.
    """

    def __init__(self, most: int, refused: Callable[[BaseException], None]) -> None:
        self._most = most
        self._refused = refused
        self._count = 0

    def grpc(self, methods: Mapping[str, RpcMethod]) -> Mapping[str, RpcMethod]:
        """Wrap unary methods so that they are counted. Streams have limits of their own."""
        if not self._most:
            return methods
        return {
            name: method
            if name in _LOOKS or isinstance(method, StreamingMethod)
            else self._counted(method)
            for name, method in methods.items()
        }

    def rest(self, app: App, phrase: Callable[[Exception], Reply]) -> App:
        """Count the requests that run a model; `phrase` makes the reply beyond the limit."""
        if not self._most:
            return app

        async def answer(request: Request) -> AnyReply:
            head = request.head
            if head.method != "POST" or _runs_nothing(head.path):
                return await app(request)
            try:
                self._check()
            except QueueFull as error:
                return phrase(error)
            with self._counting():
                return await app(request)

        return answer

    def _counted(self, method: Unary) -> Unary:
        async def answer(payload: Buffer, context: CallContext) -> bytes:
            self._check()
            with self._counting():
                return await method(payload, context)

        return answer

    def _check(self) -> None:
        if self._count < self._most:
            return
        error = QueueFull(
            f"{self._most} requests are worked on already; ask again",
            Hint(", or let more by {server.max_in_flight_requests}"),
        )
        self._refused(error)
        raise error

    @contextmanager
    def _counting(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


def _runs_nothing(path: bytes) -> bool:
    # Compares the whole path: on another server's route, a model may be named `reload`.
    return path.endswith(_OF_A_MODEL) or path.lower() in _BESIDE
