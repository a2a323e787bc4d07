"""Busy polling: the event loop polls for a moment after data has arrived, instead of sleeping.

A client that sends its next request as soon as it has the reply is back within some 100 us. Putting
the processor to sleep and waking it takes as long, above all in a virtual machine, and costs more
processor time than polling. Linux does the same for devices (`net.core.busy_poll`) and for idle
virtual processors (haltpoll).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SKIPPED: Final = 16
"""Arrivals without busy polling after a polling window in which nothing arrived. A client with few
requests then costs next to nothing, and one that starts to return quickly is detected within 16
requests."""


class BusyPoll:
    """Decides when to poll. Belongs to one event loop.

    Args of the constructor:
        window_s: seconds of polling after each arrival; 0 turns polling off.
        now: clock in seconds.
    """

    def __init__(self, window_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._loop = asyncio.get_running_loop()
        self._window_s = window_s
        self._last = 0.0
        self._polling = False
        self._to_skip = 0

    def arrived(self) -> float:
        """Note that a client has sent data; return the time."""
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
        """Keep the loop from sleeping: while a callback is due, it polls without waiting."""
        if self.now() - self._last < self._window_s:
            self._loop.call_soon(self._poll)
        else:
            self._polling = False
            self._to_skip = SKIPPED
