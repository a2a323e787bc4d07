"""Compression of gRPC messages, both ways. Source: "gRPC over HTTP2", Compression Algorithms."""

import asyncio
import zlib
from typing import Final

from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge, ServingError
from ie_serving.core.values.hints import Hint
from ie_serving.server.transport import inflate
from ie_serving.server.transport.grpc.services import Buffer

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


async def inflated(content: Buffer, encoding: bytes, limit: int) -> Buffer:
    """Inflate a message that is marked as compressed.

    Args:
        content: of the message.
        encoding: of its call.
        limit: largest inflated size in bytes.

    Raises:
        ServingError: the message cannot be inflated, or is too large.
    """
    if encoding not in INFLATERS:
        # INTERNAL, as gRPC's rules of compression demand.
        raise ServingError("a message is marked as compressed, but grpc-encoding is identity")
    try:
        return await inflate.inflated(content, INFLATERS[encoding], limit)
    except inflate.Malformed as error:
        raise InvalidRequest(f"a message cannot be decompressed: {error}") from error
    except inflate.TooLong:
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
