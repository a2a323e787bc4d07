"""A stream's way between the server and a kernel's process: frames in both directions at a time.

Either end is on an event loop, which a slow or hanging peer must not hold up. Each direction has
shared memory of its own, so that inputs may come while outputs are read. The sender writes to it
again only when the receiver has asked for more (`Kind.NEXT`, `Kind.TAKEN`).
"""

import asyncio
import socket
from collections.abc import Sequence
from math import inf

from ie_serving.core.values.tensors import Array
from ie_serving.engines.process import protocol
from ie_serving.engines.process.link import MALFORMED, Message, PeerGone, Segment
from ie_serving.engines.process.protocol import Kind
from ie_serving.engines.run.forks import not_for_forks


class Duplex:
    """One end of the way of one stream. Used on one event loop.

    Args of the constructor:
        way: a connected stream socket.
        writes: memory for the large tensors that are sent.
        reads: memory in which the peer's lie.
    """

    def __init__(self, way: socket.socket, writes: Segment, reads: Segment) -> None:
        way.setblocking(False)
        not_for_forks(way)
        self._way = way
        self._writes = writes
        self._reads = reads
        # A kernel may ask for inputs in one task and give outputs in another.
        self._sending = asyncio.Lock()

    async def send(self, kind: Kind, tensors: Sequence[Array] = (), number: int = 0) -> None:
        """Send a frame. Cancelled in between, the way is of no use any more: close it.

        Raises:
            PeerGone: nobody reads it.
            OSError: there is not as much memory.
        """
        async with self._sending:
            # The others may be sent while the peer still reads the tensors before.
            asked = kind in (Kind.RUN, Kind.RESULT)
            frame = protocol.pack(kind, number, tensors, protocol.SHARED_FROM if asked else inf)
            if asked:
                self._writes.shrink()
            self._writes.write(frame)
            try:
                await asyncio.get_running_loop().sock_sendall(self._way, frame.data)
            except ConnectionError as error:
                raise PeerGone from error

    async def receive(self) -> Message:
        """Wait for a frame. Its tensors are views, which the peer may write to once it is answered.

        Raises:
            PeerGone: there will be none, or it is malformed.
        """
        try:
            head = protocol.head_of(await self._exactly(protocol.HEAD.size))
            body = await self._exactly(head.size)
            shared_bytes = protocol.shared_bytes(head, body)
            tensors = protocol.unpack(head, body, self._reads.at_least(shared_bytes))
        except MALFORMED as error:
            raise PeerGone from error
        return Message(head.kind, head.number, tensors, shared_bytes)

    def leave(self) -> None:
        """Tell the peer, and whoever receives here, that there is nothing more to say."""
        try:
            self._way.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has gone already

    async def left(self) -> None:
        """Say that nothing more is sent, and wait until the peer has closed its end."""
        loop = asyncio.get_running_loop()
        try:
            self._way.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(self._way, protocol.SHARED_FROM):
                pass
        except OSError:
            return

    def close(self) -> None:
        """Close all of it. Nothing waits here any more."""
        self._way.close()
        self._writes.close()
        self._reads.close()

    async def _exactly(self, size: int) -> bytearray:
        loop = asyncio.get_running_loop()
        data = bytearray(size)
        view = memoryview(data)
        while view.nbytes:
            try:
                count = await loop.sock_recv_into(self._way, view)
            except ConnectionError as error:
                raise PeerGone from error
            if not count:
                raise PeerGone
            view = view[count:]
        return data
