"""Reads a large body or message from the socket to memory that the connection names.

Otherwise the transport makes bytes of each read, of 256 KB at most, which are copied once more.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ie_serving.server.transport.filling import AHEAD, Filling

LEAST: Final = 1 << 18
"""Missing bytes of a body from which reading it directly costs less than the switch."""


def is_worth(filling: Filling) -> bool:
    """Tell whether to read the rest of a body directly: its client is sending it, and it is long.

    A client that has sent little may send no more: memory is not reserved for its announcement.
    """
    return filling.filled >= AHEAD and filling.length - filling.filled >= LEAST


class DirectReads(asyncio.BufferedProtocol):
    """The protocol of a connection while much data comes.

    Args of the constructor:
        connection: the protocol before and after.
        room: gives memory for the next bytes, for one at least.
        came: called with the number of bytes that have come.
    """

    def __init__(
        self,
        connection: asyncio.Protocol,
        room: Callable[[], memoryview],
        came: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._room = room
        self._came = came

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return self._room()

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._came(nbytes)

    def eof_received(self) -> bool | None:
        """See asyncio.BufferedProtocol."""
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.BufferedProtocol."""
        self._connection.resume_writing()


def set_protocol(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    """Give a transport that reads another protocol; uvloop looks for its kind where it begins."""
    transport.pause_reading()
    transport.set_protocol(protocol)
    transport.resume_reading()
