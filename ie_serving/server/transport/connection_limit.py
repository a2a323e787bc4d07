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

from ie_serving.core.hints import Hint
from ie_serving.telemetry.logs import Event

log = logging.getLogger(__name__)

GUESTS: Final = 64
"""Connections beyond the limit that are accepted all the same; one more is closed at once."""
GUEST_S: Final = 5.0
"""Seconds that such a connection may stay when no other was idle: a probe takes milliseconds."""
ROUND: Final = 16
"""Of how many connections one is closed when the limit is reached. To find those that are idle
takes 1 us for each connection, which is not paid for every new one."""
QUIET_S: Final = 60.0
"""Seconds between two log lines about the limit."""


class Limited(Protocol):
    """A connection as a transport has it."""

    def idle_since(self) -> float | None:
        """Since when no request has come; None while one is answered, or when it ends already."""

    def end_idle(self) -> None:
        """Close, with whatever the protocol says at the end."""

    def abort(self) -> None:
        """Close without another word."""


class ConnectionLimit:
    """Knows the open connections of all ports. Belongs to one event loop.

    Args of the constructor:
        most: connections that may be open.
        now: seconds, only growing; the clock of `Limited.idle_since`.
    """

    def __init__(self, most: int = sys.maxsize, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._open: set[Limited] = set()
        self._said_at = -QUIET_S
        self._closed = self._refused = 0

    def opened(self, connection: Limited) -> None:
        """Take note of a new connection; close it or others if there are too many."""
        self._open.add(connection)
        above = len(self._open) - self._most
        if above <= 0:
            return
        if above > GUESTS:
            self._refused += 1
            connection.abort()
        elif not self._end_idle(connection):
            asyncio.get_running_loop().call_later(GUEST_S, self._end_guest, connection)
        self._say()

    def closed(self, connection: Limited) -> None:
        """Take note that a connection is lost."""
        self._open.discard(connection)

    def _end_idle(self, guest: Limited) -> bool:
        """Close those that are idle longest; tell whether there were any."""
        idle = [
            (since, id(connection), connection)
            for connection in self._open
            if connection is not guest and (since := connection.idle_since()) is not None
        ]
        idle.sort()
        for _, _, connection in idle[: max(1, self._most // ROUND)]:
            self._closed += 1
            connection.end_idle()
        return bool(idle)

    def _end_guest(self, connection: Limited) -> None:
        if connection in self._open:
            self._refused += 1
            connection.abort()

    def _say(self) -> None:
        now = self._now()
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
                    "find clients that leave connections open, or raise {server.max_connections}"
                ),
            )
        )
        self._closed = self._refused = 0
