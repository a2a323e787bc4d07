"""How many connections both ports may have open together, and what gives way for one more.

A process that has no file descriptors left accepts nothing on any port, so that probes of health
fail, and reads no models. So the limit lies below: at the limit those connections are closed that
have been idle longest, as web servers do. Where none is idle, a few more are accepted for a short
time, which is enough for a probe of health.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from ie_serving.core.values.hints import Hint
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

EXTRA: Final = 64
"""Connections over the limit that are accepted all the same; one more is closed at once."""
EXTRA_S: Final = 5.0
"""Seconds after which a connection over the limit is closed, if there is still no room and none is
idle: a probe takes milliseconds."""
EVICTED_PART: Final = 16
"""Of how many connections one is closed when the limit is reached. To find those that are idle
takes 1 us for each connection, which is not paid for every new one."""
ENDING_S: Final = 5.0
"""Seconds for which a connection that was told to end counts as gone. Without a call gRPC takes 1 s
to end, REST no time. One that is still there then holds its file descriptor, and counts again."""
QUIET_S: Final = 60.0
"""Seconds between two log lines about the limit."""


class Limited(Protocol):
    """A connection as a transport has it."""

    def idle_since(self) -> float | None:
        """Since when no request has come; None while one is answered, or when it ends already."""

    def address(self) -> str | None:
        """Where its client is; None over a UNIX socket."""

    def end_idle(self) -> None:
        """Close, with whatever the protocol says at the end."""

    def abort(self) -> None:
        """Close without another word."""


class ConnectionLimit:
    """Knows the open connections of all ports. Belongs to one event loop.

    Args of the constructor:
        most: connections that may be open.
        now: seconds, only growing; the clock of `Limited.idle_since`.

    Attributes:
        on_count: called when a connection is lost; None: nobody wants to know.
    """

    def __init__(self, most: int = sys.maxsize, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self.on_count: Callable[[], None] | None = None
        self.now = now
        self._open: set[Limited] = set()
        self._ending: dict[Limited, float] = {}
        """Those that were told to end, and when; the first was told first."""
        self._said_at = -QUIET_S
        self._closed = self._refused = 0  # since the last log line
        self._ended = (0, 0)

    @property
    def count(self) -> int:
        """How many connections are open."""
        return len(self._open)

    @property
    def ended(self) -> tuple[int, int]:
        """How many idle ones had to go, and how many new ones were refused, since the start."""
        closed, refused = self._ended
        return closed + self._closed, refused + self._refused

    def opened(self, connection: Limited) -> None:
        """Take note of a new connection; close it or others if there are too many."""
        self._open.add(connection)
        if len(self._open) > self._most + EXTRA:  # those that end hold file descriptors, too
            self._refuse(connection)
        elif self._has_room():
            return
        elif not self._end_idle(connection):
            asyncio.get_running_loop().call_later(EXTRA_S, self._look_again, connection)
        self._say()

    def closed(self, connection: Limited) -> None:
        """Take note that a connection is lost."""
        self._open.discard(connection)
        self._ending.pop(connection, None)
        if self.on_count:
            self.on_count()

    def _has_room(self) -> bool:
        """Tell whether the limit is kept, now or when those have gone that were told to end."""
        late = self.now() - ENDING_S
        while self._ending and self._ending[told := next(iter(self._ending))] < late:
            del self._ending[told]
        return len(self._open) - len(self._ending) <= self._most

    def _end_idle(self, new: Limited) -> bool:
        """Close those that are idle longest; tell whether there were any."""
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

    def _look_again(self, connection: Limited) -> None:
        """Close a connection that is still over the limit, unless others are idle by now."""
        is_there = connection in self._open and connection not in self._ending
        if is_there and not self._has_room() and not self._end_idle(connection):
            self._refuse(connection)

    def _refuse(self, connection: Limited) -> None:
        self._refused += 1
        self._ending[connection] = self.now()
        connection.abort()

    def _say(self) -> None:
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
