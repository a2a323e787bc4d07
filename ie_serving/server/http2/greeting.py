"""What the server says first, and to a client that speaks something else."""

from ie_serving.server.http2 import frames
from ie_serving.server.http2.headers import LARGEST_HEADERS

STREAM_WINDOW = 4 << 20
"""Bytes of one request that a client may send ahead."""
CONNECTION_WINDOW = 16 << 20
FRAME = 1 << 20
"""Largest frame that clients may send."""
MOST_STREAMS = 1000
"""Calls of one connection at a time; clients hold further ones back by themselves."""

GREETING = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: FRAME,
        frames.MAX_HEADER_LIST_SIZE: LARGEST_HEADERS,
    }
) + frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)

_ADVICE = b"this port speaks gRPC over HTTP/2; REST has a port of its own\n"
NOT_HTTP2 = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)
