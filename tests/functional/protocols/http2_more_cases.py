"""What h2spec does not ask: lengths up to what is announced, trailers, content types, headers."""

import struct

from tests.functional.protocols.http2_client import (
    ACK,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MESSAGE,
    PADDED,
    PING,
    PONG,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Case,
    Header,
    call,
    data,
    frame,
    headers,
    message_of,
    opened,
    priority,
    request,
    reset,
    settings,
    window_update,
)

LARGEST_FRAME = 1 << 20
_PROTOCOL = "GOAWAY PROTOCOL_ERROR"
_SIZE = "GOAWAY FRAME_SIZE_ERROR"
_MALFORMED = "1 PROTOCOL_ERROR"


def _typed(content_type: str) -> bytes:
    fields = request(("content-type", content_type), without="content-type")
    return headers(1, fields) + data(1)


def _with_trailers(*fields: Header, flags: int = END_STREAM) -> bytes:
    return opened(1) + data(1, MESSAGE, 0) + headers(1, fields, flags)


_PADDED_LARGE = b"\xff" + message_of(LARGEST_FRAME - 256) + bytes(255)

_LONG = struct.pack(">BL", 0, 64 << 20)
"""Begins a message that goes on."""

LENGTHS = (
    Case(
        "4.2",
        "DATA of the announced frame size",
        "1 answered",
        [opened(1), data(1, message_of(LARGEST_FRAME)), 1],
    ),
    Case(
        "6.1",
        "padded DATA of the announced frame size",
        "1 answered",
        [opened(1), data(1, _PADDED_LARGE, PADDED | END_STREAM), 1],
    ),
    Case(
        "6.1",
        "padded DATA above it",
        _SIZE,
        [opened(1), data(1, _PADDED_LARGE + b"x", PADDED | END_STREAM)],
    ),
    Case(
        "6.1",
        "DATA that is padding alone",
        "1 answered",
        [opened(1), data(1, b"\x05" + bytes(5), PADDED), data(1), 1],
    ),
    Case(
        "6.1", "padded DATA without a length of padding", _SIZE, [opened(1), data(1, b"", PADDED)]
    ),
    Case(
        "6.2",
        "padded HEADERS without a length of padding",
        _SIZE,
        [frame(HEADERS, END_HEADERS | PADDED, 1)],
    ),
    Case(
        "5.5",
        "an unknown frame of the announced frame size",
        "pong",
        [frame(0xBE, 0, 0, bytes(LARGEST_FRAME))],
    ),
    Case("5.5", "an unknown frame above it", _SIZE, [frame(0xBE, 0, 0, bytes(LARGEST_FRAME + 1))]),
    Case("6.3", "PRIORITY of 6 bytes on an idle stream", _SIZE, [frame(PRIORITY, 0, 1, bytes(6))]),
    Case("5.3.1", "PRIORITY on itself, idle", _PROTOCOL, [priority(1, 1)]),
    Case("6.4", "RST_STREAM of 5 bytes", _SIZE, [opened(1), frame(RST_STREAM, 0, 1, bytes(5))]),
    Case("6.8", "GOAWAY of 7 bytes", _SIZE, [frame(GOAWAY, 0, 0, bytes(7))]),
    Case("6.8", "GOAWAY with a text", "pong", [frame(GOAWAY, 0, 0, bytes(8) + b"why")]),
    Case(
        "6.9",
        "WINDOW_UPDATE of 5 bytes on a stream",
        _SIZE,
        [opened(1), frame(WINDOW_UPDATE, 0, 1, bytes(5))],
    ),
    Case(
        "6.9",
        "WINDOW_UPDATE of the reserved bit alone",
        "1 PROTOCOL_ERROR",
        [opened(1), window_update(1, 1 << 31)],
    ),
    Case("6.6", "PUSH_PROMISE on stream 0", _PROTOCOL, [frame(PUSH_PROMISE, 4, 0, b"\0\0\0\2")]),
)

SEQUENCES = (
    Case(
        "5.1", "WINDOW_UPDATE on a closed stream", "1 answered", [call(1), 1, window_update(1, 1)]
    ),
    Case("5.1", "RST_STREAM on a closed stream", "1 answered", [call(1), 1, reset(1)]),
    Case("5.1", "RST_STREAM twice", "pong", [opened(1), reset(1), reset(1)]),
    Case("5.1.1", "a number that was passed over", _PROTOCOL, [call(7), 7, opened(5)]),
    Case("5.1.1", "a gap between numbers", "1 answered, 9 answered", [call(1), call(9), 9]),
    Case(
        "5.1",
        "DATA of a request that was refused",
        "1 415",
        [headers(1, request(without="content-type")), PONG, data(1)],
    ),
    Case(
        "6.9.1",
        "data far above a stream's window",
        "1 FLOW_CONTROL_ERROR",
        [opened(1), data(1, _LONG, 0), *[data(1, bytes(LARGEST_FRAME), 0)] * 15, 1],
    ),
    Case("6.5", "an ACK that nobody asked for", "pong", [frame(SETTINGS, ACK, 0)]),
    Case("6.5.2", "MAX_HEADER_LIST_SIZE 0", "1 answered", [settings((6, 0)), call(1), 1]),
    Case("6.5.2", "HEADER_TABLE_SIZE 0", "1 answered", [settings((1, 0)), call(1), 1]),
    Case("6.5.2", "MAX_CONCURRENT_STREAMS 0", "1 answered", [settings((3, 0)), call(1), 1]),
    Case(
        "6.9.2",
        "a stream's window above 2^31-1 by SETTINGS",
        "GOAWAY FLOW_CONTROL_ERROR",
        [opened(1), window_update(1, 1), settings((4, (1 << 31) - 1))],
    ),
    Case(
        "6.9",
        "no window of the connection is needed for pings",
        "1 headers",
        [settings((4, 0)), call(1), frame(PING, 0, 0, bytes(8))],
    ),
)

TRAILERS = (
    Case("8.1", "trailers", "1 answered", [_with_trailers(("x-checksum", "1")), 1]),
    Case("8.1", "trailers that end nothing", _MALFORMED, [_with_trailers(("x", "y"), flags=0)]),
    Case("8.2.1", "trailers in upper case", _MALFORMED, [_with_trailers(("X-Checksum", "1"))]),
    Case("8.2.2", "trailers of connections", _MALFORMED, [_with_trailers(("connection", "close"))]),
    Case(
        "8.2.2",
        "transfer-encoding in trailers",
        _MALFORMED,
        [_with_trailers(("transfer-encoding", "chunked"))],
    ),
    Case(
        "8.1",
        "a pseudo-header in trailers that end nothing",
        _MALFORMED,
        [_with_trailers((":method", "POST"), flags=0)],
    ),
    Case(
        "8.1.1",
        "trailers in place of announced DATA",
        _MALFORMED,
        [headers(1, request(("content-length", "9"))), headers(1, [("x", "y")], END_STREAM)],
    ),
    Case(
        "8.1",
        "headers, trailers, and headers",
        "GOAWAY STREAM_CLOSED",
        [_with_trailers(("x", "y")), 1, headers(1, [("x", "y")], END_STREAM)],
    ),
)

FIELDS = (
    Case(
        "8.3.1",
        "no :authority",
        "1 answered",
        [headers(1, request(without=":authority")) + data(1), 1],
    ),
    Case("8.3.1", ":authority twice", _MALFORMED, [headers(1, [(":authority", "a"), *request()])]),
    Case(
        "8.3.1",
        "a user in :authority",
        _MALFORMED,
        [headers(1, [(":authority", "me@localhost"), *request(without=":authority")])],
    ),
    Case("8.3.1", "Host of another place", _MALFORMED, [headers(1, request(("host", "x")))]),
    Case(
        "8.3.1",
        "Host of the same place",
        "1 answered",
        [headers(1, request(("host", "LOCALHOST:80"))) + data(1), 1],
    ),
    Case(
        "8.5", "CONNECT", _MALFORMED, [headers(1, [(":method", "CONNECT"), (":authority", "a:1")])]
    ),
    Case("8.2.1", "an empty name", _MALFORMED, [headers(1, request(("", "x")))]),
    Case("8.2.1", "a name with a blank", _MALFORMED, [headers(1, request(("x y", "x")))]),
    Case("8.2.1", "a name with a colon", _MALFORMED, [headers(1, request(("x:y", "x")))]),
    Case("8.2.1", "a value with a line feed", _MALFORMED, [headers(1, request(("x", "a\nb")))]),
    Case(
        "8.2.1", "a value with a carriage return", _MALFORMED, [headers(1, request(("x", "a\rb")))]
    ),
    Case("8.2.1", "a value with a zero byte", _MALFORMED, [headers(1, request(("x", "a\0b")))]),
    Case(
        "8.2.1", "a value that begins with a blank", _MALFORMED, [headers(1, request(("x", " a")))]
    ),
    Case("8.2.1", "a value that ends with a tab", _MALFORMED, [headers(1, request(("x", "a\t")))]),
    Case(
        "8.2.1",
        "a value beyond ASCII",
        "1 answered",
        [headers(1, request(("x", "\xe4"))) + data(1), 1],
    ),
    Case("8.2.2", "keep-alive", _MALFORMED, [headers(1, request(("keep-alive", "1")))]),
    Case("8.2.2", "proxy-connection", _MALFORMED, [headers(1, request(("proxy-connection", "x")))]),
    Case("8.2.2", "upgrade", _MALFORMED, [headers(1, request(("upgrade", "h2c")))]),
    Case(
        "8.2.2",
        "transfer-encoding",
        _MALFORMED,
        [headers(1, request(("transfer-encoding", "chunked")))],
    ),
    Case(
        "8.1.1",
        "content-length as it is",
        "1 answered",
        [call(1, ("content-length", str(len(MESSAGE)))), 1],
    ),
    Case(
        "8.1.1",
        "content-length that is no number",
        _MALFORMED,
        [headers(1, request(("content-length", "1x")))],
    ),
    Case(
        "8.1.1",
        "content-length below zero",
        _MALFORMED,
        [headers(1, request(("content-length", "-1")))],
    ),
    Case(
        "8.1.1",
        "two lengths that differ",
        _MALFORMED,
        [headers(1, request(("content-length", "1"), ("content-length", "2")))],
    ),
    Case(
        "8.1.1",
        "content-length without DATA",
        _MALFORMED,
        [headers(1, request(("content-length", "1")), END_STREAM)],
    ),
)

GRPC = (
    Case("gRPC", "Application/gRPC", "1 answered", [_typed("Application/gRPC"), 1]),
    Case("gRPC", "application/grpc+proto", "1 answered", [_typed("application/grpc+proto"), 1]),
    Case("gRPC", "application/grpc;v=1", "1 answered", [_typed("application/grpc;v=1"), 1]),
    Case("gRPC", "application/grpcx", "1 415", [_typed("application/grpcx")]),
    Case("gRPC", "application/json", "1 415", [_typed("application/json")]),
    Case(
        "gRPC",
        "no content-type",
        "1 415",
        [headers(1, request(without="content-type"), END_STREAM)],
    ),
    Case("gRPC", "no te", "1 answered", [headers(1, request(without="te")) + data(1), 1]),
    Case(
        "gRPC",
        "a path that is none",
        "1 status 12",
        [headers(1, request(path="nowhere"), END_STREAM)],
    ),
    Case(
        "gRPC",
        "a deadline of 99,999,999 hours",
        "1 answered",
        [call(1, ("grpc-timeout", "99999999H")), 1],
    ),
    Case(
        "gRPC",
        "a deadline of no time",
        "1 status 4",
        [headers(1, request(("grpc-timeout", "0n"))), 1],
    ),
    Case(
        "gRPC",
        "a deadline of nine digits",
        "1 status 3",
        [headers(1, request(("grpc-timeout", "123456789S")), END_STREAM), 1],
    ),
    Case(
        "gRPC",
        "an encoding that is not known",
        "1 status 12",
        [headers(1, request(("grpc-encoding", "br")), END_STREAM), 1],
    ),
    Case(
        "gRPC", "two messages of a unary call", "1 status 12", [opened(1) + data(1, MESSAGE * 2), 1]
    ),
    Case("gRPC", "half a message", "1 status 3", [opened(1) + data(1, MESSAGE[:7]), 1]),
    Case(
        "gRPC",
        "70 KB of metadata",
        "1 status 8, 3 answered",
        [headers(1, request(("x", "y" * 70_000)), END_STREAM), call(3), 3],
    ),
    Case(
        "6.5.2",
        "headers of 64 KB",
        "1 answered",
        [headers(1, request(("x", "y" * 65_000))) + data(1), 1],
    ),
    Case(
        "10.5.1",
        "headers of 140 KB",
        "GOAWAY ENHANCE_YOUR_CALM",
        [headers(1, request(("x", "y" * 140_000)))],
    ),
)
