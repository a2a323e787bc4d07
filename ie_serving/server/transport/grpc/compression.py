"""Compressed messages of requests. Source: "gRPC over HTTP2", Compression Algorithms."""

import asyncio
import zlib
from typing import Final

from ie_serving.core.errors import InvalidRequest, RequestTooLarge, ServingError
from ie_serving.core.hints import Hint
from ie_serving.server.transport.grpc.services import Buffer

IDENTITY: Final = b"identity"
INFLATERS: Final = {b"gzip": zlib.MAX_WBITS | 16, b"deflate": zlib.MAX_WBITS}
"""Window bits for zlib, by `grpc-encoding`."""
LARGE: Final = 4 * 1024
"""Bytes from which on messages are inflated in a thread: they may grow a thousandfold, and 4 MB are
10 ms of the event loop."""


async def inflated(content: Buffer, encoding: bytes, limit: int) -> bytes:
    """Inflate a message that is marked as compressed.

    Args:
        content: of the message.
        encoding: of its call.
        limit: bytes that it may have inflated.

    Raises:
        ServingError: it cannot be inflated, or is too large.
    """
    if encoding not in INFLATERS:
        # INTERNAL, as gRPC's rules of compression demand.
        raise ServingError("a message is marked as compressed, but grpc-encoding is identity")
    if len(content) < LARGE:
        return _inflate(content, encoding, limit)
    return await asyncio.to_thread(_inflate, content, encoding, limit)


def _inflate(content: Buffer, encoding: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(INFLATERS[encoding])
    try:
        # One byte more than is allowed tells "too large" from "just fits".
        data = inflater.decompress(content, limit + 1)
    except zlib.error as error:
        raise InvalidRequest(f"a message cannot be decompressed: {error}") from error
    if len(data) > limit:
        raise too_large(len(data), limit)
    if not inflater.eof or inflater.unused_data:
        raise InvalidRequest("a message cannot be decompressed: its end is not where it should be")
    return data


def too_large(length: int, limit: int) -> RequestTooLarge:
    """Make the error of a message of `length` bytes, in gRPC's own words."""
    return RequestTooLarge(
        f"Received message larger than max ({length} vs. {limit}): send less at once",
        Hint(", or raise {server.max_message_bytes}"),
    )
