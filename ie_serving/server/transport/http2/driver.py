"""Drives an `Http2Connection`: owns the socket, batches writes, takes turns, keeps time limits."""

import asyncio
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Final

from ie_serving.server.transport.filling import DirectReads, set_protocol
from ie_serving.server.transport.http2.connection import Accept, Http2Connection
from ie_serving.server.transport.http2.headers import Interpret
from ie_serving.server.transport.http2.sender import MOST_UNSENT
from ie_serving.server.transport.http2.stream_states import ConnectionState, SendEvent, SendState
from ie_serving.server.transport.http2.streams import Http2Stream
from ie_serving.server.transport.peer import client_address

HIGH_WATER: Final = 256 * 1024
"""Bytes in the socket's buffer for a slow client from which its streams pause."""

MOST_HELD: Final = 16
"""Frames that are held until the turn of the event loop ends; as many are written at once, so that
the client reads the first replies to a batch of requests while the last are encoded."""

LARGE_READ: Final = 64 * 1024
"""Bytes of a read behind which more are expected: from then on the connection reads directly."""
SMALL_READ: Final = 4 * 1024
"""Bytes of a read below which making bytes of it costs less."""
MOST_SMALL: Final = 8
"""Such reads in a row after which a connection no longer reads directly. A client sends one or two
between long messages, such as window updates, and each switch takes as long as a dozen of them."""
SHARED: Final = memoryview(bytearray(256 * 1024))
"""Memory for direct reads of all connections of a process, which has one event loop. Whatever stays
of a read is copied from here before the next read."""

LIMITS_S: Final = {
    ConnectionState.PREFACE: 20.0,
    ConnectionState.DRAINING: 1.0,
    ConnectionState.CLOSED: 20.0,
    ConnectionState.FAILED: 1.0,
}
"""Seconds that a connection may stay in a state, and what follows.

PREFACE: a client that sends nothing is dropped. DRAINING: if the client does not answer the ping,
its further calls are refused. CLOSED: a client that does not read its last replies is dropped.
FAILED: data from the client is read and dropped, then the socket closes; if it closed at once, the
kernel would reset the connection, and the client might never read the reason.
"""

MOST_ON_WAY: Final = 16 * 1024
"""Bytes on their way to the client with which a connection closes at once. With more the client is
reading a large reply, and renews its windows meanwhile: a closed socket answers that by a reset,
and the system then drops the rest. A client that has vanished has fewer: its GOAWAY."""
LOOK_S: Final = 0.02
"""Seconds between two looks at what is on its way to a client that reads its last reply."""

# Before Python 3.12, looking up an enum member is a function call; every call needs these members.
_PAUSED: Final = SendState.PAUSED
_OPEN: Final = ConnectionState.OPEN


class SocketDriver(asyncio.Protocol):
    """One connection of a client, with its socket.

    Args of the constructor:
        interpret, accept: see `Http2Connection`.
        opened: called when the connection has a transport.
        closed: called when the connection has ended.
        arrived: called whenever data from the client arrives.
        clock: monotonic, in seconds; limits the length of a turn.
    """

    def __init__(
        self,
        interpret: Interpret,
        accept: Accept,
        opened: "Callable[[SocketDriver], None]",
        closed: "Callable[[SocketDriver], None]",
        arrived: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = Http2Connection(interpret, accept, self._write_soon, clock)
        self._opened = opened
        self._closed = closed
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._direct: DirectReads | None = None  # while the connection reads directly
        self._room = SHARED
        self._small = 0  # small reads since the last large one
        self._holds = False
        self._idle_since = time.monotonic()
        self._last_seen = -1  # number of the last stream that `look_for_calls` has seen
        self._timed: ConnectionState | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the client's preface."""
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._connection.sender.peer = transport.get_extra_info("peername")
        self._opened(self)
        self._follow()

    def data_received(self, data: bytes) -> None:
        """Process received data for at most `reader.TURN_S`; keep the rest for later."""
        self._arrived()
        if self._rest:
            # Data arrives faster than it is processed. Keep it, and read no more before all of it
            # is processed: the socket's buffer fills, and the client has to wait.
            self._rest += data
            if self._transport:
                self._transport.pause_reading()
            return
        self._rest = self._connection.receive(data)
        if self._rest:
            self._loop.call_soon(self._go_on)
        self._flush()
        if len(data) >= LARGE_READ and self._direct is None:
            self._read_directly()

    def pause_writing(self) -> None:
        """Pause: the client does not read."""
        self._connection.sender.apply(SendEvent.PAUSE)

    def resume_writing(self) -> None:
        """Continue: the client reads again."""
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

    # Direct reads.

    def _read_directly(self) -> None:
        transport = self._transport
        # TLS copies the data in any case, as it decrypts.
        if transport and transport.is_reading() and not transport.get_extra_info("ssl_object"):
            self._small = 0
            self._direct = DirectReads(self, self._next_room, self._came)
            set_protocol(transport, self._direct)

    def _next_room(self) -> memoryview:
        self._room = self._connection.room() or SHARED
        return self._room

    def _came(self, count: int) -> None:
        """Process data that has been read to `_room`, as `data_received` does."""
        room = self._room
        self._small = self._small + 1 if count < SMALL_READ else 0
        if self._rest or self._small:
            if self._small > MOST_SMALL and self._transport and self._transport.is_reading():
                self._direct = None
                set_protocol(self._transport, self)
            self.data_received(bytes(room[:count]))
            return
        self._arrived()
        self._rest = self._connection.receive(room[:count].toreadonly())
        if self._rest:
            self._loop.call_soon(self._go_on)
        self._flush()

    # Called by the server.

    def name_client(self, names_of: Callable[[asyncio.BaseTransport], tuple[str, ...]]) -> None:
        """Make the names in the client's certificate available when calls are accepted."""
        if self._transport:
            self._connection.sender.client = names_of(self._transport)

    @property
    def streams(self) -> Collection[Http2Stream]:
        """The open streams."""
        return self._connection.streams.open.values()

    def drain(self) -> None:
        """Take no new calls, and close when those in flight have ended."""
        self._connection.drain()
        self._flush()

    def drain_if_greeted(self) -> None:
        """Drain, unless the client has not sent its first bytes yet."""
        if self._connection.life is not ConnectionState.PREFACE:
            self.drain()

    def stop(self) -> None:
        """Answer every call now, then close."""
        self._connection.stop()
        self._flush()

    # Idleness.

    def idle_since(self) -> float | None:
        """See `LimitedConnection`: approximate time since which no call was open."""
        connection = self._connection
        busy = connection.streams.open or connection.life not in (
            ConnectionState.PREFACE,
            ConnectionState.OPEN,
        )
        return None if busy else self._idle_since

    def address(self) -> str | None:
        """See `connection_limit.LimitedConnection`."""
        return client_address(self._transport)

    def end_idle(self) -> None:
        """See `connection_limit.LimitedConnection`: a call in transit is still taken."""
        self.drain()

    def abort(self) -> None:
        """Close at once, without a closing message."""
        if self._transport:
            self._transport.abort()

    def look_for_calls(self, now: float) -> None:
        """Record whether calls have begun since the last check; pings do not count.

        Checked periodically, so that it costs a call nothing.
        """
        streams = self._connection.streams
        streams.settle()
        if streams.open or streams.last != self._last_seen:
            self._last_seen, self._idle_since = streams.last, now

    # Turns.

    def _go_on(self) -> None:
        """Process the rest of the last turn, after the turns of other connections."""
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
        """Write at the end of this turn: a batch of requests is answered in one write."""
        if len(self._connection.sender.out) >= MOST_HELD:
            self._flush()
        elif not self._holds:
            self._holds = True
            self._loop.call_soon(self._write_held)

    def _write_held(self) -> None:
        self._holds = False
        self._flush()

    def _flush(self) -> None:
        """Write pending data, as far as the client reads, and follow the connection's state."""
        sender, transport = self._connection.sender, self._transport
        if transport is None:
            return
        if sender.out and sender.state is not _PAUSED:
            # One write for many replies: waking the client costs more than the write.
            transport.write(b"".join(sender.out))
            sender.out.clear()
        while sender.waiting and sender.state is not _PAUSED and (pieces := sender.turn()):
            transport.writelines(pieces)
        # The reset follows the data, so that the client reads the reply first.
        if sender.early:
            sender.stop_requests()
        if sender.state is _PAUSED and len(sender.out) > MOST_UNSENT:
            transport.abort()
        if self._connection.life is not _OPEN or self._timed is not _OPEN:
            self._follow()

    # Time limits.

    def _follow(self) -> None:
        """Act on a new state of the connection, once."""
        self._connection.end_if_done()
        life = self._connection.life
        if life is self._timed:
            return
        self._timed = life
        if self._timer:
            self._timer.cancel()
        limit_s = LIMITS_S.get(life)
        self._timer = self._loop.call_later(limit_s, self._out_of_time) if limit_s else None
        if life is ConnectionState.CLOSED:
            self._close()

    def _out_of_time(self) -> None:
        if self._connection.life is ConnectionState.DRAINING:
            self._connection.goaway_known()
            self._flush()
        elif self._transport:
            self._transport.abort()

    def _close(self) -> None:
        """Close when all data has been sent, whether or not the client reads now."""
        assert self._transport
        self._transport.write(b"".join(self._connection.sender.out))
        self._connection.sender.out.clear()
        self._close_if_sent(MOST_ON_WAY)

    def _close_if_sent(self, most: int) -> None:
        """Close once at most so many bytes are on their way to the client."""
        if self._transport is None or self._transport.is_closing():
            return
        if unconfirmed(self._transport) > most:
            self._loop.call_later(LOOK_S, self._close_if_sent, 0)
        else:
            self._transport.close()


def unconfirmed(transport: asyncio.Transport) -> int:
    """Count the written bytes of which the client's system has not confirmed that they came."""
    size, found = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            size += int.from_bytes(ioctl(found.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    return size
