"""A handshake is counted, bounded in time, and loses nothing; over real sockets on loopback."""

import asyncio
import gc
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager, suppress
from weakref import WeakSet

import pytest

from ie_serving.server.transport.connection_limit import EXTRA, ConnectionLimit
from ie_serving.server.transport.handshake import (
    FailedHandshakes,
    Handshake,
    ServerContext,
    TlsSettings,
)
from tests.certificates import Authority

PATIENCE_S = 10


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def listening(
    authority: Authority,
    limit: ConnectionLimit,
    limit_s: float = PATIENCE_S,
    failed: FailedHandshakes | None = None,
) -> AsyncIterator[int]:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server().paths)
    secure = TlsSettings(lambda: context, failed or FailedHandshakes())

    def greet() -> Handshake:
        return Handshake(secure, Echo, limit.opened, limit.closed, limit_s)

    server = await asyncio.get_running_loop().create_server(greet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.path)


async def test_the_protocol_takes_over(authority: Authority) -> None:
    async with listening(authority, ConnectionLimit()) as port:
        reader, writer = await asyncio.open_connection(
            "localhost", port, ssl=trusting(authority), family=2
        )
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.readexactly(5), PATIENCE_S) == b"hello"
        writer.close()


def _first_flight(authority: Authority) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return client, incoming, outgoing


async def test_data_right_behind_the_handshake_are_read(authority: Authority) -> None:
    """In one packet with its last message, and in pieces of few bytes."""
    async with listening(authority, ConnectionLimit()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client, incoming, outgoing = _first_flight(authority)
        hello = outgoing.read()
        for start in range(0, len(hello), 100):
            writer.write(hello[start : start + 100])
            await writer.drain()
        while not _is_over(client):
            incoming.write(await asyncio.wait_for(reader.read(65536), PATIENCE_S))
        client.write(b"hello")
        writer.write(outgoing.read())
        answer = b""
        while not answer:
            incoming.write(await asyncio.wait_for(reader.read(65536), PATIENCE_S))
            with suppress(ssl.SSLWantReadError):
                answer = client.read()
        assert answer == b"hello"
        writer.close()


def _is_over(client: ssl.SSLObject) -> bool:
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


_HELLO = b"\x03\x01" + bytes(32) + b"\x00" + b"\x00\x02\x00\x2f" + b"\x01\x00"
_MESSAGE = b"\x01" + len(_HELLO).to_bytes(3, "big") + _HELLO
HELLO_OF_TLS_1_0 = b"\x16\x03\x01" + len(_MESSAGE).to_bytes(2, "big") + _MESSAGE
ALERT_PROTOCOL_VERSION = b"\x15\x03\x01\x00\x02\x02\x46"


@pytest.mark.parametrize(
    ("said", "answer", "reason"),
    [
        pytest.param(b"", b"", "timeout", id="nothing"),
        pytest.param(b"\x16\x03\x01", b"", "timeout", id="a part of a message"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 ", "not_tls", id="plain HTTP"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\n", b"", "not_tls", id="plain HTTP/2"),
        pytest.param(HELLO_OF_TLS_1_0, ALERT_PROTOCOL_VERSION, "no_overlap", id="TLS 1.0"),
    ],
)
async def test_a_client_that_does_not_agree_is_told_and_counted(
    authority: Authority, said: bytes, answer: bytes, reason: str
) -> None:
    failed = FailedHandshakes()
    async with listening(authority, ConnectionLimit(), 0.2, failed) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        with suppress(ConnectionResetError):
            told = await asyncio.wait_for(reader.read(), PATIENCE_S)
            assert told.startswith(answer)
            assert bool(told) == bool(answer)
        writer.close()
    assert failed.counts == {reason: 1}


async def test_a_client_that_sends_on_still_reads_why(authority: Authority) -> None:
    """The connection is not reset by what it sends before it knows."""
    failed = FailedHandshakes()
    async with listening(authority, ConnectionLimit(), failed=failed) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        await _until(lambda: failed.counts["not_tls"] == 1)
        writer.write(b"host: localhost\r\n\r\n")
        told = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
    assert told.endswith(b"this port is encrypted, and the request was not: use https://\n")


async def test_one_that_stays_is_closed(authority: Authority) -> None:
    limit, failed = ConnectionLimit(), FailedHandshakes()
    async with listening(authority, limit, failed=failed) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        await _until(lambda: bool(failed.counts))
        await _until(lambda: not limit.count)
        writer.close()
    assert failed.counts == {"not_tls": 1}


async def test_a_client_that_leaves_is_counted_and_not_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """As probes do that only open the port."""
    failed = FailedHandshakes()
    caplog.set_level(logging.INFO)
    async with listening(authority, ConnectionLimit(), failed=failed) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await _until(lambda: bool(failed.counts))
    assert failed.counts == {"left": 1}
    assert not caplog.messages


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
async def test_one_that_fails_leaves_no_memory_behind(
    authority: Authority, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even until the garbage collector comes, which strangers could be faster than."""
    begun: WeakSet[Handshake] = WeakSet()
    limit = ConnectionLimit()
    opened = limit.opened
    monkeypatch.setattr(limit, "opened", lambda each: (begun.add(each), opened(each)))
    gc.disable()
    try:
        async with listening(authority, limit, 0.2) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            with suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), PATIENCE_S)
            writer.close()
            await asyncio.wait_for(_gone(begun), PATIENCE_S)
    finally:
        gc.enable()


async def _gone(begun: Sized) -> None:
    while len(begun):
        await asyncio.sleep(0)


async def test_connections_that_say_nothing_give_way(authority: Authority) -> None:
    limit = ConnectionLimit(1)
    async with listening(authority, limit) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(EXTRA)]
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(silent[0][0].read(), PATIENCE_S) == b""
        for _, writer in silent:
            writer.close()
