"""An ASGI application behind the transport: a request becomes a scope and events, and back.

Source: ASGI 3.0, HTTP sub-specification 2.3. The application answers in one piece or in several,
which are sent as one when the last is there.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote

from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

Message = dict[str, Any]
"""What ASGI passes between server and application."""
AsgiApp = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class Asgi:
    """Gives requests to an ASGI application."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, request: Request) -> Reply:
        """Answer. Raises: whatever the application raises before it has replied."""
        exchange = _Exchange(request)
        try:
            await self._app(_scope(request), exchange.receive, exchange.send)
        except Exception:
            if exchange.reply is None:
                raise
            log.exception(Event("ASGI application failed after its reply"))
        if exchange.reply is None:
            raise RuntimeError("the ASGI application has returned without a reply")
        return exchange.reply


def _scope(request: Request) -> Message:
    head = request.head
    path = head.path.decode("ascii")
    client, server = request.addresses
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.version,
        "method": head.method,
        "scheme": "http",
        "path": unquote(path) if "%" in path else path,
        "raw_path": head.path,
        "query_string": head.query,
        "root_path": "",
        "headers": list(head.headers),
        "client": client,
        "server": server,
    }


class _Exchange:
    """One request and its reply, as the application sees them."""

    def __init__(self, request: Request) -> None:
        self.reply: Reply | None = None
        self._request = request
        self._asked = False  # for the body at all
        self._taken = False  # all of it
        self._start: Message = {}
        self._pieces: list[bytes] = []

    async def receive(self) -> Message:
        """Give the next event of the request.

        Where the body is still coming the first event is empty, so that an application that asks
        before it looks at the head, as Falcon does, can refuse the body unread.
        """
        if self.reply is not None:
            return {"type": "http.disconnect"}
        if self._taken:
            await asyncio.get_running_loop().create_future()  # until the client leaves: cancelled
        asked, self._asked = self._asked, True
        stream = self._request.stream
        if stream is None:
            self._taken = True
            return _event(self._request.body or b"", more=False)
        if not asked:
            return _event(b"", more=True)
        piece = await stream.piece()
        self._taken = stream.whole
        return _event(piece, more=not self._taken)

    async def send(self, message: Message) -> None:
        """Take the reply: its head, then its body in one piece or several."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        if not self._start or self.reply is not None:
            raise RuntimeError("a reply is one head and then its body")
        self._pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            headers = tuple((bytes(name), bytes(value)) for name, value in self._start["headers"])
            self.reply = Reply(self._start["status"], headers, body)


def _event(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}
