"""A client of HTTP/2 that sends any bytes, and says in one line what they came to.

It writes frames by hand and reads them with hyperframe and hpack, none of them the code under test.
"""

import socket
import struct
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
)

from tests.process import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE = range(6)
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(6, 10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20
MOST_WINDOW = (1 << 31) - 1

Header = tuple[str, str]
Step = bytes | int
"""Bytes to send, or the number of a stream whose end is awaited; see `PONG`."""
PONG = 0
"""As a step: await the answer to a ping, so that what follows is read by itself."""

CODES = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
)
_LAST = 999_999
"""Number of the stream by which a connection is tried that must have gone on."""
_FIRST = b"between."
_BARRIER = b"barrier!"
_AGAIN = b"again..."


class Case(NamedTuple):
    """One row of a table.

    Attributes:
        section: of RFC 9113, or of RFC 7541 where it says so.
        name: what is sent.
        outcome: what comes of it, as `outcome` writes it.
        sent: behind the preface.
    """

    section: str
    name: str
    outcome: str
    sent: Sequence[Step]


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """A frame that need not make sense."""
    size = len(payload)
    return struct.pack(">HBBBL", size >> 8, size & 255, kind, flags, number) + payload


def block(fields: Sequence[Header]) -> bytes:
    """A header block that leaves the table as it is."""
    return Encoder().encode([(*field, True) for field in fields], huffman=False)


def settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *value) for value in values))


def window_update(number: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, number, struct.pack(">L", increment))


def priority(number: int, depends_on: int, weight: int = 0) -> bytes:
    return frame(PRIORITY, 0, number, struct.pack(">LB", depends_on, weight))


def reset(number: int, code: int = 8) -> bytes:
    return frame(RST_STREAM, 0, number, struct.pack(">L", code))


HELLO = PREFACE + settings()
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
_QUESTION = b"\x0a\x08\x0a\x06digits"
"""GetModelStatusRequest: model_spec { name: "digits" }."""
MESSAGE = struct.pack(">BL", 0, len(_QUESTION)) + _QUESTION


def message_of(size: int) -> bytes:
    """The same question, behind a field that nobody reads: `size` bytes, from 16 KB to 2 MB."""
    filling = size - 5 - len(_QUESTION) - 4
    length = bytes([filling & 127 | 128, filling >> 7 & 127 | 128, filling >> 14])
    return struct.pack(">BL", 0, size - 5) + _QUESTION + b"\x7a" + length + bytes(filling)


def request(*more: Header, without: str = "", path: str = STATUS) -> list[Header]:
    """Headers of a call that is answered, but for those of one name, and with `more`."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    return [field for field in fields if field[0] != without] + list(more)


def headers(number: int, fields: Sequence[Header], flags: int = 0) -> bytes:
    return frame(HEADERS, END_HEADERS | flags, number, block(fields))


def opened(number: int, flags: int = 0) -> bytes:
    """Headers of a call."""
    return headers(number, request(), flags)


def data(number: int, content: bytes = MESSAGE, flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, number, content)


def call(number: int, *more: Header) -> bytes:
    """A whole call."""
    return headers(number, request(*more)) + data(number)


class _Answer:
    """What came on one stream."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.body = b""
        self.sizes: list[int] = []
        self.reset: int | None = None
        self.whole = False

    def __str__(self) -> str:
        if self.reset:
            return CODES[self.reset]
        if not self.whole:
            return f"data of {self.sizes}" if self.sizes else "headers"
        if self.fields[":status"] != "200":
            return self.fields[":status"]
        status = self.fields["grpc-status"]
        return "answered" if status == "0" else f"status {status}"


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._file = self._socket.makefile("rb")
        self._decoder = Decoder()
        self._answers: dict[int, _Answer] = {}
        self._fault = ""

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def outcome(self, steps: Sequence[Step]) -> str:
        """Send, and say what came of it: of the connection if that failed, else of each stream.

        A connection that has not failed must answer one more call, and pings before that.
        """
        for step in steps:
            if isinstance(step, bytes):
                self.send(step)
            elif step == PONG:
                self._ping(_FIRST)
            else:
                self.answer(step)
        # Data may follow the answer to a ping that was read together with what asks for the data.
        self._ping(_BARRIER)
        self._ping(_AGAIN)
        if self._fault:
            return self._fault
        seen = sorted(self._answers.items())
        self._try_again()
        return self._fault or ", ".join(f"{number} {answer}" for number, answer in seen) or "pong"

    def send(self, data: bytes) -> None:
        """Send bytes; drop them where the server has said why it ends."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            assert self._fault, "closed without a reason"

    def answer(self, number: int) -> str:
        """Read until a stream has ended or the connection has failed; say what came of it."""
        while not self._fault and not (
            (answer := self._answers.get(number)) and (answer.whole or answer.reset is not None)
        ):
            self._read()
        return self._fault or str(self._answers[number])

    def body(self, number: int) -> bytes:
        """What a stream was answered with."""
        return self._answers[number].body

    def _ping(self, payload: bytes) -> None:
        self.send(frame(PING, 0, 0, payload))
        while not self._fault:
            found = self._read()
            if isinstance(found, PingFrame) and found.opaque_data == payload:
                return

    def _try_again(self) -> None:
        self.send(opened(_LAST) + window_update(_LAST, 1000) + data(_LAST))
        assert self.answer(_LAST) == "answered" or self._fault

    def _read(self) -> Frame | None:
        head = self._file.read(9)
        if len(head) < 9:
            self._fault = self._fault or "closed"
            return None
        if head == b"HTTP/1.1 ":
            self._fault = f"HTTP/1.1 {self._file.read(3).decode()}"
            return None
        found, length = Frame.parse_frame_header(memoryview(head))
        found.parse_body(memoryview(self._file.read(length)))
        self._note(found)
        return found

    def _note(self, found: Frame) -> None:
        if isinstance(found, GoAwayFrame):
            self._end(found)
        if not found.stream_id or not isinstance(found, (DataFrame, HeadersFrame, RstStreamFrame)):
            return
        answer = self._answers.setdefault(found.stream_id, _Answer())
        if isinstance(found, HeadersFrame):
            answer.fields.update(self._decoder.decode(found.data))
        elif isinstance(found, DataFrame):
            answer.body += found.data
            answer.sizes.append(len(found.data))
        elif isinstance(found, RstStreamFrame):
            answer.reset = found.error_code
        answer.whole = answer.whole or "END_STREAM" in found.flags

    def _end(self, found: GoAwayFrame) -> None:
        """Know why the connection ends, and see that it does."""
        if not found.error_code:
            return
        self._fault = f"GOAWAY {CODES[found.error_code]}"
        # Now the server need not wait for what is under way.
        self._socket.shutdown(socket.SHUT_WR)
        assert not self._file.read(), "frames behind GOAWAY"


def outcome(port: int, *steps: Step) -> str:
    """Send `steps` on a new connection and say what comes of them. See `Client.outcome`."""
    with closing(Client(port)) as client:
        return client.outcome(steps)
