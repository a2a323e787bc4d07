#!/opt/ie_serving/bin/python -I
"""The image's HEALTHCHECK: exit code 0 when the server in this container is ready, else 1.

Its ports are not known beforehand, so the kernel is asked what this container's processes listen
on: the REST port answers `/v2/health/ready`, and without one the gRPC port answers
`grpc.health.v1`. Source of the tables' columns: proc(5).
"""

import http.client
import os
import sys
from collections.abc import Iterable
from pathlib import Path

TIMEOUT_S = 3.0
LISTEN = "0A"
READY, NOT_READY = 200, 503
SERVING = b"\x08\x01"
"""`HealthCheckResponse(status=SERVING)` on the wire."""


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
    connection = http.client.HTTPConnection("localhost", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/v2/health/ready")
        status = connection.getresponse().status
        return status if status in (READY, NOT_READY) else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def grpc_serving(port: int) -> bool:
    """Ask for readiness over gRPC."""
    import grpc  # here, not above: most checks end before it is needed

    with grpc.insecure_channel(f"localhost:{port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        try:
            return bool(check(b"", timeout=TIMEOUT_S) == SERVING)
        except grpc.RpcError:
            return False


def ready(ports: Iterable[int]) -> bool:
    """Tell whether the server behind one of `ports` is ready."""
    statuses = {port: rest_status(port) for port in ports}
    if any(statuses.values()):
        return READY in statuses.values()
    return any(grpc_serving(port) for port in statuses)


if __name__ == "__main__":
    sys.exit(0 if ready(listening_ports()) else 1)
