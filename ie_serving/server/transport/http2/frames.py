"""HTTP/2 frames: numbers, layout, and writers for the frames of the server. Source: RFC 9113."""

import enum
import struct

HEAD = struct.Struct(">HBBBL")
"""A frame's head: length in 16 + 8 bits, type, flags, stream. 9 bytes."""
HEAD_BYTES = HEAD.size

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

# Flags; sections 6.1, 6.2, 6.5 and 6.7.
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

# Names of settings; section 6.5.2.
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Sizes in bytes: defaults that apply until SETTINGS or WINDOW_UPDATE change them, and the largest
# values that these may set. Sections 6.5.2 and 6.9.1.
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME = 16_384
LARGEST_FRAME_SETTING = (1 << 24) - 1
LARGEST_WINDOW = (1 << 31) - 1
LAST_STREAM = (1 << 31) - 1
"""The highest stream number, and the mask that removes the reserved bit."""
PRIORITY_BYTES = 5
"""Length of the priority at the start of HEADERS, if it has one; section 6.2."""

_SETTING = struct.Struct(">HL")
_NUMBER = struct.Struct(">L")
_TWO_NUMBERS = struct.Struct(">LL")


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ends; section 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class ConnectionFault(Exception):
    """The peer broke the protocol in a way that ends the connection.

    Attributes:
        code: error code of the GOAWAY frame.
        text: fault, for the GOAWAY frame.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """Write a frame's head."""
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def settings(values: dict[int, int]) -> bytes:
    """Write a SETTINGS frame; section 6.5."""
    payload = b"".join(_SETTING.pack(name, value) for name, value in values.items())
    return head(SETTINGS, 0, 0, len(payload)) + payload


SETTINGS_ACK = head(SETTINGS, ACK, 0, 0)


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    """Write a RST_STREAM frame; section 6.4."""
    return head(RST_STREAM, 0, stream, _NUMBER.size) + _NUMBER.pack(code)


def window_update(stream: int, increment: int) -> bytes:
    """Write a WINDOW_UPDATE frame; section 6.9. Stream 0 is the connection."""
    return head(WINDOW_UPDATE, 0, stream, _NUMBER.size) + _NUMBER.pack(increment)


def ping(payload: bytes, flags: int = 0) -> bytes:
    """Write a PING frame of 8 bytes; section 6.7."""
    return head(PING, flags, 0, len(payload)) + payload


def goaway(last: int, code: ErrorCode, text: str = "") -> bytes:
    """Write a GOAWAY frame; section 6.8."""
    payload = _TWO_NUMBERS.pack(last, code) + text.encode()
    return head(GOAWAY, 0, 0, len(payload)) + payload


def headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """Write a header block that fits into one HEADERS frame; section 6.2."""
    flags = END_HEADERS | (END_STREAM if ends else 0)
    return head(HEADERS, flags, stream, len(block)) + block


def read_number(payload: bytes) -> int:
    """Read the 32 bits that make up a WINDOW_UPDATE frame, or begin a PRIORITY frame."""
    number: int = _NUMBER.unpack_from(payload)[0]
    return number


def read_settings(payload: bytes) -> dict[int, int]:
    """Read the values of a SETTINGS frame; the last one of a repeated setting counts.

    Raises:
        ConnectionFault: a value is out of its range.
    """
    values = {}
    for name, value in _SETTING.iter_unpack(payload):
        _check_setting(name, value)
        values[name] = value
    return values


def _check_setting(name: int, value: int) -> None:
    if name == INITIAL_WINDOW_SIZE and value > LARGEST_WINDOW:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "initial window above 2^31-1")
    if name == MAX_FRAME_SIZE and not DEFAULT_FRAME <= value <= LARGEST_FRAME_SETTING:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "frame size out of range")
    if name == ENABLE_PUSH and value > 1:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")


def depends_on(flags: int, payload: bytes) -> int | None:
    """Read the stream that HEADERS depend on; section 6.2. None: they name none."""
    if not flags & WITH_PRIORITY:
        return None
    return read_number(payload[1:] if flags & PADDED else payload) & LAST_STREAM


def unpadded(flags: int, payload: bytes) -> bytes:
    """Remove padding and priority from the payload of a DATA or HEADERS frame; section 6.1, 6.2.

    Raises:
        ConnectionFault: there is more padding than payload.
    """
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padded frame without padding length")
        start, end = 1, end - payload[0]
    if flags & WITH_PRIORITY:
        start += PRIORITY_BYTES
    if start > end:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[start:end]
