"""Receive windows: how much the client may send; RFC 9113 section 5.2 and 6.9.

Once half of a window is used, the received bytes are given back to the client, whether or not a
service has read them: the message size limits what a call may hold, not the window. Nothing is
given back while the client does not read our frames, so that such a client cannot send without end.
That it reads is known when it answers a ping, which comes with the first window of a stream that a
connection gives back. A client that keeps to its windows has answered before the third.
"""

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.rules import LARGEST_FRAME

STREAM_WINDOW = 4 << 20
"""Bytes of one request that a client may send ahead of our WINDOW_UPDATE; more resets the stream
with FLOW_CONTROL_ERROR. At 100 ms of round trip it permits 40 MB/s."""
CONNECTION_WINDOW = 16 << 20
"""The same for all requests of a connection together; more ends the connection."""

TRUSTED = 2
"""Renewals of a stream's window before the client has answered the ping: up to 10 MB."""

assert LARGEST_FRAME <= STREAM_WINDOW // 2  # the first frame of a request fits, so is not counted


class ReceiveWindow:
    """Bytes that the client may still send, on one stream or on the connection.

    Attributes:
        left: these bytes; negative if the client has sent more than permitted.
        half: the window is renewed when `left` is below.
        renewals: how often it was renewed.
    """

    __slots__ = ("_number", "_size", "half", "left", "renewals")

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self._size = size
        self.left = size
        self.half = size // 2
        self.renewals = 0

    def renew(self) -> bytes:
        """Give back the used bytes; return the WINDOW_UPDATE frame for that."""
        used = self._size - self.left
        self.left = self._size
        self.renewals += 1
        return frames.window_update(self._number, used)
