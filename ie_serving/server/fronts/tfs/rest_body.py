"""Bodies of REST requests and replies: the size limit and gzip, both ways."""

import asyncio
import gzip
import zlib

from ie_serving.core.errors import InvalidRequest, RequestTooLarge
from ie_serving.core.hints import Hint
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead

SMALLEST_COMPRESSED = 1024
"""Bytes of the smallest reply that is compressed. A smaller one is one packet of the network (1,460
bytes) in either form, and would pay some 50 us of processor time for nothing."""
MOST_INFLATED = 100 << 20
"""Limit of a body after decompression, as TensorFlow Serving has it: a small body asks for much."""
LARGE = 16 * 1024
"""Bytes of a reply from which it is compressed in a thread: at 45 ns a byte it would hold the event
loop for a millisecond."""
LARGE_COMPRESSED = 4 * 1024
"""Bytes of a compressed body from which it is inflated in a thread: it may grow a thousandfold, and
4 MB are 10 ms of the event loop."""
FASTEST = 1
"""zlib's level of compression. The default, 6, makes JSON of numbers 5 % smaller and takes four to
eight times as long."""
GZIP: Headers = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


async def read_body(request: Request, limit: int) -> bytes:
    """Read the whole body, inflated if it came as gzip.

    Args:
        request: whose body has not been read yet.
        limit: largest size in bytes, also after decompression.

    Raises:
        RequestTooLarge: the body is larger; what is over the limit is not kept.
        InvalidRequest: the body is not the gzip data that its header announces.
    """
    head = request.head
    if head.length is not None and head.length > limit:
        raise _too_large(limit)
    body = request.body if request.stream is None else await request.stream.rest(limit)
    if body is None or len(body) > limit:
        raise _too_large(limit)
    if b"gzip" not in head.fields.get(b"content-encoding", b""):
        return body
    if len(body) < LARGE_COMPRESSED:
        return _inflate(body, min(limit, MOST_INFLATED))
    return await asyncio.to_thread(_inflate, body, min(limit, MOST_INFLATED))


async def compressed(head: RequestHead, reply: Reply) -> Reply:
    """Give a reply of at least `SMALLEST_COMPRESSED` bytes as gzip, if the client takes it."""
    if not _takes_gzip(head):
        return reply
    status, headers, body = reply
    if len(body) < LARGE:
        body = gzip.compress(body, FASTEST)
    else:
        body = await asyncio.to_thread(gzip.compress, body, FASTEST)
    kept = tuple(header for header in headers if header[0] != b"content-length")
    return Reply(status, (*kept, *GZIP), body)


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
    if inflater.unused_data:  # what follows would be dropped without a word
        raise _not_gzip("something follows its end: send it as one member")
    return data


def _not_gzip(why: str) -> InvalidRequest:
    return InvalidRequest(
        "JSON Parse error: The document is empty: the body announced by Content-Encoding: gzip"
        f" is not valid gzip data ({why}); compress it again or leave the header out"
    )


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes, the limit for bodies",
        Hint(" ({server.max_message_bytes})"),
        f" and at most {MOST_INFLATED} for one that was compressed; send it in parts",
    )


def _takes_gzip(head: RequestHead) -> bool:
    for offer in head.fields.get(b"accept-encoding", b"").decode("latin-1").split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
