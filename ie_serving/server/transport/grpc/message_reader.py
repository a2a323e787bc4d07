"""Splits a request's data into messages; inflates these, and compresses replies.

Source: "gRPC over HTTP2", Length-Prefixed-Message and Compression Algorithms.
"""

import asyncio
import struct
import zlib
from typing import Final

from ie_serving.core.runtime.budget import BUDGET, SMALL
from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.server.transport import inflate
from ie_serving.server.transport.filling import Filling
from ie_serving.server.transport.grpc.services import Buffer

PREFIX = struct.Struct(">BL")
"""Whether the message is compressed, and its length in bytes."""
VIEWED = SMALL
"""Bytes from which a message is a view of memory that the budget counts; a smaller one is copied to
bytes, which are cheaper to parse than a view."""

GrpcMessage = tuple[bool, "bytes | memoryview"]
"""Whether the message is compressed, and its bytes."""

IDENTITY: Final = b"identity"
INFLATERS: Final = {b"gzip": inflate.GZIP, b"deflate": inflate.DEFLATE}
"""Window bits for zlib, by `grpc-encoding`."""
SMALLEST: Final = 1024
"""Bytes of the smallest reply that is compressed: a smaller one fits one packet anyway."""
_LARGE: Final = 16 * 1024
"""Bytes of a reply from which a thread compresses it, at 45 ns a byte."""
_FASTEST: Final = 1
_WORTH: Final = 0.9
"""Largest ratio of compressed to original size at which a reply is sent compressed, since inflating
costs the client, too. Random floats shrink to 93 %."""


class MessageTooLarge(Exception):
    """A message announces more bytes than the limit.

    Attributes:
        length: the announced length.
    """

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


class MessageReader:
    """Reassembles the messages of one request; a message that arrives in one piece is copied once.

    Args of the constructor:
        limit: bytes of the largest message.
    """

    __slots__ = ("_compressed", "_filling", "_limit", "_prefix")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._prefix = b""
        self._filling: Filling | None = None
        self._compressed = False

    @property
    def within(self) -> bool:
        """Whether a message is incomplete."""
        return bool(self._prefix) or self._filling is not None

    def feed(self, data: Buffer, start: int, stop: int) -> list[GrpcMessage]:
        """Take a piece of data; return the messages that end in it.

        Raises:
            MessageTooLarge: the next message is larger than the limit.
            ServingError: the budget is spent.
        """
        filling = self._filling
        if filling is not None and stop - start < filling.length - filling.filled:
            filling.add(memoryview(data)[start:stop])  # most pieces of a long message, in one call
            return []
        found: list[GrpcMessage] = []
        while start < stop:
            if self._filling is None:
                start = self._begin(data, start, stop, found)
            else:
                start = self._fill(self._filling, data, start, stop, found)
        return found

    def room(self, most: int) -> memoryview | None:
        """Give the memory that `feed` copies the next bytes to, if `most` of them and more come.

        Data that has been read to this memory is fed like any other; to copy it to where it is
        costs nothing.
        """
        filling = self._filling
        if filling is None or filling.length - filling.filled < most:
            return None
        try:
            filling.reserve()
        except ServingError:
            return None  # `feed` reports it
        return filling.room[:most]

    def _begin(self, data: Buffer, start: int, stop: int, found: list[GrpcMessage]) -> int:
        """Read a prefix, and the message if it is complete."""
        missing = PREFIX.size - len(self._prefix)
        self._prefix += data[start : min(start + missing, stop)]
        start += missing
        if start > stop:
            return stop
        compressed, length = PREFIX.unpack(self._prefix)
        if length > self._limit:
            raise MessageTooLarge(length)
        BUDGET.check(length)
        self._prefix = b""
        end: int = start + length
        if end <= stop and length < VIEWED:
            found.append((bool(compressed), bytes(data[start:end])))
            return end
        self._compressed = bool(compressed)
        self._filling = Filling(length)
        return start

    def _fill(
        self, filling: Filling, data: Buffer, start: int, stop: int, found: list[GrpcMessage]
    ) -> int:
        length = filling.length
        stop = min(start + length - filling.filled, stop)
        filling.add(memoryview(data)[start:stop])
        if filling.filled == length:
            self._filling = None
            memory = filling.taken()
            found.append((self._compressed, bytes(memory) if length < VIEWED else memory))
        return stop


async def inflated(content: Buffer, encoding: bytes, limit: int) -> Buffer:
    """Inflate a message that is marked as compressed.

    Args:
        content: content of the message.
        encoding: encoding of its call.
        limit: largest inflated size in bytes.

    Raises:
        ServingError: the message cannot be inflated, or is too large.
    """
    if encoding not in INFLATERS:
        # INTERNAL, as gRPC's rules of compression demand.
        raise ServingError(
            "a message is marked as compressed, but grpc-encoding is identity"
            ": name the encoding, or send it plain"
        )
    try:
        return await inflate.inflated(content, INFLATERS[encoding], limit)
    except inflate.MalformedData as error:
        word = encoding.decode()
        raise InvalidRequest(
            f"a message is not the {word} data that is announced ({error}); compress it again"
        ) from error
    except inflate.DataTooLong:
        raise too_large(limit + 1, limit) from None


async def compressed(reply: Buffer, encoding: bytes) -> bytes | None:
    """Compress a reply with an encoding of `INFLATERS`; None if that does not pay."""
    if len(reply) < SMALLEST:
        return None
    if len(reply) < _LARGE:
        return _compress(reply, encoding)
    return await asyncio.to_thread(_compress, reply, encoding)


def _compress(reply: Buffer, encoding: bytes) -> bytes | None:
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, INFLATERS[encoding])
    written = compressor.compress(reply) + compressor.flush()
    return written if len(written) < _WORTH * len(reply) else None


def too_large(length: int, limit: int) -> RequestTooLarge:
    """Make the error for a message of `length` bytes, in gRPC's own words."""
    return RequestTooLarge(
        f"Received message larger than max ({length} vs. {limit}): send less at once",
        Hint(", or raise {server.max_message_bytes}"),
    )
