"""The windows of what the client sends; RFC 9113 section 5.2 and 6.9.

What has come is given back to the client once half of a window is used, whether or not a service
has read it: what a call may hold is limited by the size of messages, not by windows. Nothing is
given back while the client does not read what we send, so such a client cannot send without end.
"""

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.rules import LARGEST_FRAME

STREAM_WINDOW = 4 << 20
"""Bytes of one request that a client may send ahead of our WINDOW_UPDATE; more resets the stream
with FLOW_CONTROL_ERROR. At 100 ms of round trip it allows 40 MB/s."""
CONNECTION_WINDOW = 16 << 20
"""The same for all requests of a connection together; more ends the connection."""

assert LARGEST_FRAME <= STREAM_WINDOW // 2  # the first frame of a request fits, so is not counted


class ReceiveWindow:
    """What the client may still send, on one stream or on the connection.

    Attributes:
        left: bytes; negative when the client has sent more than it may.
        half: renew the window when `left` is below.
    """

    __slots__ = ("_number", "_size", "half", "left")

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self._size = size
        self.left = size
        self.half = size // 2

    def renew(self) -> bytes:
        """Give back what was used: the WINDOW_UPDATE frame that says so."""
        used = self._size - self.left
        self.left = self._size
        return frames.window_update(self._number, used)
