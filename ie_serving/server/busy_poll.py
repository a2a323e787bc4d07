"""A short watch for the next request before the event loop sleeps.

A client that sends its next request as soon as it has its reply is back within some 100 µs. To put
the processor to sleep and wake it again takes as long, in a virtual machine above all, and costs
more processor time than to keep looking. So the loop keeps turning for a moment after something
came; where that was in vain, not again for a while: whoever asks seldom costs next to nothing.
Linux does the same for devices (`net.core.busy_poll`) and for idle virtual processors (haltpoll).
"""

import asyncio
import time
from typing import Final

LEFT_OUT: Final = 16
"""So many arrivals after a watch in vain are not watched for."""


class BusyPoll:
    """Belongs to one event loop.

    Args of the constructor:
        longest_s: how long to look for more, in seconds; 0 never does.
    """

    def __init__(self, longest_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._longest_s = longest_s
        self._last = 0.0
        self._watching = False
        self._left_out = 0

    def arrived(self) -> None:
        """Note that a client has sent something."""
        self._last = time.monotonic()
        if self._watching or not self._longest_s:
            return
        if self._left_out:
            self._left_out -= 1
            return
        self._watching = True
        self._loop.call_soon(self._watch)

    def _watch(self) -> None:
        """Keep the loop from sleeping: it polls without waiting while something is to be called."""
        if time.monotonic() - self._last < self._longest_s:
            self._loop.call_soon(self._watch)
        else:
            self._watching = False
            self._left_out = LEFT_OUT
