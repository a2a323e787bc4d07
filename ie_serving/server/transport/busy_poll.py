"""Busy polling: the event loop stays awake for a moment after something came.

A client that sends its next request as soon as it has its reply is back within some 100 us. To put
the processor to sleep and wake it again takes as long, in a virtual machine above all, and costs
more processor time than to go on polling. Linux does the same for devices (`net.core.busy_poll`)
and for idle virtual processors (haltpoll).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SKIPPED: Final = 16
"""After a busy-poll window in which nothing arrived, skip busy polling for the next 16 arrivals: a
client that seldom asks then costs next to nothing, and one that comes back quickly is found out
within 16 requests."""


class BusyPoll:
    """Belongs to one event loop.

    Args of the constructor:
        window_s: seconds of polling after each arrival; 0 turns it off.
        now: gives the time in seconds.
    """

    def __init__(self, window_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._loop = asyncio.get_running_loop()
        self._window_s = window_s
        self._last = 0.0
        self._polling = False
        self._to_skip = 0

    def arrived(self) -> float:
        """Take note that a client has sent something; give the time."""
        self._last = now = self.now()
        if self._polling or not self._window_s:
            return now
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._polling = True
            self._loop.call_soon(self._poll)
        return now

    def _poll(self) -> None:
        """Keep the loop from sleeping: while a callback is due it polls without waiting."""
        if self.now() - self._last < self._window_s:
            self._loop.call_soon(self._poll)
        else:
            self._polling = False
            self._to_skip = SKIPPED
