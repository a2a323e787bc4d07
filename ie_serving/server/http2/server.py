"""gRPC over our own HTTP/2: listen, route, drain."""

import asyncio
import socket
from collections.abc import Sequence

from ie_serving.server.busy_poll import BusyPoll
from ie_serving.server.calls import NO_SUCH_METHOD, Answer, Services, Streaming
from ie_serving.server.http2 import replies
from ie_serving.server.http2.call import Call, StreamingCall, UnaryCall
from ie_serving.server.http2.connection import Connection
from ie_serving.server.http2.headers import RequestHead
from ie_serving.server.http2.sender import Sender
from ie_serving.server.ports import BACKLOG, allow_listening
from ie_serving.server.status import Code

CLOSE_S = 1.0
"""How long clients may take to read the last of their replies."""


_UNKNOWN = replies.failure(Code.UNIMPLEMENTED, NO_SUCH_METHOD, alone=True)


class Http2Server:
    """Carries services over HTTP/2. See `lifecycle.RpcServer`.

    Args of the constructor:
        services: what is served.
        max_message_bytes: limit of one request message.
        busy_poll_s: see `BusyPoll`.
    """

    def __init__(
        self, services: Services, *, max_message_bytes: int, busy_poll_s: float = 0.0
    ) -> None:
        self._busy_poll = BusyPoll(busy_poll_s)
        self._methods: dict[bytes, Answer | Streaming] = {
            f"/{service}/{name}".encode(): method
            for service, methods in services.items()
            for name, method in methods.items()
        }
        self._limit = max_message_bytes
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `RpcServer`."""
        loop = asyncio.get_running_loop()
        for each in bound:
            allow_listening(each)
            # Connections inherit it: one whose client has vanished ends some time.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener = await loop.create_server(self._connect, sock=each, backlog=BACKLOG)
            self._listeners.append(listener)

    async def drain(self, timeout_s: float) -> None:
        """See `RpcServer`."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.drain()
        if not await self._closed(timeout_s):
            for connection in list(self._connections):
                connection.abort(_refuse)
            await self._closed(CLOSE_S)

    def _connect(self) -> Connection:
        connection = Connection(self._open_call, self._lost, self._busy_poll.arrived)
        self._connections.add(connection)
        self._all_closed.clear()
        return connection

    def _lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    async def _closed(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._all_closed.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    def _open_call(self, number: int, head: RequestHead, sender: Sender) -> Call | bytes:
        method = self._methods.get(head.path)
        if method is None or head.refusal is not None:
            return replies.headers_frame(number, head.refusal or _UNKNOWN, ends=True)
        if isinstance(method, Streaming):
            return StreamingCall(number, head, sender, self._limit, method)
        return UnaryCall(number, head, sender, self._limit, method)


def _refuse(call: Call) -> None:
    call.fail(Code.UNAVAILABLE, "the server is shutting down; ask again elsewhere")
    call.cancel()
