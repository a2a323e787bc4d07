"""Bodies of REST requests and replies: the size limit, gzip, JSON, errors and answers to OPTIONS.

Only this module turns errors into `{"error": ...}`.
"""

import asyncio
import gzip
from collections.abc import Mapping

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import (
    WHOLE,
    InvalidRequest,
    NotLoaded,
    RequestTooLarge,
    UnknownEncoding,
)
from ie_serving.core.values.hints import Hint
from ie_serving.server.status import explain, http_of, in_header
from ie_serving.server.transport import inflate
from ie_serving.server.transport.http1.body import BodyStream, Octets
from ie_serving.server.transport.http1.connection_states import Body
from ie_serving.server.transport.http1.messages import Headers, Reply, Request, RequestHead
from ie_serving.telemetry.request.entry import current, now
from ie_serving.wire.form import FormBody, is_form, parse_form
from ie_serving.wire.json.request import PredictBody, SlicedBody, parse_predict
from ie_serving.wire.json.response import encode_error

METHOD_NOT_ALLOWED = 405
TOO_MANY_REQUESTS = 429
JSON = "application/json"
HTML = "text/html"
CORS: Headers = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"POST, GET"),
    (b"access-control-allow-headers", b"Content-Type"),
)
CORS_OF_CALLERS = (*CORS[:2], (CORS[2][0], b"Content-Type, Authorization, X-Api-Key"))
"""CORS headers of a server that authenticates its callers."""
SAME_ORIGIN = (b"cross-origin-resource-policy", b"same-origin")
"""Header that keeps pages of other origins from reading a reply, with CORS enabled or not."""
JSON_REPLY: Headers = ((b"content-type", JSON.encode()),)
RETRY_LATER: Headers = (*JSON_REPLY, (b"retry-after", b"1"))
"""Headers of a 429, and of a 503 while a model is loaded on demand: a full queue or budget mostly
has room again within a second, and a model is loaded."""

Page = tuple[int, str, Octets]
"""HTTP status, content type, body."""


def typed(media_type: str) -> Headers:
    """Return the headers of a reply whose media type the client has chosen.

    They keep a browser from guessing another type, such as a page with scripts, and from running
    scripts in a picture (SVG) that is opened as a page.
    """
    return (
        (b"content-type", media_type.encode("latin-1", "replace")),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"sandbox"),
    )


def json_page(status: int, body: bytes) -> Page:
    """Make a page of JSON."""
    return status, JSON, body


def preflight(origin: str) -> Page:
    """Answer OPTIONS as TensorFlow Serving does, which checks only the origin's scheme."""
    known = "http://" in origin or "https://" in origin
    return (200 if known else 400), HTML, b""


def refusal(error: Exception) -> Reply:
    """Turn an error into the reply to a request."""
    code, text, whole = explain(error)
    status = http_of(error, code)
    is_soon = status == TOO_MANY_REQUESTS or isinstance(error, NotLoaded)
    headers = RETRY_LATER if is_soon else JSON_REPLY
    if whole != text:
        headers += ((WHOLE.encode(), in_header(whole).encode()),)
    return Reply(status, headers, encode_error(text))


SMALLEST_COMPRESSED = 1024
"""Bytes of the smallest reply that is compressed. A smaller one fits one network packet (1,460
bytes) anyway, so compression would cost some 50 us of processor time for nothing."""
MOST_INFLATED = 100 << 20
"""Most bytes of a body after decompression, as in TensorFlow Serving; a larger one is refused."""
LARGE = 16 * 1024
"""Bytes of a reply from which a thread compresses it: at 45 ns a byte, compression would block the
event loop for 1 ms."""
PIECE = 1 << 20
"""Step in bytes in which a body is counted while it arrives."""
COUNTED = 8 * 1024
"""Bytes of a body from which the budget counts it while it is processed or waits for the model:
10,000 connections with smaller bodies hold at most 80 MB uncounted."""
WORKED_ON = 4
"""Memory that parsing a JSON body takes, as a multiple of the body: simdjson keeps strings and a
tape, and numbers become an array."""
MOST_GROWTH = 100
"""Largest ratio of inflated to compressed bytes, for bodies above `ALWAYS_INFLATED`; a larger one
is refused. JSON of numbers shrinks to a third or a tenth. A body that shrinks further repeats one
value, and to parse it takes minutes for a request of some KB."""
ALWAYS_INFLATED = 8 << 20
"""Bytes to which any body may inflate whatever its ratio, for example an image of zeros."""
FASTEST = 1
"""zlib's compression level. The default, 6, makes JSON of numbers 5 % smaller and takes four to
eight times as long."""
GZIPPED: Mapping[bytes, int] = {b"gzip": inflate.GZIP, b"x-gzip": inflate.GZIP}
"""Accepted compressions by their names in Content-Encoding; window bits for zlib."""
GZIP: Headers = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


async def read_body(request: Request, limit: int, lease: Lease) -> bytes:
    """Read the whole body as bytes; see `read_buffer`."""
    read = await read_buffer(request, limit, lease)
    if isinstance(read, bytes):
        return read
    body = bytes(read)
    del read  # its memory counts itself
    lease.take(len(body))
    return body


async def read_buffer(
    request: Request, limit: int, lease: Lease, codings: Mapping[bytes, int] = GZIPPED
) -> bytes | memoryview:
    """Read the whole body, inflated if it came compressed; a large one may be a view of memory.

    Such memory counts itself in the budget; bytes are counted by the lease.

    Args:
        request: request whose body has not been read yet.
        limit: largest size in bytes, also after decompression.
        lease: counts the memory for the body and its processing; belongs to the caller.
        codings: accepted compressions.

    Raises:
        RequestTooLarge: the body is larger; bytes beyond the limit are not kept.
        InvalidRequest: the body is not compressed as its header says.
        UnknownEncoding: the header names another compression.
        QueueFull: the budget is spent.
    """
    _check_length(request.head.length, limit)
    body: bytes | memoryview | None = request.body
    if request.stream is not None:
        body = await _gathered(request.stream, request.head.length, limit, lease)
    if body is None or len(body) > limit:
        raise _too_large(limit)
    window_bits = _window_bits(request.head, codings)
    if window_bits is not None:
        body = await _inflated(body, limit, window_bits)
    if len(body) >= COUNTED:
        lease.take(WORKED_ON * len(body))
    return body


def _window_bits(head: RequestHead, known: Mapping[bytes, int]) -> int | None:
    """Return zlib's window bits for the body's compression; None if it is not compressed."""
    encoding = head.fields.get(b"content-encoding", b"")
    codings = [coding.strip() for coding in encoding.lower().split(b",")]
    given = [coding for coding in codings if coding not in (b"", b"identity")]
    if not given:
        return None
    if len(given) > 1 or given[0] not in known:
        raise UnknownEncoding(
            f'Content-Encoding "{encoding.decode("latin-1")}" is not supported: send the body as'
            " gzip, or as it is"
        )
    return known[given[0]]


def _check_length(length: int | None, limit: int) -> None:
    """Refuse a too long body by its head, before the client sends it."""
    if length is not None:
        if length > limit:
            raise _too_large(limit)
        BUDGET.check(length)


async def _gathered(
    stream: BodyStream, length: int | None, limit: int, lease: Lease
) -> bytes | memoryview | None:
    """Read a body that arrives in pieces; None if it is larger than `limit`."""
    body = await _joined(stream, limit, lease) if length is None else await stream.whole(length)
    if entry := current():
        entry.whole = now()
    return body


async def _joined(stream: BodyStream, limit: int, lease: Lease) -> bytes | None:
    """As `_gathered`, of a body whose length only its end tells."""
    pieces: list[bytes] = []
    size = 0
    while not (pieces and stream.state is Body.WHOLE):
        piece = await stream.rest(min(PIECE, limit - size))
        size += len(piece)
        if size > limit:
            return None
        lease.take(len(piece))
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _inflated(body: bytes | memoryview, limit: int, window_bits: int) -> bytes:
    grown = max(ALWAYS_INFLATED, MOST_GROWTH * len(body))
    most = min(limit, MOST_INFLATED, grown)
    try:
        return bytes(await inflate.inflated(body, window_bits, most))
    except inflate.MalformedData as error:
        raise _malformed(str(error), window_bits) from error
    except inflate.DataTooLong:
        # The advice in the error depends on which of the two limits was exceeded.
        raise (_grows() if most == grown else _too_large(limit)) from None


def parse_slowly(head: RequestHead, body: bytes) -> PredictBody | SlicedBody | FormBody:
    """Parse a Predict body that is too slow for the event loop: large, lenient JSON, or a form.

    Raises:
        InvalidRequest: the body is neither JSON nor the form that its head announces.
    """
    kind = head.fields.get(b"content-type", b"")
    return parse_form(body, kind) if is_form(kind) else parse_predict(body)


def with_body(request: Request, body: bytes) -> Request:
    """Return the request with another body, which is not compressed and has arrived."""
    head = request.head
    fields = {name: text for name, text in head.fields.items() if name != b"content-encoding"}
    head = head._replace(fields=fields, length=len(body))
    return request._replace(head=head, body=body, stream=None)


async def compressed(head: RequestHead, reply: Reply) -> Reply:
    """Compress a reply of at least `SMALLEST_COMPRESSED` bytes if the client accepts gzip."""
    if not _takes_gzip(head):
        return reply
    status, headers, body, lines = reply
    if len(body) < LARGE:
        body = gzip.compress(body, FASTEST)
    else:
        body = await asyncio.to_thread(gzip.compress, body, FASTEST)
    # Headers with the length of the uncompressed body are wrong now.
    kept = tuple(header for header in headers if header[0] != b"content-length")
    return Reply(status, (*kept, *GZIP), body, lines)


def _malformed(why: str, window_bits: int) -> InvalidRequest:
    word = "gzip" if window_bits == inflate.GZIP else "deflate"
    return InvalidRequest(
        f"the body announced by Content-Encoding: {word} is not valid {word} data ({why});"
        " compress it again or leave the header out"
    )


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes, the limit for bodies",
        Hint(" ({server.max_message_bytes})"),
        f" and at most {MOST_INFLATED} for one that was compressed; send it in parts",
    )


def _grows() -> RequestTooLarge:
    return RequestTooLarge(
        f"the body becomes more than {MOST_GROWTH} times as large by decompression; send it as it"
        " is"
    )


def _takes_gzip(head: RequestHead) -> bool:
    for offer in head.fields.get(b"accept-encoding", b"").decode("latin-1").split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
