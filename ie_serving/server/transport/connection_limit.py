"""Limits the open connections of both ports together, and those of one client address.

A process without free file descriptors accepts nothing on any port, so that health probes fail, and
cannot open model files. So the limit is lower. At the limit, the connections that have been idle
longest are closed, as in web servers. If none is idle, a few more are accepted for a short time,
long enough for a health probe.

At the limit of an address, its connection that has been idle longest is closed; if none is idle,
the new one is refused. Connections of other addresses are not affected.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Final, Protocol

from ie_serving.core.values.hints import Hint
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

EXTRA: Final = 64
"""Connections beyond the limit that are still accepted; any further one is closed at once."""
EXTRA_S: Final = 5.0
"""Seconds after which a connection beyond the limit is closed if there is still no room and none
is idle: a probe takes milliseconds."""
EVICTED_PART: Final = 16
"""One in this many connections is closed when the limit is reached. Finding the idle ones takes 1
us for each connection, too much for every new one."""
ENDING_S: Final = 5.0
"""Seconds for which a connection that was asked to end counts as closed. An idle gRPC one takes 1 s
to end, REST no time. After that it still holds its file descriptor, and counts again."""
QUIET_S: Final = 60.0
"""Seconds between two log lines about the limit."""


class LimitedConnection(Protocol):
    """A connection, as each transport implements it."""

    def idle_since(self) -> float | None:
        """When its last request ended; None while one is answered, or if it is closing."""

    def address(self) -> str | None:
        """Address of its client; None over a UNIX socket."""

    def end_idle(self) -> None:
        """Close after the protocol's final message, if it has one."""

    def abort(self) -> None:
        """Close without a final message."""


class ConnectionLimit:
    """Counts the open connections of all ports. Belongs to one event loop.

    Args of the constructor:
        most: connections that may be open.
        now: monotonic clock in seconds, the same as for `LimitedConnection.idle_since`.

    Attributes:
        on_count: called when a connection is lost; None calls nothing.
    """

    def __init__(self, most: int = sys.maxsize, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self.on_count: Callable[[], None] | None = None
        self.now = now
        self._open: set[LimitedConnection] = set()
        self._ending: dict[LimitedConnection, float] = {}
        """Connections that were asked to end, and when, in that order."""
        self._said_at = -QUIET_S
        self._closed = self._refused = 0  # since the last log line
        self._ended = (0, 0)

    @property
    def count(self) -> int:
        """Number of open connections."""
        return len(self._open)

    @property
    def ended(self) -> tuple[int, int]:
        """Numbers of idle connections closed, and of new ones refused, since the start."""
        closed, refused = self._ended
        return closed + self._closed, refused + self._refused

    def opened(self, connection: LimitedConnection) -> None:
        """Record a new connection; close it or idle ones if there are too many."""
        self._open.add(connection)
        if len(self._open) > self._most + EXTRA:  # closing ones hold file descriptors, too
            self._refuse(connection)
        elif self._has_room():
            return
        elif not self._end_idle(connection):
            asyncio.get_running_loop().call_later(EXTRA_S, self._look_again, connection)
        self._log_refused()

    def closed(self, connection: LimitedConnection) -> None:
        """Record that a connection is lost."""
        self._open.discard(connection)
        self._ending.pop(connection, None)
        if self.on_count:
            self.on_count()

    def _has_room(self) -> bool:
        """Return whether the limit holds, without the connections that are closing."""
        late = self.now() - ENDING_S
        while self._ending and self._ending[told := next(iter(self._ending))] < late:
            del self._ending[told]
        return len(self._open) - len(self._ending) <= self._most

    def _end_idle(self, new: LimitedConnection) -> bool:
        """Close the connections that are idle longest; return whether there were any."""
        idle = [
            (since, id(connection), connection)
            for connection in self._open
            if connection is not new and (since := connection.idle_since()) is not None
        ]
        idle.sort()
        evicted = [connection for _, _, connection in idle[: max(1, self._most // EVICTED_PART)]]
        for connection in evicted:
            self._closed += 1
            self._ending[connection] = self.now()
            connection.end_idle()
        return bool(evicted)

    def _look_again(self, connection: LimitedConnection) -> None:
        """Close a connection that is still over the limit, unless others are idle by now."""
        is_there = connection in self._open and connection not in self._ending
        if is_there and not self._has_room() and not self._end_idle(connection):
            self._refuse(connection)

    def _refuse(self, connection: LimitedConnection) -> None:
        self._refused += 1
        self._ending[connection] = self.now()
        connection.abort()

    def _log_refused(self) -> None:
        now = self.now()
        if now - self._said_at < QUIET_S:
            return
        self._said_at = now
        log.warning(
            Event(
                "connection limit reached",
                limit=self._most,
                closed_idle=self._closed,
                refused=self._refused,
                advice=Hint(
                    "find clients that leave connections open, or raise {server.max_connections},"
                    " or the limit of open files, from which it follows"
                ),
            )
        )
        self._ended = self.ended
        self._closed = self._refused = 0


NEVER: Final = float("-inf")
_NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that name a network: providers give a client at least one network (RFC
6177), and the client chooses the other bits freely."""
_HOST_BITS: Final = 128 - _NETWORK_BITS


class AddressLimit(ConnectionLimit):
    """A limit of all connections, and of those that one client's address has.

    Args of the constructor:
        most: limit, as in `ConnectionLimit`.
        most_each: connections that one address may have open.
    """

    def __init__(self, most: int, most_each: int) -> None:
        super().__init__(most)
        self._most_each = most_each
        self._of: dict[str, set[LimitedConnection]] = {}
        self._address: dict[LimitedConnection, str] = {}
        self._logged_at = NEVER

    def opened(self, connection: LimitedConnection) -> None:
        """See `ConnectionLimit`."""
        super().opened(connection)
        given = connection.address()
        if given is not None:
            address = client_of(given)
            theirs = self._of.setdefault(address, set())
            theirs.add(connection)
            self._address[connection] = address
            if len(theirs) > self._most_each:
                self._give_way(connection, address)

    def closed(self, connection: LimitedConnection) -> None:
        """See `ConnectionLimit`."""
        self._drop(connection)
        super().closed(connection)

    def _give_way(self, new: LimitedConnection, address: str) -> None:
        """Close one connection of an address: the longest idle one, or else the new one."""
        idle = [
            (since, id(each), each)
            for each in self._of[address]
            if each is not new and (since := each.idle_since()) is not None
        ]
        self._log_address(address)
        leaving = min(idle)[2] if idle else new
        self._drop(leaving)  # no longer counted, although it may take a while to close
        if idle:
            leaving.end_idle()
        else:
            leaving.abort()

    def _drop(self, connection: LimitedConnection) -> None:
        address = self._address.pop(connection, None)
        if address is None:
            return
        theirs = self._of[address]
        theirs.discard(connection)
        if not theirs:
            del self._of[address]

    def _log_address(self, address: str) -> None:
        now = self.now()
        if now - self._logged_at < QUIET_S:
            return
        self._logged_at = now
        advice = Hint("find out who that is, or raise {server.max_connections_per_address}")
        most = self._most_each
        log.warning(
            Event(
                "connection limit of an address reached", address=address, limit=most, advice=advice
            )
        )


def client_of(address: str) -> str:
    """Return the part of an address that names a client: of IPv6 the network of 64 bits.

    IPv4 addresses may be written as IPv6, if one socket listens for both.
    """
    if ":" not in address:
        return address
    number = IPv6Address(address.partition("%")[0])
    mapped = number.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    return f"{IPv6Address(int(number) >> _HOST_BITS << _HOST_BITS)}/{_NETWORK_BITS}"


def limit_of(most: int, most_each: int) -> ConnectionLimit:
    """Return the connection limit; `most_each` is the limit of each address, 0 for none."""
    return AddressLimit(most, most_each) if most_each else ConnectionLimit(most)
