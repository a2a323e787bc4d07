"""gRPC over our own HTTP/2: listen, route, drain."""

import socket
from collections.abc import Callable, Sequence

from ie_serving.core.budget import SMALL
from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.connection_age import ConnectionAge
from ie_serving.server.transport.grpc.call import Call, Calls, Rules, UnaryCall
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.request import interpret
from ie_serving.server.transport.grpc.services import Answer, Services, Streaming
from ie_serving.server.transport.http2.driver import Driver
from ie_serving.server.transport.listener import Listener, Step

CLOSE_S = 1.0
"""Seconds that clients may take to read the last of their replies at the end of a drain; after them
the process ends, and what is unread is lost. A client that reads at all needs milliseconds."""


class Http2Server:
    """Carries services over HTTP/2. See `lifecycle.Listener`.

    Args of the constructor:
        services: what is served.
        max_message_bytes: limit of one request message.
        refused: see `call.Rules`.
        busy_poll_s: see `BusyPoll`.
        max_age_s, age_grace_s: see `ConnectionAge`.
    """

    def __init__(
        self,
        services: Services,
        *,
        max_message_bytes: int,
        refused: Callable[[Exception], None] = lambda _: None,
        busy_poll_s: float = 0.0,
        max_age_s: float = 0.0,
        age_grace_s: float = 0.0,
    ) -> None:
        self._age: ConnectionAge[Driver] = ConnectionAge(max_age_s, age_grace_s)
        self._busy_poll = BusyPoll(busy_poll_s)
        self._calls = Calls(
            {
                # The kind of a call is found here, once, instead of for each call.
                f"/{service}/{name}".encode(): (_kind(method), method)
                for service, methods in services.items()
                for name, method in methods.items()
            },
            Rules(max_message_bytes, refused, min(max_message_bytes, SMALL - 1)),
        )
        self._listener = Listener(self._connect)

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `lifecycle.Listener`."""
        await self._listener.listen(bound)

    async def drain(self, timeout_s: float) -> None:
        """See `lifecycle.Listener`."""
        await self._listener.drain((Step(Driver.drain, timeout_s), Step(Driver.stop, CLOSE_S)))

    def _connect(self) -> Driver:
        arrived = self._busy_poll.arrived
        return Driver(interpret, self._calls.accept, self._opened, self._closed, arrived)

    def _opened(self, driver: Driver) -> None:
        self._listener.opened(driver)
        self._age.watch(driver)

    def _closed(self, driver: Driver) -> None:
        self._age.forget(driver)
        self._listener.closed(driver)


def _kind(method: Answer | Streaming) -> type[Call]:
    return StreamingCall if isinstance(method, Streaming) else UnaryCall
