"""Pages of the REST port: what needs no model to run, refusals, and what probes are told.

Errors become `{"error": ...}` here and nowhere else.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ie_serving.core.errors import InvalidRequest
from ie_serving.server.fronts.admin.health import LIVE, READY, STARTUP, Health
from ie_serving.server.fronts.tfs.rest_routes import PING, UnknownMethod, VersionOverflow
from ie_serving.server.status import explain, http_of
from ie_serving.server.transport.http1.messages import Buffer, Headers
from ie_serving.telemetry.metrics import Metrics
from ie_serving.telemetry.text import CONTENT_TYPE
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
NOT_FOUND_PAGE = (
    b"<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    b"<H1>Not Found</H1>\n</BODY></HTML>\n"
)
"""What the HTTP library of TensorFlow Serving answers outside of `/v1/`."""


Page = tuple[int, str, Buffer]
"""HTTP status, content type, body."""


def failed(error: Exception) -> Page:
    """Phrase an error."""
    code, text = explain(error)
    return http_of(error, code), JSON, encode_error(text)


def misrouted(error: InvalidRequest) -> Page:
    """Phrase why there is no such route."""
    # TensorFlow Serving answers a version beyond 64 bits without a body.
    if isinstance(error, VersionOverflow):
        return 400, JSON, b""
    status, form, body = failed(error)
    return METHOD_NOT_ALLOWED if isinstance(error, UnknownMethod) else status, form, body


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


# By the bytes of the path as they were sent, since probes write it alike each time.
def fixed_pages(
    health: Health, metrics: Metrics, metrics_paths: Sequence[str]
) -> Mapping[bytes, Callable[[], Page | Awaitable[Page]]]:
    """Give the pages that are the same for every query, by their paths."""
    pages: dict[bytes, Callable[[], Page | Awaitable[Page]]] = {
        LIVE.encode(): lambda: json_page(*health.live_reply()),
        READY.encode(): lambda: json_page(*health.ready_reply()),
        STARTUP.encode(): lambda: json_page(*health.startup_reply()),
        # Amazon SageMaker sends requests as soon as it has answered 200.
        PING.encode(): lambda: json_page(*health.ready_reply()),
    }
    for path in metrics_paths:
        pages[path.encode()] = lambda: _metrics_page(metrics)
    return pages


async def _metrics_page(metrics: Metrics) -> Page:
    return 200, CONTENT_TYPE, await metrics.page()
