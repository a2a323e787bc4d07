"""A link between the server and a child process: a socket and shared memory.

Both ends use this class. One request is under way at a time. Linux only: the shared memory is a
file without a name, which the kernel frees with its last descriptor.
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
from ie_serving.engines.process.protocol import FrameKind, ProcessFrame
from ie_serving.engines.run.forks import not_for_forks

KEPT_BYTES = 1 << 26
"""Bytes of shared memory that a link keeps between requests. The next request frees memory beyond
that, so that one large batch does not occupy it for ever."""

_STEP_BYTES = 1 << 20
"""Step in bytes by which shared memory grows: a new mapping costs more than unused pages."""

MALFORMED = (ValueError, KeyError, OverflowError, MemoryError, struct.error)
"""Exceptions from reading a frame whose bytes do not follow `protocol.py`."""


class PeerGone(Exception):
    """The other end has closed its socket, or sent a malformed frame: its process is unusable."""


class RemoteFault(Exception):
    """The other end reports an error.

    Attributes:
        code: canonical code, as TensorFlow has it.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class LinkMessage:
    """A received message; its tensors are views that the next message may overwrite.

    Attributes:
        shared_bytes: bytes at the beginning of the shared memory that the tensors occupy.
    """

    kind: FrameKind
    number: int
    tensors: Sequence[Array]
    shared_bytes: int = 0


class Segment:
    """Memory that two processes share by a file descriptor; closes it, also when it is freed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        # The last map is the current one; earlier ones stay while arrays use them.
        self._maps: list[mmap.mmap] = []
        # The number of references to a map that no array or view uses.
        self._unseen = 0
        # A version in use after its drain gets no `close`: the finalizer does it.
        self._close = weakref.finalize(self, os.close, descriptor)

    def at_least(self, size: int) -> memoryview:
        """Map at least `size` bytes, and grow a smaller file. Raises: OSError."""
        if size == 0:
            return memoryview(b"")
        if os.fstat(self.descriptor).st_size < size:
            os.ftruncate(self.descriptor, -(-size // _STEP_BYTES) * _STEP_BYTES)
        if not self._maps or len(self._maps[-1]) < size:
            self._map_anew()
        return memoryview(self._maps[-1])

    def write(self, frame: ProcessFrame) -> None:
        """Copy the large tensors of a frame. Raises: OSError, without enough memory."""
        memory = self.at_least(frame.shared_bytes)
        for offset, data in frame.shared:
            # numpy copies without the GIL; a slice of the view would hold it for 15 ms for 64 MB.
            np.frombuffer(memory, np.uint8, data.nbytes, offset)[:] = np.frombuffer(data, np.uint8)

    @property
    def is_looked_into(self) -> bool:
        """Whether an array, or a view of one, still uses the memory."""
        return any(count > self._unseen for count in self._references())

    def _map_anew(self) -> None:
        seen = [count > self._unseen for count in self._references()]
        self._maps = [each for each, is_seen in zip(self._maps, seen, strict=True) if is_seen]
        self._maps.append(mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size))
        self._unseen = self._references()[-1]

    def _references(self) -> list[int]:
        # Each user of a map through Python's buffer protocol holds a reference to it. The number
        # without users differs by version of Python, so it is counted.
        return [sys.getrefcount(each) for each in self._maps]

    def shrink(self) -> None:
        """Free the memory beyond `KEPT_BYTES`, which must be unused."""
        if os.fstat(self.descriptor).st_size > KEPT_BYTES:
            self._maps.clear()
            os.ftruncate(self.descriptor, KEPT_BYTES)

    def close(self) -> None:
        """Close the file; maps stay valid while arrays use them."""
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
        """Set the longest wait for a frame from now on; None waits for ever."""
        self._socket.settimeout(seconds)

    @property
    def is_looked_into(self) -> bool:
        """Whether an array or view still uses tensors that came through shared memory."""
        return self._memory is not None and self._memory.is_looked_into

    def pack(
        self, kind: FrameKind, number: int, tensors: Sequence[Array], behind: int = 0
    ) -> ProcessFrame:
        """Make a frame and copy its large tensors into shared memory.

        The arguments are those of `protocol.pack`.

        Returns:
            The frame, which holds no reference to `tensors`.

        Raises:
            OSError: not enough memory.
        """
        if self._memory is None:
            return protocol.pack(kind, number, tensors, float("inf"))
        frame = protocol.pack(kind, number, tensors, behind=behind)
        self._memory.write(frame)
        return replace(frame, shared=())

    def send(self, frame: ProcessFrame) -> None:
        """Send a frame. Raises: PeerGone."""
        try:
            self._socket.sendall(frame.data)
        except ConnectionError as error:
            raise PeerGone from error

    def receive(self) -> LinkMessage:
        """Wait for a frame.

        Raises:
            PeerGone: the other end is gone, or the frame is malformed.
            TimeoutError: the socket's time-out has passed.
        """
        try:
            return self._received()
        # The other end's memory is corrupt: an operation has written outside its tensors.
        except MALFORMED as error:
            self._socket.shutdown(socket.SHUT_RDWR)
            raise PeerGone from error

    def _received(self) -> LinkMessage:
        head = protocol.head_of(self._exactly(protocol.HEAD.size))
        body = self._exactly(head.size)
        shared_bytes = protocol.shared_bytes(head, body)
        memory: protocol.FrameBytes = b""
        if self._memory is not None:
            memory = self._memory.at_least(shared_bytes)
        tensors = protocol.unpack(head, body, memory)
        return LinkMessage(head.kind, head.number, tensors, shared_bytes)

    def reply(self) -> LinkMessage:
        """Wait for a frame that reports no fault.

        Raises:
            PeerGone, TimeoutError: see `receive`.
            RemoteFault: the frame reports a fault.
        """
        message = self.receive()
        if message.kind is FrameKind.FAULT:
            raise RemoteFault(message.number, protocol.words(message.tensors[0]))
        return message

    def shrink(self) -> None:
        """Free shared memory beyond `KEPT_BYTES`, which an earlier large message needed."""
        if self._memory is not None:
            self._memory.shrink()

    def close(self) -> None:
        """Close the socket and the shared memory."""
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
