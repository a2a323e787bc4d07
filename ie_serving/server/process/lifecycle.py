"""One worker's life on its event loop: load, listen, serve, withdraw, drain, close.

    start ──> listen ──> serving ──stop──> not ready, drain delay ──> refuse and drain ──> close
      └─────────────stop, or it failed────────────────────────────────────────────────────┘

This module handles neither processes nor signals: `worker.py` turns signals into `Orders`.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ServingError
from ie_serving.server.process.ports import (
    GRPC,
    REST,
    PortError,
    PortSockets,
    answering,
    path_of,
    port_of,
    take_paths,
)
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
"""Seconds that a worker may take to abandon its start or to close; then it ends regardless. Code of
versions may take the rest of the drain time-out to close, and at least these seconds."""

MOST_NAMED = 100
"""Models that the line of the start names: thousands would make a line of 100 KB."""


class PortServer(Protocol):
    """A transport with its application, not listening yet."""

    async def listen(self, bound: Sequence[socket.socket], /) -> None:
        """Accept connections at the addresses of the arbiter's sockets.

        Raises:
            OSError: an address cannot be used.
        """

    @property
    def in_flight(self) -> int:
        """Number of received requests that are not answered yet."""

    async def drain(self, timeout_s: float, /) -> int:
        """Refuse connections at once; return when requests in flight have ended or are cancelled.

        Returns:
            Number of requests that were cancelled because they had not ended after `timeout_s`.
        """


MakeListener = Callable[[], PortServer]
"""Makes the listener of a port, on the event loop."""


class Application(Protocol):
    """The models of a worker and the front ends over them. Built by `app/command_line.py`."""

    async def start(self) -> None:
        """Start to load; return when the first load of every model has succeeded or failed.

        Ports are closed meanwhile. Cancelled when the server is stopped.

        Raises:
            ServingError: the server cannot start; its text goes to the log.
        """

    def model_names(self) -> Sequence[str]:
        """Return the names of the configured models."""

    def listeners(self) -> Mapping[str, Callable[[], MakeListener]]:
        """Return a function for each port, by its name (`ports.py`), that prepares its listener.

        For ports that are on, it is called once, in a thread, while `start` runs, and imports the
        modules that only this port needs. It returns a function that makes the listener later.
        """

    async def set_ready(self, ready: bool) -> None:
        """Set readiness for probes: True when the ports are open, False at the stop.

        An application that waits for more than the ports reports readiness when it has all.
        """

    async def hand_over(self) -> None:
        """Make clients reconnect without failing probes: another process serves this address."""

    async def reload(self) -> None:
        """Read the configuration again, now.

        Raises:
            ServingError: the configuration is invalid; everything stays as it was.
        """

    async def close(self, limit_s: float) -> None:
        """Release resources that outlive the process, also after a failed or cancelled `start`.

        Memory is not released: the process ends right afterwards.

        Args:
            limit_s: seconds that closing may take, code of users included.
        """


class Orders:
    """Orders to a worker while it runs.

    Attributes:
        stop: set once, by `stop_for`; the worker drains and ends.
        cause: reason of the stop, as logged.
        reload: set whenever the configuration has to be read again.
        replaced: whether another process has taken over the ports.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.cause = ""
        self.reload = asyncio.Event()
        self.replaced = False

    def stop_for(self, cause: str) -> None:
        """Make the worker stop; only the first of several causes is logged."""
        self.cause = self.cause or cause
        self.stop.set()


async def serve(
    application: Application,
    settings: ServerSettings,
    ports: PortSockets,
    orders: Orders,
    on_ready: Callable[[], None],
) -> None:
    """Run `application` until `orders.stop`, then drain and close it.

    Args:
        application: not started yet.
        settings: drain delay and time-out.
        ports: the arbiter's sockets, for the ports that are on.
        orders: set from outside, on this loop.
        on_ready: called once, when every port is open.

    Raises:
        ServingError: the application cannot start.
        PortError: a port cannot be listened on.
    """
    code_s = settings.drain_timeout_s
    try:
        listeners = await _open(application, settings, ports, orders.stop)
        if listeners:
            on_ready()
            await _reload_until_stopped(application, orders)
        began = time.monotonic()
        _note_stop(orders, settings, listeners)
        if listeners:
            await _withdraw(application, settings, orders)
        drains = time.monotonic()
        cut = await _drain(settings, listeners)
        code_s -= time.monotonic() - drains
    finally:
        await _close(application, max(code_s, CLOSE_TIMEOUT_S))
    log.info(Event("server has stopped", took_s=time.monotonic() - began, requests_cut=cut))


async def _open(
    application: Application, settings: ServerSettings, ports: PortSockets, stop: asyncio.Event
) -> Mapping[str, PortServer]:
    """Start, and open the ports; open none if `stop` comes first."""
    # Both run at once: imports hold the interpreter, compiling models does not.
    work = asyncio.to_thread(_prepared, application.listeners(), ports)
    preparing = asyncio.ensure_future(work)
    try:
        if not await _done_before(stop, application.start()):
            return {}
        # Listeners are made on the loop, unlike their preparation: a listener belongs to the loop.
        listeners = {name: make() for name, make in (await preparing).items()}
    finally:
        preparing.cancel()  # unless it is done
    for name, listener in listeners.items():
        await _listen(name, listener, ports[name])
        take_paths(ports[name])
    await application.set_ready(True)
    _announce(application, ports)
    if settings.announce_as_tfs:
        _announce_as_tfs(ports)
    return listeners


def _note_stop(
    orders: Orders, settings: ServerSettings, listeners: Mapping[str, PortServer]
) -> None:
    in_flight = {f"{name.lower()}_in_flight": each.in_flight for name, each in listeners.items()}
    log.info(
        Event(
            "server stops",
            cause=orders.cause,
            drain_delay_s=settings.drain_delay_s,
            drain_timeout_s=settings.drain_timeout_s,
            **in_flight,
        )
    )


async def _withdraw(application: Application, settings: ServerSettings, orders: Orders) -> None:
    """Send clients to other servers, unless a successor serves at the same address."""
    if orders.replaced:
        await application.hand_over()
        return
    await application.set_ready(False)
    # Load balancers notice the lost readiness before connections are refused.
    await asyncio.sleep(settings.drain_delay_s)


async def _drain(settings: ServerSettings, listeners: Mapping[str, PortServer]) -> int:
    """Let requests in flight end; return how many were cancelled."""
    drains = (each.drain(settings.drain_timeout_s) for each in listeners.values())
    return sum(await asyncio.gather(*drains))


def _prepared(
    listeners: Mapping[str, Callable[[], MakeListener]], ports: PortSockets
) -> dict[str, MakeListener]:
    return {name: listeners[name]() for name in ports}


async def _listen(name: str, listener: PortServer, sockets: Sequence[socket.socket]) -> None:
    try:
        await listener.listen(sockets)
    except OSError as error:
        raise PortError(
            f"cannot listen on {name} {' and '.join(_addresses(sockets))}:"
            f" {error.strerror or error}; stop the program that holds it or choose another port"
        ) from error


def _announce(application: Application, ports: PortSockets) -> None:
    """Log that the ports are open, in the words of 2020 that scripts wait for."""
    names = list(application.model_names())
    more = len(names) - MOST_NAMED
    shown = f"{names[:MOST_NAMED]}{f' and {more} more' if more > 0 else ''}"
    for name in (REST, GRPC):
        for address in _addresses(answering(ports, name)):
            log.info("%s server listens on %s and will be serving models: %s", name, address, shown)


def _announce_as_tfs(ports: PortSockets) -> None:
    """Log it in TensorFlow Serving's words, too, which scripts of its users wait for."""
    if port := port_of(answering(ports, GRPC)):
        log.info("Running gRPC ModelServer at 0.0.0.0:%d ...", port)
    if path := path_of(answering(ports, GRPC)):
        log.info("Running gRPC ModelServer at unix:%s ...", path)
    if port := port_of(answering(ports, REST)):
        log.info("Exporting HTTP/REST API at:localhost:%d ...", port)


def _addresses(sockets: Sequence[socket.socket]) -> list[str]:
    port, path = port_of(sockets), path_of(sockets)
    return [*([f"port {port}"] if port else []), *([f"socket {path}"] if path else [])]


async def _done_before(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work` unless `stop` comes first; in that case cancel it and return False.

    The wait for the cancelled work is bounded, because a thread that compiles cannot be cancelled.
    """
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
    """Reload at each order, one reload at a time, until the stop."""
    while await _done_before(orders.stop, _flag(orders.reload)):
        orders.reload.clear()
        await _done_before(orders.stop, _reload(application))


async def _flag(event: asyncio.Event) -> None:
    await event.wait()


async def _reload(application: Application) -> None:
    try:
        await application.reload()
    except ServingError as error:
        log.error(Event("configuration not reloaded, the previous one stays", cause=error))
    except Exception:
        log.exception(Event("configuration not reloaded, the previous one stays"))


async def _close(application: Application, code_s: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(application.close(code_s), code_s + CLOSE_TIMEOUT_S)
