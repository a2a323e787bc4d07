"""A request's body that comes in pieces, between the connection that reads and the application."""

import asyncio
from typing import Final, Protocol

MOST_UNREAD: Final = 256 * 1024
"""Bytes of a body that may wait for the application. Beyond it the socket is not read, so that the
client waits; enough for the application to go on while the next piece is on its way."""


class Source(Protocol):
    """What a body needs of its connection."""

    def allow_body(self) -> None:
        """Tell a client that waits for it to send the body."""

    def balance(self) -> None:
        """Read on, or let the client wait, by what is unread now."""


class Stream:
    """The pieces of one body. Belongs to one event loop.

    Attributes:
        unread: bytes that have come and were not taken.
        whole: the body has come to its end.
        broken: it never will: the client has left, or what it sends is wrong.
    """

    __slots__ = ("_news", "_parts", "_room", "_source", "_waits", "broken", "unread", "whole")

    def __init__(self, source: Source, *, client_waits: bool) -> None:
        self._source = source
        self._parts: list[bytes] = []
        self._room: int | None = None  # bytes that `rest` still takes, while it waits
        self._news: asyncio.Future[None] | None = None
        self._waits = client_waits
        self.unread = 0
        self.whole = False
        self.broken = False

    async def piece(self) -> bytes:
        """Give what has come since the last call, waiting for some; empty at the end.

        Who reads a body that breaks off is cancelled by the connection, so nobody is told here.
        """
        self._allow()
        while not self._parts and (self.broken or not self.whole):
            await self._change()
        return self._taken()

    async def rest(self, limit: int) -> bytes:
        """Give the rest of the body at once.

        The reader is woken once, and not for each of the dozens of pieces in which a body of some
        MB comes: each time costs a turn of the event loop.

        Args:
            limit: bytes; when more have come, they are given, and the body is not read further.
        """
        self._allow()
        self._room = limit - self.unread
        self.unread = 0  # it is wanted, so the client need not wait
        if not self.whole:
            self._source.balance()
        try:
            while self._room >= 0 and (self.broken or not self.whole):
                await self._change()
        finally:
            self._room = None  # whoever comes after a cancelled reader lets the client wait again
        return self._taken()

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        self._parts.append(data)
        if self._room is None:
            self.unread += len(data)
            self._tell()
            return
        self._room -= len(data)
        if self._room < 0:
            self._tell()

    def end(self) -> None:
        """Take note that the body is complete."""
        self.whole = True
        self._tell()

    def break_off(self) -> None:
        """Take note that no more will come."""
        self.broken = True
        self._parts.clear()
        self.unread = 0

    def _allow(self) -> None:
        """Tell a client that waits for it to send the body, once."""
        if self._waits and not self.whole:
            self._source.allow_body()
        self._waits = False

    def _taken(self) -> bytes:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.unread = 0
        if not self.whole:
            self._source.balance()
        return data

    async def _change(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)
