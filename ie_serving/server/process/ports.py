"""The sockets that the arbiter binds before any worker runs: bound, but not yet listening.

So a port that is taken is found at once, and until a worker is ready the kernel refuses
connections. Workers listen on these sockets, which outlive them. Only `grpc.aio` binds sockets of
its own in each worker, with SO_REUSEPORT, under which the kernel would let a second server share
the port unseen; the arbiter's socket is then a reservation.

On Linux a bound socket with SO_REUSEADDR does not keep another such socket out while it does not
listen, but without that option the remains of closed connections (TIME_WAIT) block the port. So
the option is set for `bind()`, cleared after it, and set again just before `listen()`
(`transport/listener.py`).
"""

import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ServingError

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class PortError(ServingError):
    """A port or UNIX socket cannot be had."""


Ports: TypeAlias = Mapping[str, tuple[socket.socket, ...]]
"""What the arbiter holds for its workers: by the name of each port that is on, its sockets."""

REST, GRPC = "REST", "gRPC"
"""Names of the interfaces, and of the port of each, as log lines and errors have them."""
BOTH = "both"
"""Name of the port that answers both."""


_Place: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]
"""What a socket is bound to: family and address."""
_Inherited: TypeAlias = dict[tuple[int, object], socket.socket]
"""Sockets that a predecessor has bound, by `_key`; whoever takes one takes it out."""


@dataclass(frozen=True)
class _Wanted:
    """One port as the settings want it.

    Attributes:
        name: see `Ports`.
        host: addresses, separated by commas; empty for every one.
        number: 0 is off.
        path: of a UNIX socket; empty is off.
        reserved: hold the address only, since a library may bind it again in each worker.
    """

    name: str
    host: str
    number: int
    path: str
    reserved: bool


def bind(server: ServerSettings, inherited: Sequence[socket.socket] = ()) -> Ports:
    """Bind every port that is on.

    Args:
        server: says which.
        inherited: sockets of the process that this one is to replace; those that are at the same
            address are taken as they are, the others closed.

    Raises:
        PortError: a port is taken or not permitted, or the host is not one of this machine;
            nothing stays bound.
    """
    rest_host, grpc_host = server.rest_host or server.host, server.grpc_host or server.host
    shared = server.port if server.shares_port else 0
    rest_port, grpc_port = (0, 0) if shared else (server.rest_port, server.port)
    wanted = (
        _Wanted(BOTH, grpc_host, shared, "", reserved=False),
        _Wanted(REST, rest_host, rest_port, server.rest_socket_path, reserved=False),
        _Wanted(GRPC, grpc_host, grpc_port, server.grpc_socket_path, reserved=True),
    )
    left = {_key(each.family, each.getsockname()): each for each in inherited}
    # One taken port lets the others go again: nothing of a failed start stays bound.
    with ExitStack() as bound:
        ports = {
            each.name: _bound(bound, each, left) for each in wanted if each.number or each.path
        }
        bound.pop_all()
    for each in left.values():
        each.close()
    return ports


def answering(ports: Ports, interface: str) -> tuple[socket.socket, ...]:
    """Give the sockets on which an interface is answered; none where it is off."""
    return (*ports.get(BOTH, ()), *ports.get(interface, ()))


def port_of(sockets: Sequence[socket.socket]) -> int | None:
    """Give the number of the port that `sockets` are bound to; None for UNIX sockets alone."""
    ports = [each.getsockname()[1] for each in sockets if each.family != socket.AF_UNIX]
    return int(ports[0]) if ports else None


def path_of(sockets: Sequence[socket.socket]) -> str | None:
    """Give the path of the UNIX socket among `sockets`."""
    paths = [each.getsockname() for each in sockets if each.family == socket.AF_UNIX]
    return str(paths[0]) if paths else None


def _bound(stack: ExitStack, wanted: _Wanted, left: _Inherited) -> tuple[socket.socket, ...]:
    """Bind one port. A reservation shares its address, so that a taken port is looked for first."""
    missing = []
    sockets = []
    for place in _addresses(wanted.host, wanted.number) if wanted.number else ():
        if inherited := left.pop(_key(*place), None):
            sockets.append(inherited)
        else:
            missing.append(place)
    if wanted.reserved:
        # Two servers that share an address would each get half of the connections.
        with ExitStack() as probe:
            _bind_port(probe, wanted, missing, shared=False)
    sockets += _bind_port(stack, wanted, missing, shared=wanted.reserved)
    return (*sockets, *_bind_path(stack, wanted, left))


def _bind_port(
    stack: ExitStack, wanted: _Wanted, places: Sequence[_Place], *, shared: bool
) -> Sequence[socket.socket]:
    """Bind the port on every address of the host; those this machine lacks are left out.

    A host may have an IPv6 address by name and no IPv6 at all, as in many containers.
    """
    host, port, interface = wanted.host, wanted.number, wanted.name
    absent: OSError | None = None
    bound = []
    for family, address in places:
        try:
            bound.append(stack.enter_context(_bind(family, address, shared=shared)))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise _unavailable(interface, host, port, error) from error
            absent = error
    if absent and not bound:
        raise _unavailable(interface, host, port, absent) from absent
    return bound


def _bind_path(stack: ExitStack, wanted: _Wanted, left: _Inherited) -> tuple[socket.socket, ...]:
    """Bind the UNIX socket, in place of one that a server which is gone has left behind."""
    path = wanted.path
    if not path:
        return ()
    if inherited := left.pop((socket.AF_UNIX, path), None):
        return (inherited,)
    bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        _take_path(bound, path)
    except OSError as error:
        raise PortError(
            f"cannot listen on {wanted.name} socket {path}: {error.strerror or error}; stop the"
            " program that holds it or choose another path"
        ) from error
    return (bound,)


def _key(family: int, address: object) -> tuple[int, object]:
    """Give what two sockets at the same address have in common."""
    # Behind host and port IPv6 has numbers that bind() fills in.
    return (family, tuple(address[:2]) if isinstance(address, tuple) else address)


def _take_path(bound: socket.socket, path: str) -> None:
    if _is_left_behind(path):
        os.unlink(path)
    bound.bind(path)


def _is_left_behind(path: str) -> bool:
    """Tell whether `path` is a UNIX socket on which nobody listens."""
    if not os.path.exists(path) or not stat.S_ISSOCK(os.stat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _addresses(host: str, port: int) -> Iterator[_Place]:
    if not host:
        yield _every_address(port)
        return
    for name in host.split(","):
        yield from _resolved(name, port)


def _resolved(name: str, port: int) -> Iterable[_Place]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PortError(
            f'host "{name}" cannot be resolved: {error.strerror}; name an address of this'
            " machine, or leave it empty to listen on all"
        ) from error
    # Once each: some resolvers name an address again for each line of /etc/hosts.
    return dict.fromkeys((family, address) for family, *_, address in found)


def _every_address(port: int) -> _Place:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)


def _bind(
    family: socket.AddressFamily, address: tuple[object, ...], *, shared: bool
) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            # "::" stands for every address, those of IPv4 among them.
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
    what = f"{GRPC} and {REST}" if interface == BOTH else interface
    where = f"{what} port {port}" + (f' on host "{host}"' if host else "")
    advice = {
        errno.EADDRINUSE: "stop the program that holds it or choose another port",
        errno.EACCES: "choose a port above 1023 or run with the right to bind it",
        errno.EADDRNOTAVAIL: "name an address of this machine, or leave the host empty",
    }.get(error.errno or 0, "choose another host or port")
    return PortError(f"cannot listen on {where}: {error.strerror}; {advice}")
