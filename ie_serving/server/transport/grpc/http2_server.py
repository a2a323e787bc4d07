"""gRPC server over our own HTTP/2: listens, routes calls, ends old connections, drains.

A gRPC client keeps its connection for hours, and a Kubernetes Service balances connections, not
calls. So old connections are ended, and new servers behind a load balancer get a share of the
calls. Source: gRPC's proposal A9 (server-side connection management), with its argument names.
"""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ie_serving.core.runtime.budget import SMALL
from ie_serving.core.values.access import Credentials
from ie_serving.core.values.errors import ServingError
from ie_serving.server.status import explain
from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.grpc import header_blocks
from ie_serving.server.transport.grpc.call import (
    UNKNOWN_METHOD,
    Call,
    CallOpener,
    CallSettings,
    UnaryCall,
)
from ie_serving.server.transport.grpc.conversation import StreamingCall
from ie_serving.server.transport.grpc.header_blocks import CallHead, interpret
from ie_serving.server.transport.grpc.services import (
    CallAdmission,
    Services,
    StreamingMethod,
    by_path,
)
from ie_serving.server.transport.handshake import TlsSettings
from ie_serving.server.transport.http2.driver import SocketDriver
from ie_serving.server.transport.http2.sender import Sender
from ie_serving.server.transport.listener import DrainStep, Listener, SocketSharing
from ie_serving.server.transport.peer import client_names

CLOSE_S = 1.0
"""Seconds that clients may take to read the last of their replies at the end of a drain; then the
process ends, and unread data is lost. A client that reads at all needs milliseconds."""

GREETING_S = 0.5
"""Seconds that the client of a just accepted connection may take to send its first bytes before a
drain closes the connection, since its calls are probably on their way."""

SWEEP_S = 15.0
"""Seconds between two checks for idle connections; `max_idle_s` may be exceeded by this much."""


class Http2Server:
    """Carries services over HTTP/2. See `lifecycle.PortServer`.

    Args of the constructor:
        services: the services to serve.
        max_message_bytes: limit of one request message.
        refused: callback for refused calls, as in `call.CallSettings`.
        busy_poll_s: seconds of a `BusyPoll`.
        max_age_s, age_grace_s: see `ConnectionAge`.
        max_idle_s: seconds without a call after which a connection ends; 0 sets no limit.
        limit: limit of the connections of all ports.
        secure: TLS of the port, a `handshake.TlsSettings`.
        sharing: connections shared with other processes, a `listener.SocketSharing`.
        admission: chooses the method of a call; None: callers are not authenticated.
        calls: classes for a unary call and for a streaming one.
    """

    def __init__(
        self,
        services: Services,
        *,
        max_message_bytes: int,
        refused: Callable[[BaseException], None] = lambda _: None,
        busy_poll_s: float = 0.0,
        max_age_s: float = 0.0,
        age_grace_s: float = 0.0,
        max_idle_s: float = 0.0,
        limit: ConnectionLimit | None = None,
        secure: TlsSettings | None = None,
        admission: CallAdmission | None = None,
        calls: tuple[type[UnaryCall], type[StreamingCall]] = (UnaryCall, StreamingCall),
        sharing: SocketSharing | None = None,
    ) -> None:
        self._max_idle_s = max_idle_s
        self._limit = limit or ConnectionLimit()
        self._sweeper: asyncio.TimerHandle | None = None
        self._age = ConnectionAge(max_age_s, age_grace_s)
        self._busy_poll = BusyPoll(busy_poll_s)
        # The kind of a call is determined here, once for each method instead of for each call.
        methods = {
            path: (calls[isinstance(method, StreamingMethod)], method)
            for path, method in by_path(services).items()
        }
        rules = CallSettings(max_message_bytes, refused, min(max_message_bytes, SMALL - 1))
        opening = (
            AdmittedCalls(methods, rules, admission) if admission else CallOpener(methods, rules)
        )
        self._accept = opening.accept
        self._listener = Listener(self.connect, self._limit, secure, sharing, SocketDriver.drain)

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """See `lifecycle.PortServer`."""
        await self._listener.listen(bound)
        self._sweep()

    @property
    def in_flight(self) -> int:
        """See `lifecycle.PortServer`. Endless calls, such as a Watch, do not count."""
        drivers = self._listener.connections
        return sum(isinstance(each, UnaryCall) for driver in drivers for each in driver.streams)

    async def drain(self, timeout_s: float) -> int:
        """See `lifecycle.PortServer`."""
        greeting_s = min(GREETING_S, timeout_s)
        steps = (
            DrainStep(SocketDriver.drain_if_greeted, greeting_s),
            DrainStep(SocketDriver.drain, timeout_s - greeting_s),
        )
        await self._listener.drain(steps)
        cut = self.in_flight
        await self._listener.drain((DrainStep(SocketDriver.stop, CLOSE_S),))
        if self._sweeper:
            self._sweeper.cancel()
        return cut

    def connect(self) -> SocketDriver:
        """Make the protocol of one connection."""
        arrived = self._busy_poll.arrived
        return SocketDriver(interpret, self._accept, self._opened, self._closed, arrived)

    def _opened(self, driver: SocketDriver) -> None:
        driver.name_client(client_names)
        self._listener.opened(driver)
        self._age.watch(driver)
        self._limit.opened(driver)

    def _closed(self, driver: SocketDriver) -> None:
        self._limit.closed(driver)
        self._age.forget(driver)
        self._listener.closed(driver)

    def _sweep(self) -> None:
        """End idle connections, in one sweep: cheaper than a timer for each connection."""
        now = time.monotonic()
        for driver in self._listener.connections:
            driver.look_for_calls(now)
            since = driver.idle_since()
            if self._max_idle_s and since is not None and now - since >= self._max_idle_s:
                driver.end_idle()
        pause_s = min(SWEEP_S, self._max_idle_s / 4 or SWEEP_S)
        self._sweeper = asyncio.get_running_loop().call_later(pause_s, self._sweep)


class AdmittedCalls(CallOpener):
    """Opens the calls of permitted callers; refuses others before their message arrives.

    Args of the constructor:
        methods, rules: see `CallOpener`.
        admission: chooses the method.
    """

    def __init__(
        self,
        methods: Mapping[bytes, tuple[type[Call], Any]],
        rules: CallSettings,
        admission: CallAdmission,
    ) -> None:
        super().__init__(methods, rules)
        self._decided = admission.decided
        self._admission = admission

    def accept(self, number: int, request: CallHead, sender: Sender) -> Call | bytes:
        """See `CallOpener`."""
        found = self.methods.get(request.path)
        if found is None or request.refusal is not None:
            return request.refusal or UNKNOWN_METHOD
        # Looked up inline, with a plain tuple: every request runs this code.
        who = (request.authorization, request.key, sender.client)
        method = self._decided.get((request.path, who))
        if method is None:
            try:
                method = self._admission.method(request.path, Credentials(*who))
            except ServingError as error:
                return header_blocks.failure(*explain(error), alone=True)
        return found[0](number, request, sender, self.rules, method)


JITTER: Final = 0.1
"""Part of the age by which each connection's limit differs at random, up or down, as in proposal
A9: connections that began together, after a restart, should not all end together."""


class ConnectionAge:
    """Keeps one timer for each open connection. Belongs to one event loop.

    Args of the constructor:
        age_s: seconds after which a connection takes no new calls; 0 sets no limit.
        grace_s: further seconds for its open calls; 0 waits until all have ended.
        chance: returns 0 to 1 at random, for the jitter.
    """

    def __init__(
        self, age_s: float, grace_s: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._age_s = age_s
        self._grace_s = grace_s
        self._chance = chance
        self._timers: dict[SocketDriver, asyncio.TimerHandle] = {}

    def watch(self, connection: SocketDriver) -> None:
        """Start the timer of a new connection."""
        if self._age_s:
            factor = 1 + JITTER * (2 * self._chance() - 1)
            self._call_later(self._age_s * factor, self._end, connection)

    def forget(self, connection: SocketDriver) -> None:
        """Stop the timer of a closed connection."""
        timer = self._timers.pop(connection, None)
        if timer:
            timer.cancel()

    def _end(self, connection: SocketDriver) -> None:
        # The timer goes first: in `drain` a connection without calls may close.
        del self._timers[connection]
        if self._grace_s:
            self._call_later(self._grace_s, self._stop, connection)
        connection.drain()

    def _stop(self, connection: SocketDriver) -> None:
        del self._timers[connection]
        connection.stop()

    def _call_later(
        self, delay_s: float, act: Callable[[SocketDriver], None], connection: SocketDriver
    ) -> None:
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(delay_s, act, connection)
