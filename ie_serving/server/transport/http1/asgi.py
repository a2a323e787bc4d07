"""Runs an ASGI application behind the transport: turns a request into a scope and events, and back.

Source: ASGI 3.0, HTTP sub-specification 2.3. The application may send its reply in several pieces;
the transport sends them as one when the last has come.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

from ie_serving.server.transport.http1.body import BodyStream
from ie_serving.server.transport.http1.connection_states import Body
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

Message = dict[str, Any]
"""Message between ASGI server and application."""
AsgiApp = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class Asgi:
    """Passes requests to an ASGI application."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, request: Request) -> Reply:
        """Answer. Raises: any error that the application raises before it has replied."""
        exchange = _Exchange(request)
        try:
            await self._app(_scope(request), exchange.receive, exchange.send)
        except Exception:
            if exchange.reply is None:
                raise
            # The reply is complete, and the client has done nothing wrong: it gets the reply.
            log.exception(Event("ASGI application failed after its reply"))
        if exchange.reply is None:
            raise RuntimeError("the ASGI application has returned without a reply")
        return exchange.reply


def _scope(request: Request) -> Message:
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


class BodyRead(enum.Enum):
    """How much of its request's body the application has received."""

    NOTHING = "it has not asked yet"
    SOME = "more is to come"
    ALL = "a further `receive` waits for the client to leave"


class ReplySent(enum.Enum):
    """How much of its reply the application has sent."""

    NOTHING = "the head is next"
    HEAD = "the body is next, in one piece or several"
    ALL = "nothing may follow"


class _Exchange:
    """One request and its reply, as the application sees them.

    Attributes:
        reply: None until the application has sent all of it.
    """

    def __init__(self, request: Request) -> None:
        self.reply: Reply | None = None
        self._request = request
        self._asked = BodyRead.NOTHING
        self._answered = ReplySent.NOTHING
        self._start: Message = {}
        self._pieces: list[bytes] = []

    async def receive(self) -> Message:
        """Return the next event of the request.

        If the body is still arriving, the first event is empty, so that an application that
        receives before it checks the head, as Falcon does, can refuse the body unread.
        """
        if self._answered is ReplySent.ALL:
            return {"type": "http.disconnect"}
        stream = self._request.stream
        if self._asked is BodyRead.ALL:
            await asyncio.get_running_loop().create_future()  # cancelled when the client leaves
        if stream is None:
            self._asked = BodyRead.ALL
            return _event(self._request.body or b"", more=False)
        if self._asked is BodyRead.NOTHING:
            self._asked = BodyRead.SOME
            return _event(b"", more=True)
        return await self._piece(stream)

    async def _piece(self, stream: BodyStream) -> Message:
        piece = await stream.piece()
        more = stream.state is not Body.WHOLE
        self._asked = BodyRead.SOME if more else BodyRead.ALL
        return _event(piece, more=more)

    async def send(self, message: Message) -> None:
        """Accept the reply: its head, then its body in one piece or several."""
        expected = _TAKEN_IN.get(message["type"])
        if self._answered is not expected:
            raise RuntimeError("a reply is one head and then its body")
        if expected is ReplySent.NOTHING:
            self._start = message
            self._answered = ReplySent.HEAD
            return
        self._pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            self._answered = ReplySent.ALL
            self.reply = _reply(self._start, self._pieces)


_TAKEN_IN: Final[Mapping[str, ReplySent]] = {
    "http.response.start": ReplySent.NOTHING,
    "http.response.body": ReplySent.HEAD,
}
"""The state in which each event of a reply is permitted."""


def _reply(start: Message, pieces: list[bytes]) -> Reply:
    headers = tuple((bytes(name), bytes(value)) for name, value in start["headers"])
    return Reply(start["status"], headers, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _event(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}
