"""Bodies of REST requests: their size limit, and their decompression."""

from collections.abc import Mapping

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.values.errors import InvalidRequest, RequestTooLarge, UnknownEncoding
from ie_serving.core.values.hints import Hint
from ie_serving.server.transport import inflate
from ie_serving.server.transport.http1.body import BodyStream
from ie_serving.server.transport.http1.connection_states import Body
from ie_serving.server.transport.http1.messages import Request, RequestHead
from ie_serving.telemetry.request.entry import current, now
from ie_serving.wire.form import FormBody, is_form, parse_form
from ie_serving.wire.json.request import PredictBody, SlicedBody, parse_predict

MOST_INFLATED = 100 << 20
"""Most bytes of a body after decompression, as in TensorFlow Serving; a larger one is refused."""
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
GZIPPED: Mapping[bytes, int] = {b"gzip": inflate.GZIP, b"x-gzip": inflate.GZIP}
"""Accepted compressions by their names in Content-Encoding; window bits for zlib."""


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
