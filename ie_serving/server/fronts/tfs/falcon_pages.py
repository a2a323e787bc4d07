"""Runs Falcon behind the transport, for the requests that run no model: pages and errors.

Source: ASGI 3.0, HTTP sub-specification 2.3. No page reads a body, and Falcon sends each reply as
one head and one body.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from ie_serving.core.runtime.threads import in_thread
from ie_serving.server.fronts.rest.body import JSON
from ie_serving.server.transport.http1.messages import Reply, Request

if TYPE_CHECKING:
    import falcon.asgi

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
                self._app = await in_thread(self._made)
        return self._app

    def _made(self) -> FalconApp:
        # Here: its import takes some 50 ms, an eighth of a start's, which is not to wait for it.
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
