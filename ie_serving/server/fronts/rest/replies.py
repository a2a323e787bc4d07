"""Replies of REST: pages of JSON, errors, answers to OPTIONS, and compression.

Only this module turns errors into `{"error": ...}`.
"""

import asyncio
import gzip

from ie_serving.core.values.errors import WHOLE, NotLoaded
from ie_serving.server.status import explain, http_of, in_header
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Headers, Reply, RequestHead
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

SMALLEST_COMPRESSED = 1024
"""Bytes of the smallest reply that is compressed. A smaller one fits one network packet (1,460
bytes) anyway, so compression would cost some 50 us of processor time for nothing."""
LARGE = 16 * 1024
"""Bytes of a reply from which a thread compresses it: at 45 ns a byte, compression would block the
event loop for 1 ms."""
FASTEST = 1
"""zlib's compression level. The default, 6, makes JSON of numbers 5 % smaller and takes four to
eight times as long."""
GZIP: Headers = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


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


def _takes_gzip(head: RequestHead) -> bool:
    for offer in head.fields.get(b"accept-encoding", b"").decode("latin-1").split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
