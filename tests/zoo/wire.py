"""Sends one request of gRPC again and again over a plain socket, and waits for each reply.

What a call takes here is the server's part and the sockets': `grpcio`'s client in Python takes some
0.3 ms of its own.
"""

import socket
import struct

from hpack import Decoder

from tests.functional.protocols.http2_client import (
    ACK,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MOST_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    data,
    frame,
    headers,
    request,
    settings,
    window_update,
)
from tests.process import PATIENCE_S

INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 0x4, 0x5
DEFAULT_WINDOW, DEFAULT_FRAME, LARGEST_FRAME = (1 << 16) - 1, 1 << 14, (1 << 24) - 1
HEAD = struct.Struct(">HBBBL")
"""Of a frame: length, kind, flags, number of the stream."""
NUMBER_AT = 5
"""Where a frame's head has the number of its stream."""


class FailedCallError(Exception):
    """The server has ended the call with another status than OK, or the connection."""


class WireClient:
    """One connection with one request, whose frames are made once.

    Windows are kept in both directions: a call waits until the connection's window has room for the
    request, and the bytes of a reply are given back together with the next request.
    """

    def __init__(self, port: int, path: str, message: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb").read
        self._decoder = Decoder()
        self._window = DEFAULT_WINDOW
        self._settings = {INITIAL_WINDOW_SIZE: DEFAULT_WINDOW, MAX_FRAME_SIZE: DEFAULT_FRAME}
        own = settings((INITIAL_WINDOW_SIZE, MOST_WINDOW), (MAX_FRAME_SIZE, LARGEST_FRAME))
        self._socket.sendall(PREFACE + own)
        while self._frame()[0] != SETTINGS:
            pass
        self._content = struct.pack(">BL", 0, len(message)) + message
        self._number, self._received = -1, MOST_WINDOW - DEFAULT_WINDOW
        self._frames = self._written(path)

    def _written(self, path: str) -> bytearray:
        """Write the frames of a call, and note where the number of its stream belongs."""
        most, content = self._settings[MAX_FRAME_SIZE], self._content
        if len(content) > self._settings[INITIAL_WINDOW_SIZE]:
            raise ValueError(f"a request of {len(content)} bytes is larger than a stream's window")
        pieces = [content[at : at + most] for at in range(0, len(content), most)]
        frames = [headers(0, request(path=path)), *(data(0, each, 0) for each in pieces[:-1])]
        frames = [window_update(0, 1), *frames, data(0, pieces[-1], END_STREAM)]
        starts = [sum(map(len, frames[:place])) for place in range(1, len(frames))]
        self._numbers_at = [start + NUMBER_AT for start in starts]
        return bytearray().join(frames)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self) -> memoryview:
        """Send the request, and give the reply's message. Raises: FailedCallError."""
        while self._window < len(self._content):
            self._frame()
        self._window -= len(self._content)
        self._number += 2
        struct.pack_into(">L", self._frames, HEAD.size, self._received)
        # An increment of 0 is a fault, so no update is sent behind a reply without a message.
        begin = 0 if self._received else HEAD.size + 4
        for at in self._numbers_at:
            struct.pack_into(">L", self._frames, at, self._number)
        self._socket.sendall(memoryview(self._frames)[begin:])
        parts: list[bytes] = []
        fields: dict[str, str] = {}
        flags = number = 0
        while number != self._number or not flags & END_STREAM:
            kind, flags, number, payload = self._frame()
            if kind == DATA:
                parts.append(payload)
            elif kind == HEADERS:
                fields.update(self._decoder.decode(payload))
            elif kind == RST_STREAM and number == self._number:
                raise FailedCallError(f"RST_STREAM {payload!r}")
        self._received = sum(map(len, parts))
        if fields.get("grpc-status") != "0":
            raise FailedCallError(f"{fields}")
        return memoryview(b"".join(parts))[5:]

    def _frame(self) -> tuple[int, int, int, bytes]:
        """Read a frame: kind, flags, number, payload. Do what it says of windows."""
        head = self._read(HEAD.size)
        if len(head) < HEAD.size:
            raise FailedCallError("closed")
        size, low, kind, flags, number = HEAD.unpack(head)
        payload = self._read(size << 8 | low)
        if kind == GOAWAY:
            raise FailedCallError(f"GOAWAY {payload!r}")
        if kind == WINDOW_UPDATE and not number:
            self._window += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self._settings.update(struct.iter_unpack(">HL", payload))
            self._socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._socket.sendall(frame(PING, ACK, 0, payload))
        return kind, flags, number, payload
