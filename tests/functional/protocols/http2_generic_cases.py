"""What every HTTP/2 client may do: the cases of h2spec's sections generic/1 to generic/5.

Its requests are calls here, since this port answers nothing else with data; see
docs/design/transports.md.
"""

from tests.functional.protocols.http2_client import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MESSAGE,
    PADDED,
    PING,
    WITH_PRIORITY,
    Case,
    block,
    call,
    data,
    frame,
    headers,
    opened,
    priority,
    request,
    reset,
    settings,
    window_update,
)

_NO_WINDOW = settings((4, 0))
_GO = window_update(1, 1000)
_BLOCK = block(request())
_EXCLUSIVE = 1 << 31
_HALF = len(MESSAGE) // 2


def _with_field(written: bytes) -> bytes:
    """A call whose headers end with one field that is written in this way."""
    return frame(HEADERS, END_HEADERS, 1, _BLOCK + written) + data(1)


def _in_parts(*parts: bytes) -> bytes:
    """A call whose headers come in a HEADERS and some CONTINUATION frames."""
    first, *middle, last = parts
    return b"".join(
        [
            frame(HEADERS, 0, 1, first),
            *[frame(CONTINUATION, 0, 1, part) for part in middle],
            frame(CONTINUATION, END_HEADERS, 1, last),
            data(1),
        ]
    )


_ADDED = b"\x40"
_NEW = b"\x06x-test\x06h2spec"
_WRITTEN = {
    "name": b"\x0auser-agent\x06h2spec",
    "name by Huffman": bytes.fromhex("87b505b161cc5a93849c48aca4"),
    "new name": _NEW,
    "new name by Huffman": bytes.fromhex("85f2b24a84ff849c48aca4"),
}
_REPRESENTED = (
    ("6.2.1", "added", _ADDED),
    ("6.2.2", "not added", b"\x00"),
    ("6.2.3", "never added", b"\x10"),
)

GENERIC = (
    Case("3.4", "the preface alone", "pong", ()),
    # generic/2: states.
    Case("5.1", "PRIORITY on an idle stream", "pong", [priority(1, 0, 255)]),
    Case(
        "5.1",
        "WINDOW_UPDATE on a half-closed stream",
        "1 answered",
        [_NO_WINDOW, call(1), _GO, 1],
    ),
    Case(
        "5.1",
        "PRIORITY on a half-closed stream",
        "1 answered",
        [_NO_WINDOW, call(1), priority(1, 0, 255), _GO, 1],
    ),
    Case("5.1", "RST_STREAM on a half-closed stream", "1 headers", [_NO_WINDOW, call(1), reset(1)]),
    Case("5.1", "PRIORITY on a closed stream", "1 answered", [call(1), 1, priority(1, 0, 255)]),
    # generic/3: each frame.
    Case("6.1", "DATA", "1 answered", [call(1), 1]),
    Case(
        "6.1",
        "several DATA",
        "1 answered",
        [opened(1), data(1, MESSAGE[:_HALF], 0), data(1, MESSAGE[_HALF:]), 1],
    ),
    Case(
        "6.1",
        "DATA with padding",
        "1 answered",
        [opened(1), data(1, b"\x05" + MESSAGE + bytes(5), PADDED | END_STREAM), 1],
    ),
    Case("6.2", "HEADERS", "1 status 12", [opened(1, END_STREAM), 1]),
    Case(
        "6.2",
        "HEADERS with padding",
        "1 answered",
        [frame(HEADERS, END_HEADERS | PADDED, 1, b"\x05" + _BLOCK + bytes(5)), data(1), 1],
    ),
    Case(
        "6.2",
        "HEADERS with a priority",
        "1 answered",
        [frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, bytes(4) + b"\xff" + _BLOCK), data(1), 1],
    ),
    Case("6.3", "PRIORITY of weight 1", "1 answered", [priority(1, 0, 0), call(1), 1]),
    Case("6.3", "PRIORITY of weight 256", "1 answered", [priority(1, 0, 255), call(1), 1]),
    Case("6.3", "PRIORITY on another stream", "1 answered", [priority(3, 1), call(1), 1]),
    Case("6.3", "PRIORITY, exclusive", "1 answered", [priority(1, _EXCLUSIVE), call(1), 1]),
    Case("6.3", "PRIORITY on a higher idle stream", "1 answered", [priority(3, 0), call(1), 1]),
    Case("6.4", "RST_STREAM", "pong", [opened(1), reset(1)]),
    Case(
        "6.5",
        "SETTINGS of every name",
        "pong",
        [settings((1, 4096), (2, 1), (3, 100), (4, 65_535), (5, 16_384), (6, 100))],
    ),
    Case("6.7", "PING", "pong", [frame(PING, 0, 0, bytes(8))]),
    Case("6.8", "GOAWAY", "pong", [frame(GOAWAY, 0, 0, bytes(8))]),
    Case("6.9", "WINDOW_UPDATE of the connection", "pong", [window_update(0, 1)]),
    Case("6.9", "WINDOW_UPDATE of a stream", "1 answered", [opened(1), _GO, data(1), 1]),
    Case("6.10", "CONTINUATION", "1 answered", [_in_parts(_BLOCK, block([("a", "b")])), 1]),
    Case(
        "6.10",
        "several CONTINUATION",
        "1 answered",
        [_in_parts(_BLOCK[:9], _BLOCK[9:10], b"", _BLOCK[10:]), 1],
    ),
    # generic/4: requests. A page is no call: it is refused by HTTP's means.
    Case("8.1", "GET", "1 405", [headers(1, [(":method", "GET"), *request()[1:]], END_STREAM)]),
    Case("8.1", "a call", "1 answered", [call(1), 1]),
    Case("8.1", "HEAD", "1 405", [headers(1, [(":method", "HEAD"), *request()[1:]], END_STREAM)]),
    Case(
        "8.1",
        "a call with trailers",
        "1 answered",
        [opened(1), data(1, MESSAGE, 0), headers(1, [("x-test", "ok")], END_STREAM), 1],
    ),
    # generic/5: HPACK, RFC 7541.
    Case(
        "HPACK 6.1",
        "an indexed field",
        "1 answered, 3 answered",
        [
            _with_field(_ADDED + _NEW),
            1,
            frame(HEADERS, END_HEADERS, 3, _BLOCK + b"\xbe"),
            data(3),
            3,
        ],
    ),
    Case("HPACK 6.2.1", "indexed name, added", "1 answered", [_with_field(b"\x7a\x01x"), 1]),
    *[
        Case(f"HPACK {section}", f"{name}, {how}", "1 answered", [_with_field(first + written), 1])
        for section, how, first in _REPRESENTED
        for name, written in _WRITTEN.items()
    ],
    Case(
        "HPACK 6.3",
        "a change of the table's size",
        "1 answered",
        [frame(HEADERS, END_HEADERS, 1, b"\x20" + _BLOCK), data(1), 1],
    ),
    Case(
        "HPACK 4.2",
        "two changes of the table's size",
        "1 answered",
        [frame(HEADERS, END_HEADERS, 1, b"\x20\x3f\xe1\x1f" + _BLOCK), data(1), 1],
    ),
)
