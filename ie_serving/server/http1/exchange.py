"""One request and its reply, as the ASGI application sees them."""

import asyncio
from typing import Any, Final, Protocol

from ie_serving.server.http1.heads import CONTINUE, Head, head

Message = dict[str, Any]
"""What ASGI passes between server and application."""

BODY: Final = "ie_serving.body"
"""ASGI extension: the whole body as bytes, for requests whose body came before the application was
called. Such a body can also be read as ASGI has it."""
GATHERED: Final = 64 * 1024
"""A body of up to so many bytes is gathered before the application is called, so that reading it
never waits; a larger one the application reads as it comes, or refuses by its head."""
MOST_UNREAD: Final = 256 * 1024
"""Bytes of a body that may wait for the application before the client has to."""


class Link(Protocol):
    """What an exchange needs of its connection."""

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""

    def reply(self, exchange: "Exchange", head: Head, body: bytes) -> None:
        """Send the whole reply. Raises: ValueError, the body is not as long as the head says."""

    def balance(self) -> None:
        """Read on, or let the client wait, by what is unread now."""


class Exchange:
    """A request, complete or still coming, and whether it was answered.

    Attributes:
        scope: ASGI's, for HTTP.
        whole: the body has come to its end.
        replied: the reply was handed to the connection.
        keep_alive: the connection goes on after this exchange.
        offered: it has a place in the connection's queue, or had it.
        task: goes on with the application where it had to wait.
        unread: bytes of the body that the application has not taken.
    """

    __slots__ = (
        "_begun",
        "_expects",
        "_link",
        "_news",
        "_over",
        "_parts",
        "_start",
        "_taken",
        "keep_alive",
        "offered",
        "replied",
        "scope",
        "task",
        "unread",
        "whole",
    )

    def __init__(self, link: Link, scope: Message, *, keep_alive: bool, expects: bool) -> None:
        self._link = link
        self._expects = expects
        self._parts: list[bytes] = []
        self._begun = False
        self._over = False
        self._taken = False
        self._news: asyncio.Future[None] | None = None
        self._start: Message | None = None
        self.scope = scope
        self.keep_alive = keep_alive
        self.offered = False
        self.whole = False
        self.replied = False
        self.task: asyncio.Task[None] | None = None
        self.unread = 0

    # -- from the connection ---------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take a piece of the body; nobody wants it after the reply."""
        if self.replied:
            return
        self._parts.append(data)
        self.unread += len(data)
        self._tell()

    def end(self) -> None:
        """Note that the body is complete."""
        self.whole = True
        self._tell()

    def gather(self) -> None:
        """Make one piece of a body that is complete before the application is called."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = [body]
        self.scope["extensions"] = {BODY: body}
        self._begun = True

    def leave(self) -> None:
        """Note that the client has gone, and cancel what still works for it."""
        self._over = True
        self._parts.clear()
        self._tell()
        if self.task:
            self.task.cancel()

    # -- from the application --------------------------------------------------------------------

    async def receive(self) -> Message:
        """Give the next event of the request. See ASGI.

        Where the body is still coming the first event is empty, so that an application that asks
        before it looks at the head, as Falcon does, can refuse the body unread.
        """
        if not self._begun:
            self._begun = True
            return {"type": "http.request", "body": b"", "more_body": True}
        if self._expects and not self.whole:
            self._link.write(CONTINUE)
        self._expects = False
        while not (self._parts or self._over or (self.whole and not self._taken)):
            await self._change()
        return {"type": "http.disconnect"} if self._over else self._take()

    async def send(self, message: Message) -> None:
        """Take the reply: its head, then its body in one piece or several. See ASGI."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is None or self.replied:
            raise RuntimeError("a reply is one head and then its body")
        body = message.get("body", b"")
        if message.get("more_body"):
            self._start.setdefault("pieces", []).append(body)
            return
        start = self._start
        if "pieces" in start:
            body = b"".join((*start["pieces"], body))
        written = head(start["status"], tuple(start["headers"]))
        self._link.reply(self, written, body)
        self.replied = self._over = True
        self._parts.clear()
        self.unread = 0

    def _take(self) -> Message:
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._taken = self.whole
        self.unread = 0
        if not self.whole:
            self._link.balance()
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    async def _change(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)
