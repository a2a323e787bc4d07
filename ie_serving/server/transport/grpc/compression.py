"""Compressed messages of requests. Source: "gRPC over HTTP2", Compression Algorithms."""

from typing import Final

from ie_serving.core.errors import InvalidRequest, RequestTooLarge, ServingError
from ie_serving.core.hints import Hint
from ie_serving.server.transport import inflate
from ie_serving.server.transport.grpc.services import Buffer

IDENTITY: Final = b"identity"
INFLATERS: Final = {b"gzip": inflate.GZIP, b"deflate": inflate.DEFLATE}
"""Window bits for zlib, by `grpc-encoding`."""


async def inflated(content: Buffer, encoding: bytes, limit: int) -> Buffer:
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
    try:
        return await inflate.inflated(content, INFLATERS[encoding], limit)
    except inflate.Malformed as error:
        raise InvalidRequest(f"a message cannot be decompressed: {error}") from error
    except inflate.TooLong:
        raise too_large(limit + 1, limit) from None


def too_large(length: int, limit: int) -> RequestTooLarge:
    """Make the error of a message of `length` bytes, in gRPC's own words."""
    return RequestTooLarge(
        f"Received message larger than max ({length} vs. {limit}): send less at once",
        Hint(", or raise {server.max_message_bytes}"),
    )
