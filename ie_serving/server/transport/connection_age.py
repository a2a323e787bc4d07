"""Ends old connections, so that new servers behind a load balancer get a share of the calls.

A gRPC client keeps its connection for hours, and a Kubernetes Service balances connections, not
calls. Source: gRPC's proposal A9 (server-side connection management), with its argument names.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

JITTER: Final = 0.1
"""Part of the age by which each connection's limit differs at random, up or down, as in proposal
A9: connections that began together, after a restart, should not all end together."""


class _Ageing(Protocol):
    """A connection, as each transport implements it."""

    def drain(self) -> None:
        """Take no new calls, and close when those in flight have ended."""

    def stop(self) -> None:
        """Answer every call now, then close."""


C = TypeVar("C", bound=_Ageing)


class ConnectionAge(Generic[C]):
    """Keeps one timer for each open connection. Belongs to one event loop.

    Args of the constructor:
        age_s: seconds after which a connection takes no new calls; 0 sets no limit.
        grace_s: further seconds for its open calls; 0 waits until all have ended.
        chance: returns 0 to 1 at random, for the jitter.
    """

    def __init__(
        self, age_s: float, grace_s: float, chance: Callable[[], float] = random.random
    ) -> None:
        self._age_s = age_s
        self._grace_s = grace_s
        self._chance = chance
        self._timers: dict[C, asyncio.TimerHandle] = {}

    def watch(self, connection: C) -> None:
        """Start the timer of a new connection."""
        if self._age_s:
            factor = 1 + JITTER * (2 * self._chance() - 1)
            self._call_later(self._age_s * factor, self._end, connection)

    def forget(self, connection: C) -> None:
        """Stop the timer of a closed connection."""
        timer = self._timers.pop(connection, None)
        if timer:
            timer.cancel()

    def _end(self, connection: C) -> None:
        # Before `drain`, in which a connection without calls may close and be forgotten.
        del self._timers[connection]
        if self._grace_s:
            self._call_later(self._grace_s, self._stop, connection)
        connection.drain()

    def _stop(self, connection: C) -> None:
        del self._timers[connection]
        connection.stop()

    def _call_later(self, delay_s: float, act: Callable[[C], None], connection: C) -> None:
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(delay_s, act, connection)
