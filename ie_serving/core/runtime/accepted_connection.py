"""Gives a connection that this process has accepted itself its protocol on the event loop."""

import asyncio
import socket
from collections.abc import Callable


async def serve_accepted(
    connection: socket.socket, connect: Callable[[], asyncio.Protocol]
) -> None:
    """Give `connection` a protocol of `connect`; close it if its client has left."""
    connection.setblocking(False)
    try:
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(connect, connection)
    except OSError:
        connection.close()
