"""Flood guard: a rate limit for frames that cost the server work and carry no data.

It is a token bucket. gRPC clients send a ping to measure the path for every reply that they read
(Go's and Java's do) and widen windows as they read, so each answer of the server permits frames.
"""

from collections.abc import Callable

from ie_serving.server.transport.http2.frames import ConnectionFault, ErrorCode

PER_S = 1000
"""Frames that one connection may send per second: keep-alives and cancelled calls need a tenth."""
BURST = 10_000
"""Frames that it may send at once; one more ends the connection with ENHANCE_YOUR_CALM. Together
they cost about 50 ms of processor time."""
EARNED = 3
"""Frames that one answer, or one DATA frame of a long one, permits: a ping, two WINDOW_UPDATE."""
SMALL_DATA = 32
"""Bytes of payload below which a DATA frame that does not end a request counts as carrying no data:
its head costs more than its payload. Clients that send a message's prefix of 5 bytes alone send one
for each call, which the answer permits."""


class FloodGuard:
    """Counts such frames of one connection.

    Args of the constructor:
        clock: monotonic, in seconds.
        sent: returns how many answers and DATA frames were sent so far.
    """

    __slots__ = ("_clock", "_left", "_sent", "_sent_before", "_since")

    def __init__(self, clock: Callable[[], float], sent: Callable[[], int]) -> None:
        self._clock = clock
        self._sent = sent
        self._left = float(BURST)
        self._since = clock()
        self._sent_before = 0

    def count(self, weight: int = 1) -> None:
        """Count a frame that costs as much work as `weight` simple ones.

        Raises:
            ConnectionFault: too many frames.
        """
        if self._left < weight:
            self._allow()
        self._left -= weight
        if self._left < 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def _allow(self) -> None:
        """Add the frames permitted by time and by answers since the bucket was last empty.

        Done only when it is empty, so that an answer costs nothing here.
        """
        now, sent = self._clock(), self._sent()
        earned = (now - self._since) * PER_S + (sent - self._sent_before) * EARNED
        self._left = min(BURST, self._left + earned)
        self._since, self._sent_before = now, sent
