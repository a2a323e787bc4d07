"""Pages of TensorFlow Serving's REST port that run no model, and replies to probes.

`FalconPages` runs Falcon behind the transport to answer them. No page reads a body, and Falcon
sends each reply as one head and one body. Source: ASGI 3.0, HTTP sub-specification 2.3.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.server.fronts.admin.health import LIVE, READY, STARTUP, Health
from ie_serving.server.fronts.rest.replies import (
    JSON,
    JSON_REPLY,
    METHOD_NOT_ALLOWED,
    Page,
    json_page,
    refusal,
)
from ie_serving.server.fronts.tfs.rest_routes import PING, UnknownMethod, VersionOverflow
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.telemetry.metrics.page import Metrics
from ie_serving.telemetry.metrics.text import CONTENT_TYPE, chosen

if TYPE_CHECKING:
    import falcon.asgi

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
    if families:
        page = await asyncio.to_thread(chosen, bytes(page), families)
    return 200, CONTENT_TYPE, page


FalconApp: TypeAlias = "falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response]"
Message = dict[str, Any]
"""Message between ASGI server and application."""
Sink = Callable[..., Coroutine[Any, Any, None]]
"""Answers a request of Falcon's, `req`, by changing its `resp`."""


class FalconPages:
    """Answers requests by `sink`; Falcon is imported with the first of them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._app: FalconApp | None = None
        self._importing = asyncio.Lock()

    async def __call__(self, request: Request) -> Reply:
        """Answer. Raises: any error that the application raises."""
        app = self._app or await self._imported()
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await app(scope_of(request), receive, send)
        start, body = sent
        headers = tuple((bytes(name), bytes(value)) for name, value in start["headers"])
        return Reply(start["status"], headers, body.get("body", b""))

    async def _imported(self) -> FalconApp:
        async with self._importing:
            if self._app is None:
                self._app = await in_thread(self._falcon_app)
        return self._app

    def _falcon_app(self) -> FalconApp:
        # Imported on first use: it takes some 50 ms, an eighth of the time of a start.
        import falcon.asgi

        app: FalconApp = falcon.asgi.App(media_type=JSON)
        app.add_sink(self._sink, prefix="/")
        return app


def scope_of(request: Request) -> Message:
    """Describe a request as ASGI does."""
    head = request.head
    path = head.path.decode("ascii")
    client, server, _ = request.ends
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.version,
        "method": head.method,
        "scheme": "http",
        # `path` is decoded, as ASGI demands; `raw_path` still tells "%2F" from "/".
        "path": unquote(path) if "%" in path else path,
        "raw_path": head.path,
        "query_string": head.query,
        "root_path": "",
        "headers": list(head.headers),
        "client": client,
        "server": server,
    }
