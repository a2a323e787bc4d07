"""Requests: the cases of h2spec's sections http2/8.1 to http2/8.2 and hpack/2.3.3 to hpack/6.3."""

from tests.functional.protocols.http2_client import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MESSAGE,
    PUSH_PROMISE,
    Case,
    block,
    data,
    frame,
    headers,
    opened,
    request,
)

_PROTOCOL = "GOAWAY PROTOCOL_ERROR"
_COMPRESSION = "GOAWAY COMPRESSION_ERROR"
_MALFORMED = "1 PROTOCOL_ERROR"
_BLOCK = block(request())
_SIZE = len(MESSAGE)

MESSAGES = (
    Case("8.1", "a second HEADERS without END_STREAM", _MALFORMED, [opened(1), opened(1)]),
    Case("8.2.1", "a name in upper case", _MALFORMED, [headers(1, request(("X-TEST", "ok")))]),
    Case(
        "8.3", "an unknown pseudo-header", _MALFORMED, [headers(1, [(":test", "ok"), *request()])]
    ),
    Case(
        "8.3",
        "a pseudo-header of replies",
        _MALFORMED,
        [headers(1, [(":status", "200"), *request()])],
    ),
    Case(
        "8.1",
        "a pseudo-header in trailers",
        _MALFORMED,
        [opened(1), data(1, MESSAGE, 0), headers(1, [(":method", "POST")], END_STREAM)],
    ),
    Case(
        "8.3",
        "a pseudo-header behind others",
        _MALFORMED,
        [headers(1, request((":method", "POST"), without=":method"))],
    ),
    Case(
        "8.2.2",
        "a connection's header",
        _MALFORMED,
        [headers(1, request(("connection", "keep-alive")))],
    ),
    Case(
        "8.2.2",
        "TE other than trailers",
        _MALFORMED,
        [headers(1, request(("te", "trailers, deflate"), without="te"))],
    ),
    Case("8.3.1", "an empty :path", _MALFORMED, [headers(1, request(path=""))]),
    Case("8.3.1", "no :method", _MALFORMED, [headers(1, request(without=":method"))]),
    Case("8.3.1", "no :scheme", _MALFORMED, [headers(1, request(without=":scheme"))]),
    Case("8.3.1", "no :path", _MALFORMED, [headers(1, request(without=":path"))]),
    Case("8.3.1", ":method twice", _MALFORMED, [headers(1, [(":method", "POST"), *request()])]),
    Case("8.3.1", ":scheme twice", _MALFORMED, [headers(1, [(":scheme", "http"), *request()])]),
    Case("8.3.1", ":path twice", _MALFORMED, [headers(1, [(":path", "/"), *request()])]),
    Case(
        "8.1.1",
        "content-length other than the DATA",
        _MALFORMED,
        [headers(1, request(("content-length", "1"))), data(1)],
    ),
    Case(
        "8.1.1",
        "content-length other than all DATA",
        _MALFORMED,
        [
            headers(1, request(("content-length", str(_SIZE + 1)))),
            data(1, MESSAGE[:4], 0),
            data(1, MESSAGE[4:]),
        ],
    ),
    Case(
        "8.4",
        "PUSH_PROMISE",
        _PROTOCOL,
        [opened(1), frame(PUSH_PROMISE, 4, 1, b"\0\0\0\3" + _BLOCK)],
    ),
)


def _compressed(written: bytes) -> list[bytes]:
    return [frame(HEADERS, END_HEADERS | END_STREAM, 1, written)]


COMPRESSION = (
    Case("HPACK 2.3.3", "an index beyond the tables", _COMPRESSION, _compressed(_BLOCK + b"\xc6")),
    Case(
        "HPACK 2.3.3",
        "a name's index beyond the tables",
        _COMPRESSION,
        _compressed(_BLOCK + b"\x7f\x07\x05empty"),
    ),
    Case(
        "HPACK 4.2", "a change of size at the end", _COMPRESSION, _compressed(_BLOCK + b"\x3f\x01")
    ),
    Case(
        "HPACK 5.2",
        "padding of more than 7 bits",
        _COMPRESSION,
        _compressed(_BLOCK + bytes.fromhex("0085f2b24a84ff8449509fff")),
    ),
    Case(
        "HPACK 5.2",
        "padding with zeros",
        _COMPRESSION,
        _compressed(_BLOCK + bytes.fromhex("0085f2b24a84ff83495090")),
    ),
    Case(
        "HPACK 5.2",
        "a string with EOS",
        _COMPRESSION,
        _compressed(_BLOCK + bytes.fromhex("0085f2b24a84ff87fffffffd25427f")),
    ),
    Case("HPACK 6.1", "index 0", _COMPRESSION, _compressed(_BLOCK + b"\x80")),
    Case(
        "HPACK 6.3",
        "a table larger than announced",
        _COMPRESSION,
        _compressed(b"\x3f\xe1\xff\x03" + _BLOCK),
    ),
)
