"""Pages of TensorFlow Serving's REST port that run no model, and replies to probes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.server.fronts.admin.health import LIVE, READY, STARTUP, Health
from ie_serving.server.fronts.rest.body import (
    JSON_REPLY,
    METHOD_NOT_ALLOWED,
    Page,
    json_page,
    refusal,
)
from ie_serving.server.fronts.tfs.rest_routes import PING, UnknownMethod, VersionOverflow
from ie_serving.server.transport.http1.messages import Reply
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.text import CONTENT_TYPE, chosen

NOT_FOUND_PAGE = (
    b"<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    b"<H1>Not Found</H1>\n</BODY></HTML>\n"
)
"""Reply of TensorFlow Serving's HTTP library to paths outside of `/v1/`."""


def misrouted(error: InvalidRequest) -> Reply:
    """Make the reply to a target that matches no route."""
    # TensorFlow Serving answers a version beyond 64 bits without a body.
    if isinstance(error, VersionOverflow):
        return Reply(400, JSON_REPLY, b"")
    reply = refusal(error)
    wrong = isinstance(error, UnknownMethod)
    return reply._replace(status=METHOD_NOT_ALLOWED) if wrong else reply


# Keyed by the raw bytes of the path: probes send the same bytes each time.
def fixed_pages(
    health: Health, metrics: Metrics, metrics_pages: Mapping[str, tuple[str, ...]]
) -> Mapping[bytes, Callable[[], Page | Awaitable[Page]]]:
    """Return the pages that do not depend on the query, by path."""
    pages: dict[bytes, Callable[[], Page | Awaitable[Page]]] = {
        LIVE.encode(): lambda: json_page(*health.live_reply()),
        READY.encode(): lambda: json_page(*health.ready_reply()),
        STARTUP.encode(): lambda: json_page(*health.startup_reply()),
        # Amazon SageMaker sends requests as soon as `/ping` has answered 200.
        PING.encode(): lambda: json_page(*health.ready_reply()),
    }
    for path, families in metrics_pages.items():
        pages[path.encode()] = partial(_metrics_page, metrics, families)
    return pages


async def _metrics_page(metrics: Metrics, families: tuple[str, ...]) -> Page:
    page = await metrics.page()
    return (
        200,
        CONTENT_TYPE,
        await asyncio.to_thread(chosen, bytes(page), families) if families else page,
    )
