"""The socket around a `Connection`: reads, writes in batches, takes turns, keeps time limits."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

from ie_serving.server.transport.http2.connection import Accept, Connection
from ie_serving.server.transport.http2.headers import Interpret
from ie_serving.server.transport.http2.sender import MOST_UNSENT
from ie_serving.server.transport.http2.states import Flow, Life, Writing
from ie_serving.server.transport.http2.streams import Stream
from ie_serving.server.transport.peer import client_address

HIGH_WATER: Final = 256 * 1024
"""Bytes that wait in the socket's buffer for a slow client before its streams pause."""

MOST_HELD: Final = 16
"""Frames that are held until the turn of the event loop ends. With as many they are written at
once: the client reads the first replies to a batch of requests while the last are encoded."""

LIMITS_S: Final = {
    Life.PREFACE: 20.0,
    Life.DRAINING: 1.0,
    Life.CLOSED: 20.0,
    Life.FAILED: 1.0,
}
"""Seconds that a connection may stay in a state, and what follows.

PREFACE: a client that says nothing is dropped. DRAINING: one that does not answer the ping gets its
further calls refused. CLOSED: one that does not read the last of its replies is dropped. FAILED:
what the client still sends is read and dropped, then the socket closes; if it closed at once, the
kernel would reset the connection, and the client might never read the reason.
"""


# Until Python 3.12 to look a member of an enum up is a function call, and every call needs these.
_PAUSED: Final = Writing.PAUSED
_OPEN: Final = Life.OPEN


class Driver(asyncio.Protocol):
    """One connection of a client, with its socket.

    Args of the constructor:
        interpret, accept: see `Connection`.
        opened: called when the connection has a transport.
        closed: called when the connection has ended.
        arrived: called whenever the client has sent something.
        clock: seconds, only growing; by it a turn ends.
    """

    def __init__(
        self,
        interpret: Interpret,
        accept: Accept,
        opened: "Callable[[Driver], None]",
        closed: "Callable[[Driver], None]",
        arrived: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = Connection(interpret, accept, self._write_soon, clock)
        self._opened = opened
        self._closed = closed
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._holds = False
        self._idle_since = time.monotonic()
        self._last_seen = -1  # the number of the last stream that `look_for_calls` has seen
        self._timed: Life | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the client's preface."""
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._connection.sender.peer = transport.get_extra_info("peername")
        self._opened(self)
        self._follow()

    def data_received(self, data: bytes) -> None:
        """Work on what the client has sent for at most `reader.TURN_S`; keep the rest for later."""
        self._arrived()
        if self._rest:
            # The client sends faster than we work. Keep this too, and read no more before all of it
            # is done: then the socket's buffer fills, and the client has to wait.
            self._rest += data
            if self._transport:
                self._transport.pause_reading()
            return
        self._rest = self._connection.receive(data)
        if self._rest:
            self._loop.call_soon(self._go_on)
        self._flush()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._connection.sender.apply(Flow.PAUSE)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._connection.resumed()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every call."""
        if self._timer:
            self._timer.cancel()
        self._transport = None
        self._rest = b""
        self._connection.lost()
        self._closed(self)

    # What the server asks and calls.

    def name_client(self, names_of: Callable[[asyncio.BaseTransport], tuple[str, ...]]) -> None:
        """Have those who accept calls know the names in the client's certificate."""
        if self._transport:
            self._connection.sender.client = names_of(self._transport)

    @property
    def streams(self) -> Collection[Stream]:
        """Those that are open."""
        return self._connection.streams.open.values()

    def drain(self) -> None:
        """Take no new calls, and close when those in flight have ended."""
        self._connection.drain()
        self._flush()

    def drain_if_greeted(self) -> None:
        """The same, unless the client has not said yet what it speaks."""
        if self._connection.life is not Life.PREFACE:
            self.drain()

    def stop(self) -> None:
        """Have every call answered now, then close."""
        self._connection.stop()
        self._flush()

    # Idleness.

    def idle_since(self) -> float | None:
        """See `connection_limit.Limited`: since about when no call was open."""
        connection = self._connection
        busy = connection.streams.open or connection.life not in (Life.PREFACE, Life.OPEN)
        return None if busy else self._idle_since

    def address(self) -> str | None:
        """See `connection_limit.Limited`."""
        return client_address(self._transport)

    def end_idle(self) -> None:
        """See `connection_limit.Limited`: a call that is under way is still taken."""
        self.drain()

    def abort(self) -> None:
        """Close without another word."""
        if self._transport:
            self._transport.abort()

    def look_for_calls(self, now: float) -> None:
        """Take note whether calls have come since the last look; pings are none.

        Looked for now and then, so that a call costs nothing for it.
        """
        streams = self._connection.streams
        streams.settle()
        if streams.open or streams.last != self._last_seen:
            self._last_seen, self._idle_since = streams.last, now

    # Turns.

    def _go_on(self) -> None:
        """Take what was left of the last turn: other connections have had theirs."""
        rest, self._rest = self._rest, b""
        if not self._transport or not rest:
            return
        self._rest = self._connection.receive(rest)
        if self._rest:
            self._loop.call_soon(self._go_on)
        elif not self._transport.is_closing():
            self._transport.resume_reading()
        self._flush()

    def _write_soon(self) -> None:
        """Write with what else this turn brings: a batch of requests is answered in one."""
        if len(self._connection.sender.out) >= MOST_HELD:
            self._flush()
        elif not self._holds:
            self._holds = True
            self._loop.call_soon(self._write_held)

    def _write_held(self) -> None:
        self._holds = False
        self._flush()

    def _flush(self) -> None:
        """Write what is due, as far as the client reads, and follow the connection's state."""
        sender, transport = self._connection.sender, self._transport
        if transport is None:
            return
        if sender.out and sender.state is not _PAUSED:
            # One write for many answers: to wake the client costs more than the write.
            transport.write(b"".join(sender.out))
            sender.out.clear()
        while sender.waiting and sender.state is not _PAUSED and (pieces := sender.turn()):
            transport.writelines(pieces)
        # After the data, so that the client reads the answer before the reset.
        if sender.early:
            sender.stop_requests()
        if sender.state is _PAUSED and len(sender.out) > MOST_UNSENT:
            transport.abort()
        if self._connection.life is not _OPEN or self._timed is not _OPEN:
            self._follow()

    # Time limits.

    def _follow(self) -> None:
        """Do what the state of the connection asks for, once."""
        self._connection.end_if_done()
        life = self._connection.life
        if life is self._timed:
            return
        self._timed = life
        if self._timer:
            self._timer.cancel()
        limit_s = LIMITS_S.get(life)
        self._timer = self._loop.call_later(limit_s, self._out_of_time) if limit_s else None
        if life is Life.CLOSED:
            self._close()

    def _out_of_time(self) -> None:
        if self._connection.life is Life.DRAINING:
            self._connection.goaway_known()
            self._flush()
        elif self._transport:
            self._transport.abort()

    def _close(self) -> None:
        """Close when all that was said has been sent, whether or not the client reads now."""
        assert self._transport
        self._transport.write(b"".join(self._connection.sender.out))
        self._connection.sender.out.clear()
        self._transport.close()
