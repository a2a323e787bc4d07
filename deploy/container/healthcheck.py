#!/opt/ie_serving/bin/python -I
"""The image's HEALTHCHECK: exit code 0 when the server in this container is ready, else 1.

Its ports are not known beforehand, so the kernel is asked what this container's processes listen
on: the REST port answers `/v2/health/ready`, and without one the gRPC port answers
`grpc.health.v1`. Over TLS no certificate is verified: the server is in the same container. A port
that asks for one of ours, or for other credentials, is taken for ready, as is gRPC over TLS: by
default ports open when every model has loaded. Source of the tables' columns: proc(5).

Engines run it as root, which without CAP_SYS_PTRACE does not see the sockets of the server's user:
it looks as root first, and then as that user.
"""

import ctypes
import http.client
import os
import pwd
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

TIMEOUT_S = 3.0
LISTEN = "0A"
READY, NOT_READY, UNAUTHENTICATED = 200, 503, 401
SAYS = {READY: READY, NOT_READY: NOT_READY, UNAUTHENTICATED: READY}
"""What the status of a REST reply says; others come from ports that are not the one."""
HTTP1, HTTP2 = "http/1.1", "h2"
SERVING = b"\x08\x01"
"""`HealthCheckResponse(status=SERVING)` on the wire."""
KEEP_CAPABILITIES, CAPABILITY_VERSION = 8, 0x20080522
NET_BIND_SERVICE = struct.pack("6I", 1 << 10, 1 << 10, 0, 0, 0, 0)
"""What `capset` makes effective and permitted. Source: linux/capability.h."""


def listening_ports() -> set[int]:
    """List the TCP ports that processes of this container and user listen on."""
    own = _own_sockets()
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else []:
            columns = line.split()
            address, state, inode = columns[1], columns[3], columns[9]
            if state == LISTEN and f"socket:[{inode}]" in own:
                found.add(int(address.rpartition(":")[2], 16))
    return found


def become_the_servers_user() -> None:
    """Give up root as the entry point does; nothing changes where it cannot have done so.

    The sockets of a process are shown to those that have each capability that it has.
    """
    name = os.environ.get("IE_SERVING_USER") or "0"
    user = int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    with suppress(PermissionError):
        if user and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            kernel = ctypes.CDLL(None)
            kernel.prctl(KEEP_CAPABILITIES, 1)
            os.setuid(user)
            kernel.capset(struct.pack("Ii", CAPABILITY_VERSION, 0), NET_BIND_SERVICE)


def _own_sockets() -> set[str]:
    """Name the open sockets of all processes, as links in `/proc` name them."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found.add(os.readlink(link))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def rest_status(port: int) -> int | None:
    """Ask for readiness over HTTP; None where no REST server answers.

    The gRPC port answers HTTP/1.1 as well: with 400, to say that it is not the one.
    """
    try:
        if agreed(port) == HTTP1:
            return _status(http.client.HTTPSConnection, port, context=_believing()) or READY
        return _status(http.client.HTTPConnection, port) or None
    except OSError:
        return None


def _status(connect: Callable[..., http.client.HTTPConnection], port: int, **more: Any) -> int:
    """Give the status of readiness, or 0 where none is given."""
    connection = connect("localhost", port, timeout=TIMEOUT_S, **more)
    try:
        connection.request("GET", "/v2/health/ready")
        return SAYS.get(connection.getresponse().status, 0)
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def agreed(port: int) -> str:
    """Give the protocol that the port speaks over TLS, by ALPN; empty where it has no TLS.

    Raises:
        OSError: nothing answers there.
    """
    with socket.create_connection(("localhost", port), TIMEOUT_S) as plain:
        try:
            with _believing().wrap_socket(plain) as secured:
                return secured.selected_alpn_protocol() or ""
        except OSError:
            return ""


def _believing() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([HTTP1, HTTP2])
    return context


def grpc_serving(port: int) -> bool:
    """Ask for readiness over gRPC."""
    if agreed(port) == HTTP2:
        return True
    import grpc  # here, not above: most checks end before it is needed

    with grpc.insecure_channel(f"localhost:{port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        try:
            return bool(check(b"", timeout=TIMEOUT_S) == SERVING)
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.UNAUTHENTICATED)


def ready(ports: Iterable[int]) -> bool:
    """Tell whether the server behind one of `ports` is ready."""
    statuses = {port: rest_status(port) for port in ports}
    if any(statuses.values()):
        return READY in statuses.values()
    return any(grpc_serving(port) for port in statuses)


if __name__ == "__main__":
    found = listening_ports()
    become_the_servers_user()
    sys.exit(0 if ready(found | listening_ports()) else 1)
