"""One worker's life on its event loop: load, listen, serve, withdraw, drain, close.

    start ──> listen ──> serving ──stop──> not ready, drain delay ──> refuse and drain ──> close
      └─────────────stop, or it failed────────────────────────────────────────────────────┘

Nothing here knows of processes or signals: `gunicorn_app.py` turns those into `Orders`.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ie_serving.errors import ServingError
from ie_serving.server.ports import PortError, Ports, allow_listening
from ie_serving.settings import ServerSettings
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

AsgiApp = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]

CLOSE_TIMEOUT_S = 5.0
"""How long a worker may take to abandon its start or to close, before it ends regardless."""


class RpcServer(Protocol):
    """A gRPC server, with its services, that does not listen yet."""

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """Answer calls at the addresses of the arbiter's sockets.

        Raises:
            OSError: an address is not to be had.
        """

    async def drain(self, timeout_s: float) -> None:
        """Refuse new connections and calls; cancel what still runs after `timeout_s` seconds."""


class Application(Protocol):
    """What a worker runs: models and the front ends over them. Built by `main.py`."""

    async def start(self) -> None:
        """Begin to load; return when the first load of every model has succeeded or failed.

        Ports are closed meanwhile. Cancelled when the server is told to stop.

        Raises:
            ServingError: the server cannot start; its text goes to the log.
        """

    def model_names(self) -> Sequence[str]:
        """Name the models that are configured."""

    def rest(self) -> AsgiApp:
        """Give the REST application. Called once, after `start`, unless REST is off."""

    def grpc(self) -> RpcServer:
        """Give the gRPC server. Called once, after `start`, unless gRPC is off."""

    async def set_ready(self, ready: bool) -> None:
        """Answer readiness probes so from now on: True when the ports are open, then False."""

    async def reload(self) -> None:
        """Read the configuration again, now.

        Raises:
            ServingError: it is broken; everything stays as it was.
        """

    async def close(self) -> None:
        """Free everything, also after a `start` that failed or was cancelled."""


class Front(Protocol):
    """One interface's open port."""

    async def listen(self) -> None:
        """Accept connections. Raises: PortError."""

    async def drain(self, timeout_s: float) -> None:
        """Refuse connections at once; return when what is in flight has ended or is cancelled."""


class GrpcFront:
    """Runs a gRPC server on the arbiter's sockets."""

    def __init__(self, server: RpcServer, ports: Ports) -> None:
        self._server = server
        self._sockets = ports.grpc

    async def listen(self) -> None:
        """See `Front`."""
        try:
            await self._server.listen(self._sockets)
        except OSError as error:
            port = self._sockets[0].getsockname()[1]
            raise PortError(
                f"cannot listen on gRPC port {port}: {error}; stop the program that holds it or"
                " choose another port"
            ) from error

    async def drain(self, timeout_s: float) -> None:
        """See `Front`."""
        await self._server.drain(timeout_s)


class RestFront:
    """Runs an ASGI application on the arbiter's sockets."""

    def __init__(self, app: AsgiApp, ports: Ports, busy_poll_s: float) -> None:
        from ie_serving.server.http1.server import HttpServer  # the arbiter does without it

        self._sockets = ports.rest
        self._server = HttpServer(app, busy_poll_s=busy_poll_s)

    async def listen(self) -> None:
        """See `Front`."""
        for bound in self._sockets:
            allow_listening(bound)
        try:
            await self._server.listen(self._sockets)
        except OSError as error:
            port = self._sockets[0].getsockname()[1]
            raise PortError(
                f"cannot listen on REST port {port}: {error.strerror}; stop the program that holds"
                " it or choose another port"
            ) from error

    async def drain(self, timeout_s: float) -> None:
        """See `Front`."""
        await self._server.drain(timeout_s)


class Orders:
    """What a worker is told to do while it runs.

    Attributes:
        stop: set once; the worker drains and ends.
        reload: set whenever the configuration is to be read again.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.reload = asyncio.Event()


async def serve(
    application: Application,
    settings: ServerSettings,
    ports: Ports,
    orders: Orders,
    on_ready: Callable[[], None],
) -> None:
    """Run `application` until `orders.stop`, then drain and close it.

    Args:
        application: not started yet.
        settings: drain delay and time-out.
        ports: what the arbiter bound.
        orders: set from outside, on this loop.
        on_ready: called once, when every port is open.

    Raises:
        ServingError: the application cannot start.
        PortError: a port cannot be listened on.
    """
    try:
        if not await _done_before(orders.stop, application.start()):
            return
        fronts = _fronts(application, ports, settings)
        for front in fronts:
            await front.listen()
        await application.set_ready(True)
        _announce(application, settings)
        on_ready()
        await _reload_until_stopped(application, orders)
        await application.set_ready(False)
        await asyncio.sleep(settings.drain_delay_s)
        await asyncio.gather(*(front.drain(settings.drain_timeout_s) for front in fronts))
    finally:
        await _close(application)


def _fronts(application: Application, ports: Ports, settings: ServerSettings) -> list[Front]:
    fronts: list[Front] = []
    if ports.grpc:
        fronts.append(GrpcFront(application.grpc(), ports))
    if ports.rest:
        fronts.append(RestFront(application.rest(), ports, settings.busy_poll_us / 1e6))
    return fronts


def _announce(application: Application, settings: ServerSettings) -> None:
    """Say that the ports are open, in the words of 2020 that scripts wait for."""
    names = list(application.model_names())
    for interface, port in (("REST", settings.rest_port), ("gRPC", settings.port)):
        if port:
            log.info(
                "%s server listens on port %d and will be serving models: %s",
                interface,
                port,
                names,
            )


async def _done_before(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work` unless `stop` comes first; then cancel it and return False."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            task.cancel()
            await asyncio.wait((task,), timeout=CLOSE_TIMEOUT_S)
            return False
        task.result()
        return True
    finally:
        stopped.cancel()


async def _reload_until_stopped(application: Application, orders: Orders) -> None:
    """Reload whenever asked, one reload at a time, until told to stop."""
    while await _done_before(orders.stop, _flag(orders.reload)):
        orders.reload.clear()
        await _done_before(orders.stop, _reload(application))


async def _flag(event: asyncio.Event) -> None:
    await event.wait()


async def _reload(application: Application) -> None:
    try:
        await application.reload()
    except ServingError as error:
        log.error(Event("configuration not reloaded, the last one stays", cause=error))
    except Exception:
        log.exception(Event("configuration not reloaded, the last one stays"))


async def _close(application: Application) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(application.close(), CLOSE_TIMEOUT_S)
