"""The limit of an address over real sockets, on both ports."""

import asyncio
import socket
from typing import Any

import pytest

from ie_serving.server.transport.connection_limit import client_of, limit_of
from ie_serving.server.transport.grpc.http2_server import Http2Server
from ie_serving.server.transport.http1.server import HttpServer
from tests.tables import named_by

PATIENCE_S = 20.0
NEVER: Any = None
PORTS = {
    "REST": lambda: HttpServer(NEVER, limit=limit_of(100, 1)),
    "gRPC": lambda: Http2Server({}, max_message_bytes=1, limit=limit_of(100, 1)),
}


@pytest.mark.parametrize("port", PORTS)
async def test_the_first_connection_of_an_address_gives_way_to_the_second(port: str) -> None:
    server = PORTS[port]()
    bound = socket.create_server(("127.0.0.1", 0))
    target = bound.getsockname()
    await server.listen([bound])
    first, _ = await asyncio.open_connection(*target)
    second, writer = await asyncio.open_connection(*target)
    await asyncio.wait_for(first.read(), PATIENCE_S)  # to its end
    assert not second.at_eof()
    writer.close()
    await server.drain(0.0)


@named_by(
    "address",
    ("address", "client"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_an_address_belongs_to_one_client_and_a_network_of_ipv6_to_one(
    address: str, client: str
) -> None:
    """A client with one address of IPv6 has its whole network, and would be a new one with each."""
    assert client_of(address) == client
