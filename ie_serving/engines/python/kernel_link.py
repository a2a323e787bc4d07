"""What the server and a kernel's process send each other: packed calls, and both ways of a stream.

Both ends run on event loops, which a slow or hanging peer must not block. Each direction has its
own shared memory, so that inputs may come while outputs are read. The sender writes to it again
only when the receiver has requested more (`FrameKind.NEXT`, `FrameKind.TAKEN`).

A call is its context as JSON and its inputs, in the order of the metadata; a reply is an error as
JSON, or nothing, and the outputs.
"""

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from ie_serving.core.values.codes import ERROR_OF, code_of
from ie_serving.core.values.errors import ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.core.values.tensors import Array, Arrays, Specs
from ie_serving.engines.process import protocol
from ie_serving.engines.process.link import MALFORMED, LinkMessage, PeerGone, Segment
from ie_serving.engines.process.protocol import FrameKind, text, words
from ie_serving.engines.python.context import Context
from ie_serving.engines.python.runners import KernelCall
from ie_serving.engines.run.forks import not_for_forks


def packed_context(ctx: Context) -> Array:
    """Give the caller's context as a tensor."""
    left = ctx.time_left()
    return text(json.dumps({"id": ctx.request_id, "headers": dict(ctx.headers), "left_s": left}))


def context_of(tensor: Array) -> Context:
    """Read the tensor that `packed_context` made."""
    given: dict[str, Any] = json.loads(words(tensor))
    ctx = Context(Caller(given["headers"], given["left_s"]))
    ctx.request_id = given["id"]
    return ctx


def packed(call: KernelCall, inputs: Sequence[str]) -> list[Array]:
    """Give a call as tensors."""
    return [packed_context(call.ctx), *(call.inputs[name] for name in inputs)]


def packed_reply(call: KernelCall, outputs: Specs) -> Iterator[Array]:
    """Give the outcome of a call as tensors."""
    outcome = call.outcome
    if isinstance(outcome, Mapping):
        yield text("")
        yield from (outcome[name] for name in outputs)
        return
    assert outcome is not None  # `InProcessRunner` leaves none open
    yield text(json.dumps({"code": code_of(outcome), "text": str(outcome), "over": call.over}))


def answered(
    tensors: Iterator[Array], outputs: Sequence[str]
) -> tuple[Arrays | ServingError, bool]:
    """Read the tensors that `packed_reply` made, and whether the memory was full."""
    said = words(next(tensors))
    if not said:
        return {name: next(tensors) for name in outputs}, False
    error = json.loads(said)
    return ERROR_OF.get(error["code"], ServingError)(error["text"]), error["over"]


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
        # A kernel may request inputs in one task and give outputs in another.
        self._sending = asyncio.Lock()

    async def send(self, kind: FrameKind, tensors: Sequence[Array] = (), number: int = 0) -> None:
        """Send a frame. If this is cancelled the connection is broken and must be closed.

        Raises:
            PeerGone: the peer has closed its end.
            OSError: there is not enough memory.
        """
        async with self._sending:
            # The others may be sent while the peer still reads the tensors before.
            asked = kind in (FrameKind.RUN, FrameKind.RESULT)
            frame = protocol.pack(kind, number, tensors, protocol.SHARED_FROM if asked else inf)
            if asked:
                self._writes.shrink()
            self._writes.write(frame)
            try:
                await asyncio.get_running_loop().sock_sendall(self._way, frame.data)
            except ConnectionError as error:
                raise PeerGone from error

    async def receive(self) -> LinkMessage:
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
        return LinkMessage(head.kind, head.number, tensors, shared_bytes)

    def leave(self) -> None:
        """End the connection for the peer and for the local receiver."""
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
