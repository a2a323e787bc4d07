"""One way between the server and its TensorFlow process: a socket, and memory that both map.

Either end has one; what one sends the other receives. One request is under way at a time. Linux
alone: the memory is a file without a name, which goes with its last descriptor.
"""

import mmap
import os
import socket
import struct
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ie_serving.core.values.tensors import Array
from ie_serving.engines.process import protocol
from ie_serving.engines.process.protocol import Frame, Kind
from ie_serving.engines.run.forks import not_for_forks

KEPT_BYTES = 1 << 26
"""Shared memory that a link keeps between requests. What a larger request took beyond is given
back when the next one begins, so that one large batch does not hold its memory for ever."""

_STEP_BYTES = 1 << 20
"""Shared memory grows by so much at least: mapping it anew costs more than the pages."""


MALFORMED = (ValueError, KeyError, OverflowError, MemoryError, struct.error)
"""What reading a frame raises when its bytes are not those of `protocol.py`."""


class PeerGone(Exception):
    """The other end has closed its socket, or sent a malformed frame: its process is of no use."""


class Fault(Exception):
    """The other end could not do what it was asked for.

    Attributes:
        code: canonical code, as TensorFlow has it.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Message:
    """What arrived; its tensors are views that the next message may overwrite.

    Attributes:
        shared_bytes: how much of the shared memory they take, from its beginning.
    """

    kind: Kind
    number: int
    tensors: Sequence[Array]
    shared_bytes: int = 0


class Segment:
    """Memory that two processes share, by the descriptor of a file; closes it, at its own end too.

    Args of the constructor:
        descriptor: of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        # The last is the current one; those before it are there as long as arrays look into them.
        self._maps: list[mmap.mmap] = []
        # How many references there are to a map that nothing looks into.
        self._unseen = 0
        # A number alone would stay open: a version that is in use after its drain is not closed.
        self._close = weakref.finalize(self, os.close, descriptor)

    def at_least(self, size: int) -> memoryview:
        """Map `size` bytes at least, and let the file grow where it is smaller. Raises: OSError."""
        if size == 0:
            return memoryview(b"")
        if os.fstat(self.descriptor).st_size < size:
            os.ftruncate(self.descriptor, -(-size // _STEP_BYTES) * _STEP_BYTES)
        if not self._maps or len(self._maps[-1]) < size:
            self._map_anew()
        return memoryview(self._maps[-1])

    def write(self, frame: Frame) -> None:
        """Copy the large tensors of a frame. Raises: OSError, where there is not as much memory."""
        memory = self.at_least(frame.shared_bytes)
        for offset, data in frame.shared:
            # Not by a slice of the view: that keeps the interpreter locked, 15 ms for 64 MB.
            np.frombuffer(memory, np.uint8, data.nbytes, offset)[:] = np.frombuffer(data, np.uint8)

    @property
    def is_looked_into(self) -> bool:
        """Whether anything else refers to the memory: an array, a view of one, or what holds it."""
        return any(count > self._unseen for count in self._references())

    def _map_anew(self) -> None:
        seen = [count > self._unseen for count in self._references()]
        self._maps = [each for each, is_seen in zip(self._maps, seen, strict=True) if is_seen]
        self._maps.append(mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size))
        self._unseen = self._references()[-1]

    def _references(self) -> list[int]:
        # Whoever looks into a map by Python's buffer protocol holds a reference to it. How many
        # there are without that differs by version of Python, so it is counted, not known.
        return [sys.getrefcount(each) for each in self._maps]

    def shrink(self) -> None:
        """Give back what is more than `KEPT_BYTES`. Nothing may read it any more."""
        if os.fstat(self.descriptor).st_size > KEPT_BYTES:
            self._maps.clear()
            os.ftruncate(self.descriptor, KEPT_BYTES)

    def close(self) -> None:
        """Close the file; maps stay valid while arrays look into them."""
        self._maps.clear()
        self._close()


class Link:
    """Sends and receives frames. Blocking; one thread at a time.

    Args of the constructor:
        connection: a connected stream socket.
        memory: None sends everything through the socket.
    """

    def __init__(self, connection: socket.socket, memory: Segment | None = None) -> None:
        self._socket = connection
        not_for_forks(connection)
        self._memory = memory

    @property
    def alive(self) -> bool:
        """Whether the other end has not closed its socket so far."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def limit(self, seconds: float | None) -> None:
        """Wait for a frame no longer than that, from now on; None waits for ever."""
        self._socket.settimeout(seconds)

    @property
    def is_looked_into(self) -> bool:
        """Whether anything still looks into the tensors that came through shared memory."""
        return self._memory is not None and self._memory.is_looked_into

    def pack(self, kind: Kind, number: int, tensors: Sequence[Array], behind: int = 0) -> Frame:
        """Make a frame and copy its large tensors into shared memory.

        The arguments are those of `protocol.pack`.

        Returns:
            The frame, which keeps nothing of `tensors`.

        Raises:
            OSError: there is not as much memory.
        """
        if self._memory is None:
            return protocol.pack(kind, number, tensors, float("inf"))
        frame = protocol.pack(kind, number, tensors, behind=behind)
        self._memory.write(frame)
        return replace(frame, shared=())

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises: PeerGone."""
        try:
            self._socket.sendall(frame.data)
        except ConnectionError as error:
            raise PeerGone from error

    def receive(self) -> Message:
        """Wait for a frame.

        Raises:
            PeerGone: there will be none, or it is malformed.
            TimeoutError: the socket's time-out has passed.
        """
        try:
            return self._received()
        # An operation that wrote where it must not has spoilt the process at the other end.
        except MALFORMED as error:
            self._socket.shutdown(socket.SHUT_RDWR)
            raise PeerGone from error

    def _received(self) -> Message:
        head = protocol.head_of(self._exactly(protocol.HEAD.size))
        body = self._exactly(head.size)
        shared_bytes = protocol.shared_bytes(head, body)
        memory: protocol.Buffer = b""
        if self._memory is not None:
            memory = self._memory.at_least(shared_bytes)
        tensors = protocol.unpack(head, body, memory)
        return Message(head.kind, head.number, tensors, shared_bytes)

    def answer(self) -> Message:
        """Wait for a frame that is no fault. Raises: as `receive`, and Fault."""
        message = self.receive()
        if message.kind is Kind.FAULT:
            raise Fault(message.number, protocol.words(message.tensors[0]))
        return message

    def shrink(self) -> None:
        """Give back shared memory that an earlier message took and most do not need."""
        if self._memory is not None:
            self._memory.shrink()

    def close(self) -> None:
        """Close both."""
        self._socket.close()
        if self._memory is not None:
            self._memory.close()

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view.nbytes:
            try:
                count = self._socket.recv_into(view)
            except ConnectionError as error:
                raise PeerGone from error
            if not count:
                raise PeerGone
            view = view[count:]
        return data
