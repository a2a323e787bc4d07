"""Binds the server's sockets in the arbiter, before any worker runs; it does not listen yet.

So a port in use is found at once, and until a worker is ready the kernel refuses connections.
Workers listen on these sockets, which outlive them. Only `grpc.aio` binds sockets of its own in
each worker, with SO_REUSEPORT. With that option the kernel would also let a second server share the
port unnoticed, so the arbiter's socket reserves the address.

On Linux a bound socket with SO_REUSEADDR that does not listen does not exclude another such socket,
but without that option the remains of closed connections (TIME_WAIT) block the port. So the option
is set for `bind()`, cleared after it, and set again just before `listen()`
(`transport/listener.py`).

A UNIX socket that replaces a running server's is bound beside it, as PATH~, and gets the path by
`take_paths` when it is listened on: clients reach the other server until then.
"""

import errno
import logging
import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TypeAlias

from ie_serving.config.settings import ServerSettings
from ie_serving.core.values.errors import ServingError
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

IN_USE_S = 1.0
"""Seconds for which an address may be in use before that is an error. The worker of a server that
was killed closes its ports up to 0.3 s later, and a supervisor starts the next server at once."""

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

PortSockets: TypeAlias = Mapping[str, tuple[socket.socket, ...]]
"""The arbiter's sockets for its workers, by the name of each port that is on."""
REST, GRPC = "REST", "gRPC"
"""Names of the interfaces, and of their ports, in log lines and errors."""
BOTH = "both"
"""Name of the port that serves both."""
_NEW = "~"
"""Ends the name of a socket that is about to take another server's."""
_Address: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]
"""Address family and address that a socket is bound to."""
_Inherited: TypeAlias = dict[tuple[int, object], socket.socket]
"""Sockets that a predecessor has bound, by `_key`; a socket that is reused is removed from it."""


class PortError(ServingError):
    """A port or UNIX socket cannot be bound."""


@dataclass(frozen=True)
class _WantedPort:
    """One port as the settings define it.

    Attributes:
        name: name of the port, as in `PortSockets`.
        host: addresses, separated by commas; empty for all.
        number: port number; 0: off.
        path: path of a UNIX socket; empty: off.
        reserved: only reserve the address, since a library may bind it again in each worker.
        takes_path: the UNIX socket replaces that of a running server.
    """

    name: str
    host: str
    number: int
    path: str
    reserved: bool
    takes_path: bool = False


def bind(server: ServerSettings, inherited: Sequence[socket.socket] = ()) -> PortSockets:
    """Bind every port that is on.

    Args:
        server: settings of the ports.
        inherited: sockets of the process that this one replaces; those with a wanted address are
            reused, the others closed.

    Raises:
        PortError: a port is in use or not permitted, or the host is not one of this machine;
            nothing stays bound.
    """
    rest_host, grpc_host = server.rest_host or server.host, server.grpc_host or server.host
    shared = server.port if server.shares_port else 0
    rest_port, grpc_port = (0, 0) if shared else (server.rest_port, server.port)
    wanted = (
        _WantedPort(BOTH, grpc_host, shared, "", reserved=False),
        _WantedPort(REST, rest_host, rest_port, server.rest_socket_path, reserved=False),
        _WantedPort(
            GRPC,
            grpc_host,
            grpc_port,
            server.grpc_socket_path,
            reserved=True,
            takes_path=server.takes_grpc_socket,
        ),
    )
    left = {_key(each.family, path_of([each]) or each.getsockname()): each for each in inherited}
    # If one port fails, all are closed: nothing of a failed start stays bound.
    with ExitStack() as bound:
        ports = {
            each.name: _bound(bound, each, left) for each in wanted if each.number or each.path
        }
        bound.pop_all()
    for each in left.values():
        each.close()
    return ports


def answering(ports: PortSockets, interface: str) -> tuple[socket.socket, ...]:
    """Return the sockets that serve an interface; none if it is off."""
    return (*ports.get(BOTH, ()), *ports.get(interface, ()))


def port_of(sockets: Sequence[socket.socket]) -> int | None:
    """Return the port number that `sockets` are bound to; None if all are UNIX sockets."""
    ports = [each.getsockname()[1] for each in sockets if each.family != socket.AF_UNIX]
    return int(ports[0]) if ports else None


def url_of(ports: PortSockets, interface: str, server: ServerSettings) -> str:
    """Give the URL by which commands on this machine reach an interface; empty if it is off."""
    secure = server.has_tls and server.tls_ports in ("both", interface.lower())
    scheme = {REST: "http", GRPC: "grpc"}[interface] + "s" * secure
    for bound in answering(ports, interface):
        if bound.family != socket.AF_UNIX:
            host, port = bound.getsockname()[:2]
            host = "localhost" if host in ("::", "0.0.0.0") else host
            return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    path = path_of(answering(ports, interface)) if interface == REST else None
    return f"unix://{path}" if path else ""


def path_of(sockets: Sequence[socket.socket]) -> str | None:
    """Return the path of the UNIX socket among `sockets`."""
    return next((path for _, path in _names(sockets)), None)


def take_paths(sockets: Iterable[socket.socket]) -> None:
    """Give UNIX sockets that are listened on the path of the server that they replace."""
    for name, path in _names(sockets):
        if name != path:
            with suppress(FileNotFoundError):  # it has it already; another worker was first
                os.rename(name, path)


def files_of(sockets: Iterable[socket.socket]) -> Mapping[str, int]:
    """Return the inode of the file of each UNIX socket, by its present name and by its path."""
    files: dict[str, int] = {}
    for name, path in _names(sockets):
        with suppress(FileNotFoundError):
            inode = os.stat(name if os.path.exists(name) else path).st_ino
            files |= {name: inode, path: inode}
    return files


def remove(files: Mapping[str, int]) -> None:
    """Remove files of UNIX sockets, but not those of a server that has replaced this one."""
    for name, inode in files.items():
        with suppress(FileNotFoundError):
            if os.stat(name).st_ino == inode:
                os.unlink(name)


def _bound(stack: ExitStack, wanted: _WantedPort, left: _Inherited) -> tuple[socket.socket, ...]:
    """Bind one port; before a reservation, which shares its address, check that it is free."""
    missing = []
    sockets = []
    for address in _addresses(wanted.host, wanted.number) if wanted.number else ():
        if inherited := left.pop(_key(*address), None):
            sockets.append(inherited)
        else:
            missing.append(address)
    if wanted.reserved:
        # Two servers that share an address would each receive half of the connections.
        with ExitStack() as probe:
            _bind_port(probe, wanted, missing, shared=False)
    sockets += _bind_port(stack, wanted, missing, shared=wanted.reserved)
    return (*sockets, *_bind_path(stack, wanted, left))


def _bind_port(
    stack: ExitStack, wanted: _WantedPort, addresses: Sequence[_Address], *, shared: bool
) -> Sequence[socket.socket]:
    """Bind the port on every address of the host; skip addresses that this machine lacks.

    A host's name may have an IPv6 address while IPv6 is off, as in many containers.
    """
    host, port, interface = wanted.host, wanted.number, wanted.name
    absent: OSError | None = None
    bound = []
    for family, address in addresses:
        try:
            bound.append(stack.enter_context(_bind(family, address, shared=shared)))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise _unavailable(interface, host, port, error) from error
            absent = error
    if absent and not bound:
        raise _unavailable(interface, host, port, absent) from absent
    return bound


def _bind_path(
    stack: ExitStack, wanted: _WantedPort, left: _Inherited
) -> tuple[socket.socket, ...]:
    """Bind the UNIX socket; replace the stale one of a server that has ended."""
    path = wanted.path
    if not path:
        return ()
    if inherited := left.pop((socket.AF_UNIX, path), None):
        return (inherited,)
    bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        if wanted.takes_path and _is_socket(path) and not _is_left_behind(path):
            log.warning(Event("gRPC socket is taken from a running server", path=path))
            path += _NEW
        _take_path(bound, path)
    except OSError as error:
        raise PortError(
            f"cannot listen on {wanted.name} socket {path}: {error.strerror or error}; stop the"
            " program that holds it or choose another path"
        ) from error
    return (bound,)


def _key(family: int, address: object) -> tuple[int, object]:
    """Return a key that is equal for sockets at the same address."""
    # IPv6 addresses have further numbers after host and port, which bind() fills in.
    return (family, tuple(address[:2]) if isinstance(address, tuple) else address)


def _names(sockets: Iterable[socket.socket]) -> Iterator[tuple[str, str]]:
    """Give the name that each UNIX socket was bound to, and the path that it has or will have."""
    for bound in sockets:
        if bound.family == socket.AF_UNIX:
            yield bound.getsockname(), bound.getsockname().removesuffix(_NEW)


def _take_path(bound: socket.socket, path: str) -> None:
    if _is_left_behind(path):
        os.unlink(path)
    bound.bind(path)


def _is_left_behind(path: str) -> bool:
    """Return whether `path` is a UNIX socket on which no process listens."""
    if not _is_socket(path):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _is_socket(path: str) -> bool:
    return os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode)


def _addresses(host: str, port: int) -> Iterator[_Address]:
    if not host:
        yield _every_address(port)
        return
    for name in host.split(","):
        yield from _resolved(name, port)


def _resolved(name: str, port: int) -> Iterable[_Address]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PortError(
            f'host "{name}" cannot be resolved: {error.strerror}; name an address of this'
            " machine, or leave it empty to listen on all"
        ) from error
    # Duplicates are dropped: some resolvers repeat an address for each line of /etc/hosts.
    return dict.fromkeys((family, address) for family, *_, address in found)


def _every_address(port: int) -> _Address:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)


def _bind(
    family: socket.AddressFamily, address: tuple[object, ...], *, shared: bool
) -> socket.socket:
    with ExitStack() as undone:
        bound = undone.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if family == socket.AF_INET6:
            # "::" stands for all addresses, including IPv4.
            only = address[0] != "::"
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind_patiently(bound, address)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        undone.pop_all()
    return bound


def _bind_patiently(bound: socket.socket, address: tuple[object, ...]) -> None:
    """Bind, up to `IN_USE_S` later than asked where the address is in use."""
    end = time.monotonic() + IN_USE_S
    while True:
        try:
            bound.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= end:
                raise
            time.sleep(IN_USE_S / 50)
        else:
            return


def _unavailable(interface: str, host: str, port: int, error: OSError) -> PortError:
    what = f"{GRPC} and {REST}" if interface == BOTH else interface
    where = f"{what} port {port}" + (f' on host "{host}"' if host else "")
    advice = {
        errno.EADDRINUSE: "stop the program that holds it or choose another port",
        errno.EACCES: "choose a port above 1023 or run with the right to bind it",
        errno.EADDRNOTAVAIL: "name an address of this machine, or leave the host empty",
    }.get(error.errno or 0, "choose another host or port")
    return PortError(f"cannot listen on {where}: {error.strerror}; {advice}")
