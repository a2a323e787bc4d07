"""How many requests may be worked on at a time, over all models and both ports.

What requests hold is bounded by the budget of bytes in any case (`core/runtime/budget.py`). A
number bounds what waits for slow models as well, so that a client is refused at once instead of
late.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ie_serving.core.values.errors import QueueFull
from ie_serving.core.values.hints import Hint
from ie_serving.server.transport.grpc.services import (
    Answer,
    Buffer,
    CallContext,
    Method,
    Streaming,
)
from ie_serving.server.transport.http1.messages import Answer as RestAnswer
from ie_serving.server.transport.http1.messages import App, Reply, Request

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
"""Methods of the services of predictions that run no model."""
_BESIDE: Final = frozenset((b"/v1/config/reload", b"/v1/log_level", b"/page/programs"))
_OF_A_MODEL: Final = (b":poll", b":labels")
"""Paths of POSTs that run no model, and ends of such paths: an operator gets through when all that
may be worked on is."""


class InFlight:
    """Counts what is worked on. Belongs to one event loop.

    Args of the constructor:
        most: how many; 0 sets no limit, and then nothing is counted.
        refused: told of each request that is refused, for the metrics.
    """

    def __init__(self, most: int, refused: Callable[[BaseException], None]) -> None:
        self._most = most
        self._refused = refused
        self._count = 0

    def grpc(self, methods: Mapping[str, Method]) -> Mapping[str, Method]:
        """Have unary methods counted. Streams have limits of their own."""
        if not self._most:
            return methods
        return {
            name: method
            if name in _LOOKS or isinstance(method, Streaming)
            else self._counted(method)
            for name, method in methods.items()
        }

    def rest(self, app: App, phrase: Callable[[Exception], Reply]) -> App:
        """Have requests that run a model counted; `phrase` makes the reply to one too many."""
        if not self._most:
            return app

        async def answer(request: Request) -> RestAnswer:
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

    def _counted(self, method: Answer) -> Answer:
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
    # By the whole path: a model of another server's route may be named `reload`.
    return path.endswith(_OF_A_MODEL) or path.lower() in _BESIDE
