"""How much work for nothing one client may cause.

Clients of gRPC measure the path with a ping for every reply that they read (Go's and Java's do), so
each call that was answered makes good for one frame.
"""

from time import monotonic

from ie_serving.server.http2.frames import ConnectionFault, ErrorCode

PER_S = 1000
BURST = 10_000
"""Frames that make work and carry nothing (pings, resets, settings, empty data): so many a second
and so many at once are borne."""


class Calm:
    """Counts the frames of one connection that carry nothing."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._since = monotonic()

    def forgive(self) -> None:
        """Know that a call was answered."""
        self._left = min(BURST, self._left + 1)

    def bear(self, weight: int = 1) -> None:
        """Count one that makes as much work as `weight` simple ones.

        Raises:
            ConnectionFault: there were too many.
        """
        self._left -= weight
        if self._left > 0:
            return
        now = monotonic()
        self._left = min(BURST, (now - self._since) * PER_S)
        self._since = now
        if self._left < 1:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that carry nothing")
