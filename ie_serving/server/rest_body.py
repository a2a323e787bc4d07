"""Bodies of REST requests and replies: the size limit and gzip, both ways."""

import asyncio
import gzip
import zlib
from typing import cast

import falcon.asgi

from ie_serving.errors import InvalidRequest, RequestTooLarge
from ie_serving.server.http1.exchange import BODY

SMALLEST_COMPRESSED = 1024
"""Replies below this size gain nothing from compression."""
MOST_INFLATED = 100 << 20
"""Limit of a body after decompression, as TensorFlow Serving has it: a small body asks for much."""
LARGE = 64 * 1024
"""From this size on, replies are compressed in a thread."""
LARGE_COMPRESSED = 4 * 1024
"""From this size on, bodies are inflated in a thread: they grow a thousandfold."""
FASTEST = 1


def gathered(request: falcon.asgi.Request) -> bytes | None:
    """Give the body where the server has it already, as it has all small ones."""
    extensions = request.scope.get("extensions")
    return extensions.get(BODY) if extensions else None


async def read_body(request: falcon.asgi.Request, limit: int) -> bytes:
    """Read the whole body, inflated if it came as gzip.

    Args:
        request: whose body has not been read yet.
        limit: largest size in bytes, also after decompression.

    Raises:
        RequestTooLarge: the body is larger; what is over the limit is not kept.
        InvalidRequest: the body is not the gzip data that its header announces.
    """
    body = gathered(request)
    if body is None:
        announced = request.content_length
        if announced is not None and announced > limit:
            raise _too_large(limit)
        body = await _read(request, limit)
    elif len(body) > limit:
        raise _too_large(limit)
    if "gzip" not in (request.get_header("Content-Encoding") or ""):
        return body
    if len(body) < LARGE_COMPRESSED:
        return _inflate(body, min(limit, MOST_INFLATED))
    return await asyncio.to_thread(_inflate, body, min(limit, MOST_INFLATED))


async def write_body(
    request: falcon.asgi.Request, reply: falcon.asgi.Response, body: bytes | bytearray
) -> None:
    """Set the body of a reply of at least `SMALLEST_COMPRESSED` bytes, as gzip if it is taken."""
    if not _takes_gzip(request):
        reply.data = cast(bytes, body)  # Falcon passes any buffer on
        return
    reply.set_header("Content-Encoding", "gzip")
    reply.append_header("Vary", "Accept-Encoding")
    if len(body) < LARGE:
        reply.data = gzip.compress(body, FASTEST)
    else:
        reply.data = await asyncio.to_thread(gzip.compress, body, FASTEST)


async def _read(request: falcon.asgi.Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream:
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        data = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise _not_gzip(str(error)) from error
    if len(data) > limit:
        raise _too_large(limit)
    if not inflater.eof:
        raise _not_gzip("it ends too early")
    return data


def _not_gzip(why: str) -> InvalidRequest:
    return InvalidRequest(
        "JSON Parse error: The document is empty: the body announced by Content-Encoding: gzip"
        f" is not valid gzip data ({why}); compress it again or leave the header out"
    )


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes, the limit for bodies (--max_message_bytes) and"
        f" at most {MOST_INFLATED} for one that was compressed; send it in parts"
    )


def _takes_gzip(request: falcon.asgi.Request) -> bool:
    for offer in (request.get_header("Accept-Encoding") or "").split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
