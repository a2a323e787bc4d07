"""A server of small services on loopback, and a client that sends whatever bytes a test wants.

The client reads with hyperframe and hpack: nothing here is the code under test.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.server.access_log import OptionalWatch
from ie_serving.server.transport.grpc.http2_server import Http2Server
from ie_serving.server.transport.grpc.services import Buffer, CallContext, StreamingMethod

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
UNKNOWN = 0xBE
"""A type of frame that no RFC defines."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMIT = 1 << 20
PATIENCE_S = 20.0
LARGE_WINDOW = (1 << 31) - 1

Header = tuple[str, str]


class Services:
    """What the tests call, and what they learn of it.

    Attributes:
        begun: set when a waiting call has begun.
        gate: waiting calls end when it is set.
        log: what happened to waiting calls.
        causes: what those that were cancelled were told of it.
        contexts: of the calls that were answered.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.log: list[str] = []
        self.causes: list[object] = []
        self.contexts: list[CallContext] = []

    def methods(self) -> dict[str, dict[str, Any]]:
        return {
            "test.Test": {
                "Echo": self._echo,
                "Size": self._size,
                "Wait": self._wait,
                "Stay": self._stay,
                "Fail": self._fail,
                "Break": self._break,
                "Cancel": self._cancel,
                "Chat": StreamingMethod(self._chat),
                "Push": StreamingMethod(self._push),
                "Mute": StreamingMethod(self._mute),
                "Drain": StreamingMethod(self._drain),
            }
        }

    async def _echo(self, payload: Buffer, context: CallContext) -> bytes:
        self.contexts.append(context)
        return bytes(payload)

    async def _size(self, payload: Buffer, _: CallContext) -> bytes:
        return pattern(int(bytes(payload)))

    async def _wait(self, payload: Buffer, context: CallContext) -> bytes:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError as error:
            self.log.append("cancelled")
            self.causes.extend(error.args)
            raise
        self.log.append("answered")
        return bytes(payload)

    async def _stay(self, _: Buffer, __: CallContext) -> bytes:
        """Answer although it is cancelled."""
        with suppress(asyncio.CancelledError):
            await self.gate.wait()
        return b"late"

    async def _fail(self, payload: Buffer, _: CallContext) -> bytes:
        raise InvalidRequest(bytes(payload).decode())

    async def _break(self, _: Buffer, __: CallContext) -> bytes:
        raise ZeroDivisionError("secret")

    async def _cancel(self, _: Buffer, __: CallContext) -> bytes:
        raise asyncio.CancelledError

    async def _chat(
        self, requests: AsyncIterator[Buffer], _: CallContext
    ) -> AsyncGenerator[bytes, None]:
        async for payload in requests:
            yield bytes(payload)

    async def _push(self, _: AsyncIterator[Buffer], __: CallContext) -> AsyncGenerator[bytes, None]:
        """Reply without a request, without end."""
        while True:
            self.log.append("pushed")
            yield bytes(10_000)

    async def _mute(self, _: AsyncIterator[Buffer], __: CallContext) -> AsyncGenerator[bytes, None]:
        self.begun.set()
        try:
            await self.gate.wait()
            yield b"woken"
        finally:
            self.log.append("ended")

    async def _drain(
        self, requests: AsyncIterator[Buffer], __: CallContext
    ) -> AsyncGenerator[bytes, None]:
        """Read all, then tell how many there were."""
        count = 0
        async for _ in requests:
            count += 1
        yield b"%d" % count


def pattern(size: int) -> bytes:
    """Bytes in which no piece can be lost, doubled or moved unseen."""
    return b"".join(struct.pack(">L", i) for i in range(size // 4 + 1))[:size]


def message(content: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BL", compressed, len(content)) + content


def call_headers(method: str, *more: Header) -> list[Header]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/test.Test/{method}"),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    ]


def headers(number: int, fields: list[Header], *flags: str) -> bytes:
    """A HEADERS frame that leaves the table as it is."""
    block = Encoder().encode([(*f, True) for f in fields], huffman=False)
    return HeadersFrame(number, block, flags=["END_HEADERS", *flags]).serialize()


def data(number: int, content: bytes, *flags: str) -> bytes:
    return DataFrame(number, content, flags=flags).serialize()


def call(number: int, method: str, content: bytes = b"", *more: Header) -> bytes:
    """A whole unary call."""
    return headers(number, call_headers(method, *more)) + data(
        number, message(content), "END_STREAM"
    )


def settings(values: dict[int, int] | None = None) -> bytes:
    return SettingsFrame(0, values or {}).serialize()


def window_update(number: int, increment: int) -> bytes:
    return WindowUpdateFrame(number, increment).serialize()


def raw_frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """A frame that need not make sense."""
    return (
        struct.pack(">HBBBL", len(payload) >> 8, len(payload) & 255, kind, flags, number) + payload
    )


HELLO = PREFACE + settings()


@dataclass
class Reply:
    """What came on one stream.

    Attributes:
        fields: headers and trailers together.
        body: content of the DATA frames.
        reset: error code of the RST_STREAM frame that ended it, None without.
    """

    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.fields["grpc-status"])

    @property
    def text(self) -> str:
        return unquote(self.fields["grpc-message"])

    @property
    def messages(self) -> list[bytes]:
        found, rest = [], self.body
        while rest:
            compressed, length = struct.unpack(">BL", rest[:5])
            assert not compressed
            assert len(rest) >= 5 + length
            found.append(rest[5 : 5 + length])
            rest = rest[5 + length :]
        return found


class Peer:
    """One connection of a client.

    Attributes:
        writer: for what `send` cannot do.
        replies: what came so far, by stream.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = Decoder()
        self.replies: dict[int, Reply] = {}
        self._ended: set[int] = set()

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    async def frame(self) -> Frame | None:
        """Read a frame; None when the server has closed."""
        try:
            head = await asyncio.wait_for(self._reader.readexactly(9), PATIENCE_S)
            frame, length = Frame.parse_frame_header(memoryview(head))
            body = await asyncio.wait_for(self._reader.readexactly(length), PATIENCE_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        frame.parse_body(memoryview(body))
        self._note(frame)
        return frame

    def _note(self, frame: Frame) -> None:
        reply = self.replies.setdefault(frame.stream_id, Reply())
        if isinstance(frame, HeadersFrame):
            assert "END_HEADERS" in frame.flags
            reply.fields.update(self._decoder.decode(frame.data))
        elif isinstance(frame, DataFrame):
            reply.body += frame.data
        elif isinstance(frame, RstStreamFrame):
            reply.reset = frame.error_code
        if "END_STREAM" in frame.flags or isinstance(frame, RstStreamFrame):
            self._ended.add(frame.stream_id)

    async def rest(self) -> bytes:
        """Read all bytes that are left."""
        return await asyncio.wait_for(self._reader.read(), PATIENCE_S)

    async def reply(self, number: int) -> Reply:
        """Read until a stream has ended."""
        while number not in self._ended:
            frame = await self.frame()
            assert frame is not None, f"closed before stream {number} ended"
            assert not isinstance(frame, GoAwayFrame), frame
        return self.replies[number]

    async def until(self, kind: type[Frame]) -> Any:
        """Read until a frame of `kind`."""
        while not isinstance(frame := await self.frame(), kind):
            assert frame is not None, f"closed without {kind.__name__}"
        return frame

    async def pong(self) -> None:
        """Wait until the server has read all that was sent."""
        self.send(PingFrame(0, b"barrier!").serialize())
        while True:
            frame = await self.until(PingFrame)
            if frame.opaque_data == b"barrier!" and "ACK" in frame.flags:
                return

    async def goaway(self) -> Any:
        """Read until the server says that something was wrong, and closes."""
        found = await self.until(GoAwayFrame)
        while not found.error_code:
            found = await self.until(GoAwayFrame)
        self.writer.write_eof()  # now the server need not wait for what is under way
        assert await self.frame() is None
        return found

    async def gone(self) -> None:
        while await self.frame() is not None:
            pass

    async def close(self) -> None:
        self.writer.close()


async def ended_tasks() -> None:
    """Wait until no task but the test's is left."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=PATIENCE_S)


async def works(peer: Peer, number: int = 99) -> None:
    """Ask for something simple on a connection that must have gone on."""
    peer.send(call(number, "Echo", b"still here"))
    assert (await peer.reply(number)).messages == [b"still here"]


@dataclass
class Served:
    """A running server."""

    server: Http2Server
    services: Services
    port: int
    refused: list[Exception]
    peers: list[Peer] = field(default_factory=list)

    async def connect(self, *greeting: bytes, receive_buffer: int = 0) -> Peer:
        bound = socket.socket()
        if receive_buffer:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        bound.setblocking(False)
        await asyncio.get_running_loop().sock_connect(bound, ("127.0.0.1", self.port))
        peer = Peer(*await asyncio.open_connection(sock=bound, limit=receive_buffer or 1 << 16))
        peer.send(*(greeting or (HELLO,)))
        self.peers.append(peer)
        return peer

    async def reply(self, *sent: bytes) -> Reply:
        """Send on a new connection, and give what comes on its stream 1."""
        peer = await self.connect()
        peer.send(*sent)
        return await peer.reply(1)


@asynccontextmanager
async def serving(
    limit: int = LIMIT, watch: OptionalWatch | None = None, **options: float
) -> AsyncIterator[Served]:
    """Serve until the block ends; `watch` tells of the calls."""
    services = Services()
    refused: list[Exception] = []
    watch = watch or OptionalWatch("", "text")
    methods, _ = watch.grpc(services.methods(), None)
    server = Http2Server(
        methods,
        max_message_bytes=limit,
        refused=refused.append,
        calls=watch.calls(),
        **options,
    )
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    await server.listen([bound])
    served = Served(server, services, bound.getsockname()[1], refused)
    try:
        yield served
    finally:
        for peer in served.peers:
            peer.writer.transport.abort()
        await server.drain(PATIENCE_S)
