"""The windows of what the client sends: given back as it comes, since messages have a limit."""

from collections.abc import Callable

from ie_serving.server.http2 import frames
from ie_serving.server.http2.call import Call
from ie_serving.server.http2.greeting import CONNECTION_WINDOW, STREAM_WINDOW
from ie_serving.server.http2.sender import Sender


class Credit:
    """Counts what came on one connection, and lets the client send as much again.

    Args of the constructor:
        sender: of the connection.
        keep_calm: counts a frame that carries nothing.
    """

    def __init__(self, sender: Sender, keep_calm: Callable[[], None]) -> None:
        self._sender = sender
        self._keep_calm = keep_calm
        self._taken = 0

    def give_back(self, call: Call | None, size: int, *, ends: bool) -> None:
        """Count `size` bytes of data, on the stream of `call` unless that has ended."""
        if not size and (call is None or not ends):  # an empty frame may end a request
            self._keep_calm()
        self._taken += size
        if self._taken >= CONNECTION_WINDOW // 2:
            self._sender.write(frames.window_update(0, self._taken))
            self._taken = 0
        if call is None or ends:
            return
        call.unacknowledged += size
        if call.unacknowledged >= STREAM_WINDOW // 2:
            self._sender.write(frames.window_update(call.number, call.unacknowledged))
            call.unacknowledged = 0
