"""One port, two protocols: who gets a connection, and that none is held without a bound."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress

import pytest

from ie_serving.server.transport.connection_limit import EXTRA, ConnectionLimit
from ie_serving.server.transport.shared_port import SharedPort, UndecidedConnection
from tests.tables import named_by

PATIENCE_S = 10
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Named:
    """A server whose connections say its name, then everything that they hear."""

    in_flight = 1

    def __init__(self, name: bytes) -> None:
        self._name = name
        self.drained = asyncio.Event()

    def connect(self) -> asyncio.Protocol:
        return _Line(self._name)

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        assert not bound

    async def drain(self, timeout_s: float) -> int:
        self.drained.set()
        return int(timeout_s)


class _Line(asyncio.Protocol):
    def __init__(self, name: bytes) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._name + b":")

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@asynccontextmanager
async def listening(limit: ConnectionLimit) -> AsyncIterator[tuple[SharedPort, int]]:
    shared = SharedPort(Named(b"rest"), Named(b"grpc"), limit)
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        port = bound.getsockname()[1]
        await shared.listen([bound])
        yield shared, port
        await asyncio.wait_for(shared.drain(1), PATIENCE_S)


async def _counts(limit: ConnectionLimit, connections: int) -> None:
    while limit.count != connections:
        await asyncio.sleep(0)


SAID = [
    (PREFACE, b"grpc"),
    (b"GET / HTTP/1.1\r\n\r\n", b"rest"),
    (b"POST / HTTP/1.1\r\n\r\n", b"rest"),
    (b"PROPFIND / HTTP/1.1\r\n\r\n", b"rest"),
    (b"\x16\x03\x01", b"rest"),  # TLS to a plain port: HTTP/1.1's server says what is wrong
]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
@named_by("said", ("said", "who"), SAID)
async def test_the_first_bytes_decide(said: bytes, who: bytes, at_once: bool) -> None:
    limit = ConnectionLimit()
    async with listening(limit) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        pieces = [said] if at_once else [bytes([byte]) for byte in said]
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        expected = who + b":" + said
        assert await asyncio.wait_for(reader.readexactly(len(expected)), PATIENCE_S) == expected
        assert limit.count == 0, "the protocol that took it over counts it"
        writer.close()


async def test_a_client_that_leaves_without_a_word_is_forgotten() -> None:
    limit = ConnectionLimit()
    async with listening(limit) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await asyncio.wait_for(_counts(limit, 0), PATIENCE_S)


async def test_clients_that_say_nothing_give_way() -> None:
    async with listening(ConnectionLimit(1)) as (_, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(EXTRA)]
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(silent[0][0].read(), PATIENCE_S) == b""
        for _, writer in silent:
            writer.close()


async def test_a_client_that_says_nothing_is_sent_away_in_the_end() -> None:
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    server = await loop.create_server(
        lambda: UndecidedConnection(
            asyncio.Protocol, asyncio.Protocol, id, lambda _: gone.set(), 0.01
        ),
        "127.0.0.1",
        0,
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"P")
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        await asyncio.wait_for(gone.wait(), PATIENCE_S)
        writer.close()


async def test_a_drain_is_that_of_both_and_gives_the_undecided_a_moment() -> None:
    rest, grpc = Named(b"rest"), Named(b"grpc")
    limit = ConnectionLimit()
    shared = SharedPort(rest, grpc, limit)
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        port = bound.getsockname()[1]
        await shared.listen([bound])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait_for(_counts(limit, 1), PATIENCE_S)
        assert shared.in_flight == 2
        drain = asyncio.ensure_future(shared.drain(3))
        await asyncio.sleep(0)
        writer.write(PREFACE)
        expected = b"grpc:" + PREFACE
        assert await asyncio.wait_for(reader.readexactly(len(expected)), PATIENCE_S) == expected
        assert await asyncio.wait_for(drain, PATIENCE_S) == 6
        assert rest.drained.is_set() and grpc.drained.is_set()
        writer.close()
