"""A request's body that arrives in pieces, between the reading connection and the application."""

import asyncio
import enum
from typing import Final, Protocol, TypeAlias

from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.states import after
from ie_serving.core.values.errors import ServingError
from ie_serving.server.transport.filling import Filling, is_worth
from ie_serving.server.transport.http1.connection_states import BODY, Body, BodyEvent

MOST_UNREAD: Final = 256 * 1024
"""Bytes of a body that may wait for the application; beyond it the socket is not read, so that the
client waits. Enough for the application to work while the next piece arrives."""

Octets: TypeAlias = bytes | bytearray | memoryview
STEP: Final = 1 << 18
"""Bytes by which the count of held data runs ahead of the received bytes."""
SMALL_PIECE: Final = 1024
"""Bytes below which a piece is joined to the previous one: chunks of two bytes would take twenty
times their size."""
LARGEST_JOINED: Final = 1 << 16
"""Bytes up to which small pieces are joined: longer joined pieces would be copied as they grow."""


class BodySource(Protocol):
    """The part of a connection that a body uses."""

    def allow_body(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends the body."""

    def balance(self) -> None:
        """Continue or pause reading, depending on the number of unread bytes."""

    def read_to(self, filling: Filling) -> None:
        """From now on read straight to that memory, if the transport can."""

    def read_pieces(self) -> None:
        """Read pieces again."""


class ReaderWait(enum.Enum):
    """What the reader of a body waits for."""

    PIECES = "each piece as soon as it comes; one that comes while no reader waits is unread"
    REST = "all that is to come, as one, up to a limit"


class BodyStream:
    """The pieces of one body. Belongs to one event loop.

    Received bytes that were not taken are counted in the budget. If the budget refuses them nothing
    is kept, and the reader gets the refusal.

    Attributes:
        state: state of its missing part; see `states.Body`.
        unread: bytes that were received and not taken.
    """

    __slots__ = (
        *("_filling", "_held", "_lease", "_news", "_parts", "_refused", "_room", "_source"),
        "_wanted",
        *("state", "unread"),
    )

    def __init__(self, source: BodySource, *, client_waits: bool) -> None:
        self._source = source
        self._parts: list[Octets] = []
        self._filling: Filling | None = None  # of a reader that wants the whole body
        self._held = 0
        self._lease = Lease(BUDGET)
        self._refused: ServingError | None = None
        self._wanted = ReaderWait.PIECES
        self._room = 0  # bytes that a reader of the rest still takes
        self._news: asyncio.Future[None] | None = None  # awaited by a reader
        self.state = Body.HELD_BACK if client_waits else Body.COMING
        self.unread = 0

    async def piece(self) -> bytes:
        """Return the bytes received since the last call, or wait for some; empty at the end.

        If the body breaks off, this waits for ever: the connection then cancels the reader.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent.
        """
        self._ask()
        while not self._parts and self.state is not Body.WHOLE and not self._refused:
            await self._change()
        return self._take_parts()

    async def rest(self, limit: int) -> bytes:
        """Return the rest of the body at once; if it breaks off, see `piece`.

        The reader is woken once, instead of for each of the dozens of pieces of a body of some MB:
        each wake-up costs a turn of the event loop.

        Args:
            limit: bytes; if more arrive, they are returned, and the body is not read further.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent.
        """
        self._ask()
        self._room = limit - self.unread
        self._wanted = ReaderWait.REST
        self.unread = 0  # a reader takes all of it, so the client need not wait
        if self.state is not Body.WHOLE:
            self._source.balance()
        await self._until_enough()
        return self._take_parts()

    async def whole(self, length: int) -> memoryview:
        """Return the whole body. No piece was read before. If the body breaks off, see `piece`.

        It is copied once, to memory that keeps its count in the budget as long as it is used.

        Args:
            length: length that the head has announced.

        Raises:
            QueueFull, RequestTooLarge: the byte budget is spent.
        """
        self._ask()
        filling = Filling(length)
        for part in self._parts:
            filling.add(part)
        self._forget()
        self._filling = filling
        self._room = length
        self._wanted = ReaderWait.REST
        if self.state is not Body.WHOLE:
            self._source.balance()
            self._read_directly(filling)
        await self._until_enough()
        if self._refused:
            raise self._refused
        return filling.taken()

    async def _until_enough(self) -> None:
        try:
            while self._room >= 0 and self.state is not Body.WHOLE and not self._refused:
                await self._change()
        finally:
            # A cancelled reader leaves the same state: the next one lets the client wait again.
            self._wanted = ReaderWait.PIECES
            if self._filling:
                self._filling = None
                self._source.read_pieces()

    def feed(self, data: bytes | memoryview) -> None:
        """Add a received piece."""
        if self._refused:
            return
        if self._filling:
            try:
                self._filling.add(data)
            except ServingError as error:
                self._refuse(error)
            else:
                self._read_directly(self._filling)
            return
        self._keep(data)
        if self._refused:
            return
        if self._wanted is ReaderWait.PIECES:
            self.unread += len(data)
            self._wake()
            return
        self._room -= len(data)
        if self._room < 0:
            self._wake()

    def came(self, count: int) -> None:
        """Record bytes that were read straight to their memory."""
        if self._filling:
            self._filling.came(count)
            self._reserve(self._filling)

    def _read_directly(self, filling: Filling) -> None:
        if is_worth(filling) and self._reserve(filling):
            self._source.read_to(filling)

    def _reserve(self, filling: Filling) -> bool:
        try:
            filling.reserve()
        except ServingError as error:
            self._refuse(error)
            return False
        return True

    def end(self) -> None:
        """Record that the body is complete."""
        self._move(BodyEvent.END)
        self._wake()

    def break_off(self) -> None:
        """Record that no more will arrive."""
        self._move(BodyEvent.BREAK)
        self._forget()

    def _move(self, event: BodyEvent) -> None:
        self.state = after(BODY, self.state, event)

    def _ask(self) -> None:
        """Send 100 Continue to a client that waits for it, once."""
        if self.state is Body.HELD_BACK:
            self._move(BodyEvent.ASKED_FOR)
            self._source.allow_body()

    def _keep(self, data: bytes | memoryview) -> None:
        self._held += len(data)
        if self._held > self._lease.size:
            try:
                self._lease.take(self._held + STEP - self._lease.size)
            except ServingError as error:
                self._refuse(error)
                return
        join(self._parts, data)

    def _refuse(self, error: ServingError) -> None:
        self._refused = error
        self._source.read_pieces()
        self._forget()
        self._wake()

    def _forget(self) -> None:
        self._parts.clear()
        self._filling = None
        self._held = self.unread = 0
        self._lease.release()

    def _take_parts(self) -> bytes:
        if self._refused:
            raise self._refused
        data = bytes(self._parts[0]) if len(self._parts) == 1 else b"".join(self._parts)
        self._forget()
        if self.state is not Body.WHOLE:
            self._source.balance()
        return data

    async def _change(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _wake(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)


def join(parts: list[Octets], data: bytes | memoryview) -> None:
    """Append a piece; join small ones."""
    last = parts[-1] if parts and len(data) < SMALL_PIECE else None
    if isinstance(last, bytearray) and len(last) < LARGEST_JOINED:
        last += data
    else:
        parts.append(data if last is None else bytearray(data))
