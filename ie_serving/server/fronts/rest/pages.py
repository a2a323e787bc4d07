"""Replies that every REST front gives alike: JSON, refusals, what OPTIONS gets.

Errors become `{"error": ...}` here and nowhere else.
"""

from ie_serving.server.status import explain, http_of
from ie_serving.server.transport.http1.messages import Buffer, Headers, Reply
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
"""The same where callers are asked who they are."""
SAME_ORIGIN = (b"cross-origin-resource-policy", b"same-origin")
"""Header of a reply that no page of another origin may have, whether or not CORS is enabled."""
JSON_REPLY: Headers = ((b"content-type", JSON.encode()),)
RETRY_LATER: Headers = (*JSON_REPLY, (b"retry-after", b"1"))
"""Of a 429: what filled the queue or the budget is mostly answered within a second."""

Page = tuple[int, str, Buffer]
"""HTTP status, content type, body."""


def failed(error: Exception) -> Page:
    """Phrase an error."""
    code, text = explain(error)
    return http_of(error, code), JSON, encode_error(text)


def typed(media_type: str) -> Headers:
    """Give the headers of a reply whose type its client has chosen.

    A browser must not take the bytes for another type, as for a page with scripts; and a picture
    (SVG) that is opened as a page must not run any.
    """
    return (
        (b"content-type", media_type.encode("latin-1", "replace")),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"sandbox"),
    )


def json_page(status: int, body: bytes) -> Page:
    """Give a page of JSON."""
    return status, JSON, body


def preflight(origin: str) -> Page:
    """Answer OPTIONS as TensorFlow Serving does, which looks at the origin's scheme alone."""
    known = "http://" in origin or "https://" in origin
    return (200 if known else 400), HTML, b""


def refusal(error: Exception) -> Reply:
    """Phrase an error as the reply to a request."""
    status, _, text = failed(error)
    return Reply(status, RETRY_LATER if status == TOO_MANY_REQUESTS else JSON_REPLY, text)
