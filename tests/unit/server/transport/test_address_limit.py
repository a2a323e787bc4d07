"""The limit of an address over real sockets, on both ports."""

import asyncio
import socket
from typing import Any

import pytest

from ie_serving.server.transport.address_limit import limit_of
from ie_serving.server.transport.grpc.http2_server import Http2Server
from ie_serving.server.transport.http1.server import HttpServer

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
