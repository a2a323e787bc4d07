"""The sockets that the arbiter binds before any worker runs: bound, but not yet listening.

So a port that is taken is found at once, and until a worker is ready the kernel refuses
connections. Workers listen on these sockets, which outlive them. Only `grpc.aio` binds sockets of
its own in each worker, with SO_REUSEPORT, under which the kernel would let a second server share
the port unseen; the arbiter's socket is then a reservation.

On Linux a bound socket with SO_REUSEADDR does not keep another such socket out while it does not
listen, but without that option the remains of closed connections (TIME_WAIT) block the port. So
the option is set for `bind()`, cleared after it, and set again just before `listen()`.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from ie_serving.errors import ServingError
from ie_serving.settings import ServerSettings

BACKLOG = 2048
"""Connections that the kernel queues until a worker accepts them."""
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class PortError(ServingError):
    """A port cannot be had."""


@dataclass(frozen=True)
class Ports:
    """What the arbiter holds for its workers.

    Attributes:
        rest: to listen on.
        grpc: to listen on, or to hold the addresses while `grpc.aio` binds them in a worker.
    """

    rest: tuple[socket.socket, ...]
    grpc: tuple[socket.socket, ...]


def bind(server: ServerSettings) -> Ports:
    """Bind every port that is on.

    Raises:
        PortError: a port is taken or not permitted, or the host is not one of this machine;
            nothing stays bound.
    """
    with ExitStack() as bound:
        rest = _bind_port(bound, server.host, server.rest_port, "REST", shared=False)
        with ExitStack() as probe:
            _bind_port(probe, server.host, server.port, "gRPC", shared=False)
        grpc = _bind_port(bound, server.host, server.port, "gRPC", shared=True)
        bound.pop_all()
    return Ports(rest=rest, grpc=grpc)


def allow_listening(bound: socket.socket) -> None:
    """Prepare a socket of `Ports` for `listen()`."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)


def _bind_port(
    stack: ExitStack, host: str, port: int, interface: str, *, shared: bool
) -> tuple[socket.socket, ...]:
    """Bind `port` on every address of `host`; those this machine lacks are left out."""
    if port == 0:
        return ()
    absent: OSError | None = None
    bound = []
    for family, address in _addresses(host, port):
        try:
            bound.append(stack.enter_context(_bind(family, address, shared=shared)))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise _unavailable(interface, host, port, error) from error
            absent = error
    if absent and not bound:
        raise _unavailable(interface, host, port, absent) from absent
    return tuple(bound)


def _addresses(host: str, port: int) -> Iterator[tuple[socket.AddressFamily, tuple[object, ...]]]:
    if not host:
        yield _every_address(port)
        return
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PortError(
            f'host "{host}" cannot be resolved: {error.strerror}; name an address of this machine,'
            " or leave it empty to listen on all"
        ) from error
    yield from dict.fromkeys((family, address) for family, *_, address in found)


def _every_address(port: int) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)


def _bind(
    family: socket.AddressFamily, address: tuple[object, ...], *, shared: bool
) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            only = address[0] != "::"
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except BaseException:
        bound.close()
        raise
    return bound


def _unavailable(interface: str, host: str, port: int, error: OSError) -> PortError:
    where = f"{interface} port {port}" + (f' on host "{host}"' if host else "")
    advice = {
        errno.EADDRINUSE: "stop the program that holds it or choose another port",
        errno.EACCES: "choose a port above 1023 or run with the right to bind it",
        errno.EADDRNOTAVAIL: "name an address of this machine, or leave the host empty",
    }.get(error.errno or 0, "choose another host or port")
    return PortError(f"cannot listen on {where}: {error.strerror}; {advice}")


def spelled(bound: socket.socket) -> str:
    """Give a socket's address as gRPC's library spells it."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if bound.family == socket.AF_INET6 else f"{host}:{port}"
