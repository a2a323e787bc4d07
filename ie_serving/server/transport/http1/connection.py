"""One client's connection: the driver around the protocol.

It owns the socket, and decides the order and the pace of reading and writing. The protocol parses
bytes, and knows which messages are permitted.

- One request is answered at a time. While requests wait behind it, nothing more is read, so that
  their client waits as well.
- The application is called inside the callback that received the last byte, and becomes a task only
  when it waits; a wait for its batch needs no task either.
- After a fault, the requests before it are still answered; then the fault, and the end.
- A client that closes its sending side right after a request, as `nc -N` does, gets its reply. One
  that closes it later counts as gone, as in nginx and Go's server: its request is cancelled.
- The rest of a body that the application does not read is dropped; if it is long, or the client
  withholds it, the connection ends with the reply.
- After a refusal, received data is dropped for a while, so that the client can read the refusal.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from ie_serving.core.runtime.eager_start import UnfinishedWork, begin_unawaited
from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.filling import DirectReads, Filling, set_protocol
from ie_serving.server.transport.http1 import protocol
from ie_serving.server.transport.http1.body import MOST_UNREAD, BodyStream, Octets
from ie_serving.server.transport.http1.connection_states import (
    ENDING,
    HEAD,
    IDLE,
    OPEN,
    SENDING,
    Body,
    Reader,
    Writer,
)
from ie_serving.server.transport.http1.faults import DEFECT, FAILED, STOPPING
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.messages import (
    CONTINUE,
    Address,
    AnyReply,
    App,
    BodyFault,
    BodyPart,
    Endpoints,
    Fault,
    HttpEvent,
    ProtocolSwitch,
    Request,
    RequestHead,
)
from ie_serving.server.transport.http1.outbox import MOST_DROPPED, Outbox, linger
from ie_serving.server.transport.peer import client_address, client_names, has_left
from ie_serving.telemetry.log import logs

if TYPE_CHECKING:
    from ie_serving.server.transport.http1.channel import Channel

log = logging.getLogger(__name__)

INPUT_END_S: Final = 0.25
"""Seconds after the last byte of a request within which the end of the client's data belongs to the
request. A client that closes its connection looks the same, but has mostly waited longer."""
LONGEST_PATH: Final = 200
"""Characters of a request's path that the line of a defect has."""
SEALED: Final = 64 * 1024
"""Bytes of a large reply that TLS is given at a time. A whole reply at once would be encrypted at
1 MB per ms of the event loop, and its copy, which the budget does not count, would stay in memory
for a client that may never read. It is also the most that may wait within TLS before a reply waits
for its client: with uvloop's 512 KB an idle reader held 900 KB uncounted, with this 300 KB."""


class ConnectionServer(Protocol):
    """The part of the server that a connection uses.

    Attributes:
        app: answers requests.
        draining: every connection ends with its next reply.
        outbox: takes small replies.
        busy_poll: notified of each arrival; has the time.
        known_heads: heads that were parsed on any connection.
    """

    app: App
    draining: bool
    outbox: Outbox
    busy_poll: BusyPoll
    known_heads: KnownHeads

    def opened(self, connection: "Http1Connection") -> None:
        """Record that a connection is open."""

    def closed(self, connection: "Http1Connection") -> None:
        """Record that a connection is lost."""


class Http1Connection(asyncio.Protocol):
    """Carries HTTP/1.0 and 1.1 over one transport."""

    def __init__(self, server: ConnectionServer) -> None:
        self._server = server
        self._protocol = protocol.Protocol(server.known_heads)
        self._transport: asyncio.Transport
        self._waiting: deque[Request] = deque()
        self._answering: Request | None = None
        self._task: UnfinishedWork | None = None
        self._coming: BodyStream | None = None  # the body that is read, unless it is dropped
        self._fault: Fault | None = None  # answered after all waiting requests
        self._direct = False  # whether a body is read straight to its memory
        self._seals = False  # whether the connection uses TLS
        self._room: asyncio.Future[None] | None = None  # awaited by a reply until there is room
        self._heard = server.busy_poll.now()
        self._head_began = self._heard
        # Bytes that wait for the client, and since when their number has not changed.
        self._unsent = (0, self._heard)

    # -- from the transport ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        addresses = (_address(transport, "peername"), _address(transport, "sockname"))
        self._protocol.ends = Endpoints(*addresses, client_names(transport))
        self._seals = transport.get_extra_info("ssl_object") is not None
        if self._seals:
            self._transport.set_write_buffer_limits(high=SEALED)
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Parse received data, and start the requests that are complete."""
        self._heard = self._server.busy_poll.arrived()
        was = self._protocol.reader
        events = self._protocol.receive(data)
        if (
            len(events) == 1
            and type(request := events[0]) is Request
            and request.body is not None
            and not (self._answering or self._waiting)
            and self._protocol.writer is OPEN
            and self._protocol.reader is IDLE
        ):  # the usual case: as below, with fewer calls
            self._answering = request
            if task := begin_unawaited(self._answer(request)):
                self._task = task
            return
        for event in events:
            if type(event) is Request and event.body is not None:
                self._waiting.append(event)
            else:
                self._take(event)
        if self._protocol.reader is HEAD and (was is not HEAD or events):
            self._head_began = self._heard
        self._proceed()
        if self._waiting:
            self.balance()

    def eof_received(self) -> bool:
        """Write held replies; return whether the transport stays open for further ones."""
        self._server.outbox.flush()
        if self._seals:  # TLS ends in both directions together
            return False
        at_once = self._server.busy_poll.now() - self._heard <= INPUT_END_S
        return at_once and self._protocol.input_closed()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel all work for the client."""
        self._direct = False
        self._protocol.forget()
        self._waiting.clear()
        self._break_off()
        self.cancel()
        self._server.closed(self)

    def pause_writing(self) -> None:
        """Answer no more until the client has read."""
        self._protocol.filled()
        if self._seals:
            self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Continue to answer: the client has read some data."""
        self._protocol.emptied()
        # Reset: with replies in pieces over TLS, the same number of bytes soon waits again.
        self._unsent = (0, self._unsent[1])
        room, self._room = self._room, None
        if room and not room.done():
            room.set_result(None)
        self._proceed_and_balance()

    # -- from a body -----------------------------------------------------------------------------

    def allow_body(self) -> None:
        """See `body.BodySource`."""
        if self._protocol.writer in SENDING:
            self._server.outbox.send(self._transport, *self._protocol.send(CONTINUE))

    def balance(self) -> None:
        """Stop reading while requests wait, or while the application leaves a body unread.

        Before reading on, process data that was read but not parsed.
        """
        if self._protocol.writer is Writer.CLOSED:
            return
        coming, reading = self._coming, self._transport.is_reading()
        if self._waiting or (coming is not None and coming.unread > MOST_UNREAD):
            if reading:
                self._transport.pause_reading()
        elif not reading:
            self._heard = self._server.busy_poll.now()
            if self._protocol.rest:
                asyncio.get_running_loop().call_soon(self._read_on)
                return
            self._protocol.settle()
            self._transport.resume_reading()

    def read_to(self, filling: Filling) -> None:
        """See `body.BodySource`. Not over TLS, nor before what was read is parsed."""
        ready = not (self._direct or self._seals or self._waiting or self._protocol.rest)
        if ready and self._transport.is_reading():
            self._direct = True
            set_protocol(
                self._transport,
                DirectReads(self, lambda: filling.room, self._read_directly),
            )

    def read_pieces(self) -> None:
        """See `body.BodySource`."""
        if self._direct:
            self._direct = False
            if not self._transport.is_closing():
                set_protocol(self._transport, self)

    # -- from the server -------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Number of received requests that are not answered yet."""
        return len(self._waiting) + (self._answering is not None)

    def end_if_idle(self) -> None:
        """Close, unless a request is being read or answered: then its reply closes."""
        reading = self._protocol.reader not in (Reader.IDLE, Reader.CLOSED)
        waits = self._waiting or self._protocol.rest
        if not (reading or self._answering or waits or self._fault):
            self._end()

    def idle_since(self) -> float | None:
        """See `connection_limit.LimitedConnection`; an incomplete request does not count."""
        busy = self._answering or self._waiting or self._fault or self._protocol.rest
        return None if busy or self._protocol.writer is Writer.CLOSED else self._heard

    def address(self) -> str | None:
        """See `connection_limit.LimitedConnection`."""
        return client_address(self._transport)

    def end_idle(self) -> None:
        """See `connection_limit.LimitedConnection`."""
        self._end()

    def cancel(self) -> None:
        """Cancel the present request; its client gets an error."""
        if self._task:
            self._task.cancel()

    def abort(self) -> None:
        """Close at once, without a closing message."""
        self._transport.abort()

    def end_if_late(self, now: float, patience_s: float) -> None:
        """Close if the client has kept the server waiting for more than `patience_s`.

        This covers the time between requests, from the first to the last byte of a head, between
        two pieces of a body, and while the client reads nothing of a reply. While the connection is
        not read, the event loop does not report that the client has left; it is closed here then.
        """
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent[0] or not unsent:
            self._unsent = (unsent, now)
        if unsent:
            if now - self._unsent[1] > patience_s:
                self.abort()
            return
        if not self._transport.is_reading():
            if has_left(self._transport, once_silent=self._protocol.writer is Writer.SWITCHED):
                self.abort()
            return  # the client waits for the server
        if self._answering and not self._coming:
            return  # this client as well
        since = self._head_began if self._protocol.reader is Reader.HEAD else self._heard
        if now - since > patience_s:
            self._end()

    # -- inside ----------------------------------------------------------------------------------

    def _take(self, event: HttpEvent) -> None:
        """Handle any event other than the usual one, a complete request."""
        if isinstance(event, Request):
            self._coming = BodyStream(self, client_waits=event.head.expects)
            self._waiting.append(event._replace(stream=self._coming))
        elif isinstance(event, BodyPart):
            if self._coming:
                self._coming.feed(event.data)
                self.balance()
        elif isinstance(event, Fault):
            self._fault = event
            self._break_off()
        elif isinstance(event, BodyFault):
            self._end()
        elif self._coming:
            self._coming.end()
            self._coming = None

    def _read_directly(self, count: int) -> None:
        """Go on after `count` bytes of the body have come."""
        self._heard = self._server.busy_poll.arrived()
        events = self._protocol.passed(count)
        if events:
            self.read_pieces()
        if self._coming:
            self._coming.came(count)
        for event in events:
            self._take(event)

    def _break_off(self) -> None:
        """Drop the request whose body will never be complete."""
        coming, self._coming = self._coming, None
        if coming is None:
            return
        coming.break_off()
        if self._waiting and self._waiting[-1].stream is coming:
            self._waiting.pop()
        else:
            self.cancel()

    def _proceed(self) -> None:
        """Start the next request: one at a time, and one in each turn of the loop."""
        writer = self._protocol.writer
        if self._answering or (writer is not OPEN and writer is not ENDING):
            return
        if self._waiting:
            request = self._waiting.popleft()
            self._answering = request
            task = begin_unawaited(self._answer(request))
            if task:  # else the request has ended, or another protocol has begun (`_switch`)
                self._task = task
        elif self._fault:
            self._give_up(self._fault)

    def _proceed_and_balance(self) -> None:
        self._proceed()
        self.balance()

    def _read_on(self) -> None:
        """Parse data that was read behind waiting requests."""
        if self._protocol.rest and not self._waiting:
            self.data_received(b"")
        self.balance()

    async def _answer(self, request: Request) -> None:
        try:
            reply = await self._server.app(request)
            stream = request.stream
            if self._protocol.writer not in SENDING or (stream and stream.state is Body.BROKEN):
                raise asyncio.CancelledError  # the application has suppressed its cancellation
            last = self._server.draining or (stream is not None and _is_left(request.head, stream))
            pieces = self._protocol.send(reply, last=last)
        except asyncio.CancelledError:  # not re-raised: no code awaits this task
            self._give_up(STOPPING if self._server.draining else DEFECT)
            return
        except Exception:
            self._log_defect()
            self._give_up(DEFECT)
            return
        if len(pieces) == 1:
            self._server.outbox.send(self._transport, pieces[0])
        else:
            self._server.outbox.flush()
            if not self._seals:
                self._transport.writelines(pieces)
            elif not await self._sealed(pieces):
                return
        self._answering = self._task = None
        if stream or self._waiting or self._fault or self._protocol.writer is not OPEN:
            self._go_on(request, reply)

    async def _sealed(self, pieces: Sequence[Octets]) -> bool:
        """Write over TLS at the pace of the client: unread data stays counted.

        Returns:
            Whether all is written. If this is cancelled the connection is closed: half a reply is
            no reply.
        """
        try:
            for piece in pieces:
                for start in range(0, len(piece), SEALED):
                    self._transport.write(memoryview(piece)[start : start + SEALED])
                    await (self._room or asyncio.sleep(0))  # lets other tasks run
        except asyncio.CancelledError:  # not re-raised: no code awaits this task
            self._transport.abort()
            return False
        return True

    def _go_on(self, request: Request, reply: AnyReply) -> None:
        """Handle the rare work after a reply; not called if there is none."""
        if isinstance(reply, ProtocolSwitch) and self._protocol.writer is Writer.SWITCHED:
            self._switch(request, reply)
            return
        unfinished = request.stream is not None and request.stream.state is not Body.WHOLE
        if unfinished:
            self._coming = None  # the rest of its body is not wanted
        if self._protocol.writer is Writer.LAST:
            self._end(lingers=unfinished)
            return
        if self._waiting or self._fault:
            asyncio.get_running_loop().call_soon(self._proceed_and_balance)
        self.balance()

    def _switch(self, request: Request, switch: ProtocolSwitch) -> None:
        """Switch to another protocol; the request counts as in flight until that ends."""
        from ie_serving.server.transport.http1.channel import Channel

        # Data behind the request is HTTP of a client that does not know of the switch: refuse.
        if self._waiting or self._fault or self._protocol.rest:
            self._end()
            return
        self._answering = request
        self._server.outbox.flush()
        channel = Channel(self._transport, self.connection_lost)
        self._task = asyncio.get_running_loop().create_task(self._speak(switch, channel))

    async def _speak(self, switch: ProtocolSwitch, channel: "Channel") -> None:
        try:
            await switch.serve(channel)
        except asyncio.CancelledError:
            pass  # not re-raised: no code awaits this task
        except Exception:
            self._log_defect()
        finally:
            self._end(lingers=True)

    def _log_defect(self) -> None:
        """Log the present exception, with the path and the client of the request."""
        request = self._answering
        path = request.head.path[:LONGEST_PATH].decode("latin-1") if request else ""
        facts = {"client": client_address(self._transport), "path": path}
        log.exception(logs.Event(FAILED, **facts))

    def _give_up(self, fault: Fault) -> None:
        """Send a refusal in place of a reply, and close."""
        if self._protocol.writer in SENDING:
            (refusal,) = self._protocol.send(self._fault or fault)
            self._server.outbox.send(self._transport, refusal)
        # A stopping server does not wait for clients that it refuses.
        self._end(lingers=not self._server.draining)

    def _end(self, *, lingers: bool = False) -> None:
        """Close once all written data is sent, or a little later, to let the client read it."""
        self._answering = self._task = None
        self._waiting.clear()
        if self._protocol.writer is Writer.CLOSED and self._transport.is_closing():
            return
        self._protocol.close()
        self._server.outbox.flush()
        if lingers:
            linger(self._transport, self.connection_lost)
        else:
            self._transport.close()


def _is_left(head: RequestHead, stream: BodyStream) -> bool:
    """Return whether the unread rest of a body is too long, or withheld, to be read and dropped."""
    if stream.state is Body.HELD_BACK:
        return True  # the client is free to send it or not; RFC 9110 section 10.1.1
    length = head.length
    return stream.state is not Body.WHOLE and (length is None or length > MOST_DROPPED)


def _address(transport: asyncio.BaseTransport, name: str) -> Address:
    address = transport.get_extra_info(name)
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else None
