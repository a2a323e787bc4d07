"""Frames and their sequence: the cases of h2spec's sections http2/3.5 to http2/7."""

from tests.functional.protocols.http2_client import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MOST_WINDOW,
    PADDED,
    PING,
    PONG,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Case,
    block,
    call,
    data,
    frame,
    message_of,
    opened,
    priority,
    request,
    reset,
    settings,
    window_update,
)

MOST_STREAMS = 1000
LARGEST_FRAME = 1 << 20
_UNKNOWN = 0x16
_FIRST_HALF = frame(HEADERS, 0, 1, block(request()))
_MORE = block([("x-more", "y")])
_NO_WINDOW = settings((4, 0))
_PROTOCOL = "GOAWAY PROTOCOL_ERROR"
_CLOSED = "GOAWAY STREAM_CLOSED"
_SIZE = "GOAWAY FRAME_SIZE_ERROR"
_FLOW = "GOAWAY FLOW_CONTROL_ERROR"

FRAMES = (
    Case("3.4", "SETTINGS behind the preface", "pong", [settings()]),
    Case("4.1", "a frame of unknown type", "pong", [frame(_UNKNOWN, 0, 0, bytes(8))]),
    Case("4.1", "PING with unknown flags", "pong", [frame(PING, 0x16, 0, bytes(8))]),
    Case("4.1", "PING with the reserved bit", "pong", [frame(PING, 0, 1 << 31, bytes(8))]),
    Case(
        "4.2",
        "DATA of 16,384 bytes",
        "1 answered",
        [opened(1), data(1, message_of(16_384)), 1],
    ),
    Case("4.2", "DATA above the frame size", _SIZE, [opened(1), data(1, bytes(LARGEST_FRAME + 1))]),
    Case(
        "4.2",
        "HEADERS above the frame size",
        _SIZE,
        [frame(HEADERS, 4, 1, bytes(LARGEST_FRAME + 1))],
    ),
    Case(
        "4.3",
        "a block that cannot be decoded",
        "GOAWAY COMPRESSION_ERROR",
        [frame(HEADERS, 5, 1, b"\x40")],
    ),
    Case("4.3", "PRIORITY within a block", _PROTOCOL, [_FIRST_HALF, priority(1, 0)]),
    Case("4.3", "HEADERS of another stream within a block", _PROTOCOL, [_FIRST_HALF, opened(3)]),
)

STATES = (
    Case("5.1", "idle: DATA", _PROTOCOL, [data(1)]),
    Case("5.1", "idle: RST_STREAM", _PROTOCOL, [reset(1)]),
    Case("5.1", "idle: WINDOW_UPDATE", _PROTOCOL, [window_update(1, 100)]),
    Case("5.1", "idle: CONTINUATION", _PROTOCOL, [frame(CONTINUATION, END_HEADERS, 1, _MORE)]),
    Case("5.1", "half-closed: DATA", "1 STREAM_CLOSED", [_NO_WINDOW, call(1), data(1)]),
    Case(
        "5.1",
        "half-closed: HEADERS",
        "1 STREAM_CLOSED",
        [_NO_WINDOW, call(1), opened(1, END_STREAM)],
    ),
    Case(
        "5.1",
        "half-closed: CONTINUATION",
        _PROTOCOL,
        [_NO_WINDOW, call(1), frame(CONTINUATION, 4, 1, _MORE)],
    ),
    Case("5.1", "reset: DATA", _CLOSED, [opened(1), reset(1), data(1)]),
    Case("5.1", "reset: HEADERS", _CLOSED, [opened(1), reset(1), opened(1, END_STREAM)]),
    Case(
        "5.1",
        "reset: CONTINUATION",
        _PROTOCOL,
        [opened(1), reset(1), frame(CONTINUATION, 4, 1, _MORE)],
    ),
    Case("5.1", "closed: DATA", _CLOSED, [call(1), 1, data(1)]),
    Case("5.1", "closed: HEADERS", _CLOSED, [call(1), 1, opened(1, END_STREAM)]),
    Case("5.1", "closed: CONTINUATION", _PROTOCOL, [call(1), 1, frame(CONTINUATION, 4, 1, _MORE)]),
    Case("5.1.1", "an even number", _PROTOCOL, [opened(2)]),
    Case("5.1.1", "a lower number", _PROTOCOL, [call(5), 5, opened(3, END_STREAM)]),
    Case(
        "5.1.2",
        "more streams than announced",
        f"{2 * MOST_STREAMS + 1} REFUSED_STREAM",
        [
            b"".join(opened(2 * n + 1) for n in range(MOST_STREAMS + 1)),
            b"".join(reset(2 * n + 1) for n in range(MOST_STREAMS)),
        ],
    ),
    Case(
        "5.3.1",
        "HEADERS that depend on themselves",
        "1 PROTOCOL_ERROR",
        [frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, b"\0\0\0\1\0" + block(request()))],
    ),
    Case(
        "5.3.1", "PRIORITY that depends on itself", "1 PROTOCOL_ERROR", [opened(1), priority(1, 1)]
    ),
    Case("5.4.1", "a faulty PING: the connection closes", _SIZE, [frame(PING, 0, 0, b"")]),
    Case("5.4.1", "a faulty PING: GOAWAY says why", _SIZE, [frame(PING, 0, 0, bytes(9))]),
    Case("5.5", "an extension's frame", "pong", [frame(0xFF, 0xFF, 1, bytes(8))]),
    Case("5.5", "an extension's frame within a block", _PROTOCOL, [_FIRST_HALF, frame(0xFF, 0, 1)]),
)

DEFINITIONS = (
    Case("6.1", "DATA on stream 0", _PROTOCOL, [data(0)]),
    Case("6.1", "DATA on a stream that is closed", _CLOSED, [call(1), 1, data(1)]),
    Case(
        "6.1",
        "DATA with more padding than payload",
        _PROTOCOL,
        [opened(1), data(1, b"\x06Hallo", PADDED)],
    ),
    Case(
        "6.2",
        "HEADERS without END_HEADERS, then PRIORITY",
        _PROTOCOL,
        [_FIRST_HALF, priority(1, 0)],
    ),
    Case(
        "6.2",
        "HEADERS without END_HEADERS, then HEADERS of another",
        _PROTOCOL,
        [_FIRST_HALF, opened(3)],
    ),
    Case("6.2", "HEADERS on stream 0", _PROTOCOL, [opened(0)]),
    Case(
        "6.2",
        "HEADERS with more padding than payload",
        _PROTOCOL,
        [frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + block(request()))],
    ),
    Case("6.3", "PRIORITY on stream 0", _PROTOCOL, [priority(0, 1)]),
    Case(
        "6.3",
        "PRIORITY of 4 bytes",
        "1 FRAME_SIZE_ERROR",
        [opened(1), frame(PRIORITY, 0, 1, bytes(4))],
    ),
    Case("6.4", "RST_STREAM on stream 0", _PROTOCOL, [reset(0)]),
    Case("6.4", "RST_STREAM on an idle stream", _PROTOCOL, [reset(1)]),
    Case("6.4", "RST_STREAM of 3 bytes", _SIZE, [opened(1), frame(RST_STREAM, 0, 1, bytes(3))]),
    Case("6.5", "SETTINGS with ACK and values", _SIZE, [frame(SETTINGS, ACK, 0, bytes(6))]),
    Case("6.5", "SETTINGS on a stream", _PROTOCOL, [frame(SETTINGS, 0, 1, b"\0\3\0\0\0\x64")]),
    Case("6.5", "SETTINGS of 3 bytes", _SIZE, [frame(SETTINGS, 0, 0, b"\0\3\0")]),
    Case("6.5.2", "ENABLE_PUSH of 2", _PROTOCOL, [settings((2, 2))]),
    Case("6.5.2", "INITIAL_WINDOW_SIZE above the most", _FLOW, [settings((4, 1 << 31))]),
    Case("6.5.2", "MAX_FRAME_SIZE below the least", _PROTOCOL, [settings((5, 16_383))]),
    Case("6.5.2", "MAX_FRAME_SIZE above the most", _PROTOCOL, [settings((5, 1 << 24))]),
    Case("6.5.2", "an unknown setting", "pong", [settings((0xFF, 1))]),
    Case(
        "6.5.3",
        "a value that comes twice: the last holds",
        "1 data of [1]",
        [settings((4, 100), (4, 1)), call(1)],
    ),
    Case("6.5.3", "SETTINGS are acknowledged", "pong", [settings((4, 100))]),
    Case("6.7", "PING is answered", "pong", [frame(PING, 0, 0, b"h2spec!!")]),
    Case("6.7", "PING with ACK is not", "pong", [frame(PING, ACK, 0, b"h2spec!!")]),
    Case("6.7", "PING on a stream", _PROTOCOL, [frame(PING, 0, 1, bytes(8))]),
    Case("6.7", "PING of 6 bytes", _SIZE, [frame(PING, 0, 0, bytes(6))]),
    Case("6.8", "GOAWAY on a stream", _PROTOCOL, [frame(GOAWAY, 0, 1, bytes(8))]),
    Case("6.9", "WINDOW_UPDATE of nothing", _PROTOCOL, [window_update(0, 0)]),
    Case(
        "6.9",
        "WINDOW_UPDATE of nothing on a stream",
        "1 PROTOCOL_ERROR",
        [opened(1), window_update(1, 0)],
    ),
    Case("6.9", "WINDOW_UPDATE of 3 bytes", _SIZE, [frame(WINDOW_UPDATE, 0, 0, bytes(3))]),
    Case("6.9.1", "a window of one byte", "1 data of [1]", [settings((4, 1)), call(1)]),
    Case(
        "6.9.1",
        "a connection's window that grows above 2^31-1",
        _FLOW,
        [window_update(0, MOST_WINDOW), window_update(0, MOST_WINDOW)],
    ),
    Case(
        "6.9.1",
        "a stream's window that grows above 2^31-1",
        "1 FLOW_CONTROL_ERROR",
        [opened(1), window_update(1, MOST_WINDOW), window_update(1, MOST_WINDOW)],
    ),
    Case(
        "6.9.2",
        "a window that SETTINGS widen later",
        "1 data of [1]",
        [_NO_WINDOW, call(1), PONG, settings((4, 1))],
    ),
    Case(
        "6.9.2",
        "a window that becomes negative",
        "1 data of [3, 1]",
        [settings((4, 3)), call(1), PONG, settings((4, 2)), window_update(1, 2)],
    ),
    Case("6.9.2", "an initial window above the most", _FLOW, [settings((4, 1 << 31))]),
)

CONTINUATIONS = (
    Case(
        "6.10",
        "two CONTINUATION behind HEADERS",
        "1 answered",
        [
            _FIRST_HALF,
            frame(CONTINUATION, 0, 1, _MORE),
            frame(CONTINUATION, 4, 1, _MORE),
            data(1),
            1,
        ],
    ),
    Case(
        "6.10",
        "CONTINUATION, then DATA",
        _PROTOCOL,
        [_FIRST_HALF, frame(CONTINUATION, 0, 1, _MORE), data(1)],
    ),
    Case(
        "6.10",
        "CONTINUATION on stream 0",
        _PROTOCOL,
        [_FIRST_HALF, frame(CONTINUATION, 4, 0, _MORE)],
    ),
    Case(
        "6.10",
        "CONTINUATION behind a whole HEADERS",
        _PROTOCOL,
        [opened(1), frame(CONTINUATION, 4, 1, _MORE)],
    ),
    Case(
        "6.10",
        "CONTINUATION behind the last CONTINUATION",
        _PROTOCOL,
        [_FIRST_HALF, frame(CONTINUATION, 4, 1, _MORE), frame(CONTINUATION, 4, 1, _MORE)],
    ),
    Case(
        "6.10",
        "CONTINUATION behind DATA",
        _PROTOCOL,
        [opened(1), data(1), frame(CONTINUATION, 0, 1, _MORE)],
    ),
    Case(
        "7", "GOAWAY with an unknown code", "pong", [frame(GOAWAY, 0, 0, bytes(4) + b"\0\0\0\xff")]
    ),
    Case("7", "RST_STREAM with an unknown code", "pong", [opened(1), reset(1, 0xFF)]),
)
