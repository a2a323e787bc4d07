"""The server's first frames, and its reply to a client that does not speak HTTP/2."""

from ie_serving.server.transport.http2 import frames
from ie_serving.server.transport.http2.headers import LARGEST_HEADERS
from ie_serving.server.transport.http2.receive_window import CONNECTION_WINDOW, STREAM_WINDOW
from ie_serving.server.transport.http2.rules import LARGEST_FRAME
from ie_serving.server.transport.http2.streams import MOST_STREAMS

SERVER_PREFACE = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: LARGEST_FRAME,
        frames.MAX_HEADER_LIST_SIZE: LARGEST_HEADERS,
    }
) + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
"""SETTINGS, and the connection's window, which no setting changes; section 3.4 and 6.9.2."""

_ADVICE = b"this port speaks gRPC over HTTP/2; REST has a port of its own\n"
NOT_HTTP2 = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)
"""An HTTP/1.1 reply: most clients on the wrong port speak it; those with TLS cannot be answered."""
