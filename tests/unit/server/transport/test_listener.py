"""Which connections are open, and how they end; over real sockets on loopback."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from ie_serving.server.transport import listener as listener_module
from ie_serving.server.transport.connection_limit import ConnectionLimit
from ie_serving.server.transport.handshake import FailedHandshakes, ServerContext, TlsSettings
from ie_serving.server.transport.listener import DrainStep, Listener
from tests.certificates import Authority

PATIENCE_S = 10


class Line(asyncio.Protocol):
    """A connection that ends when it is told to, and says what was done to it."""

    def __init__(self, said: list[str]) -> None:
        self.said = said
        self.transport: asyncio.BaseTransport
        self.made = asyncio.Event()
        self.listener: Listener[Line]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.listener.opened(self)
        self.made.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.said.append("closed")
        self.listener.closed(self)

    def warn(self) -> None:
        self.said.append("warned")

    def end(self) -> None:
        self.transport.close()

    @staticmethod
    def end_all_but(kept: "Line") -> Callable[["Line"], None]:
        return lambda line: None if line is kept else line.end()


@asynccontextmanager
async def listening(said: list[str]) -> AsyncIterator[tuple[Listener[Line], int]]:
    def connect() -> Line:
        line = Line(said)
        line.listener = listener
        return line

    listener = Listener(connect, ConnectionLimit())
    bound = socket.create_server(("127.0.0.1", 0))
    await listener.listen([bound])
    try:
        yield listener, bound.getsockname()[1]
    finally:
        await asyncio.wait_for(listener.drain([DrainStep(Line.end, PATIENCE_S)]), PATIENCE_S)


async def connect(listener: Listener[Line], port: int) -> asyncio.StreamWriter:
    known = set(listener.connections)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    while not set(listener.connections) - known:
        await asyncio.sleep(0)
    (new,) = set(listener.connections) - known
    await asyncio.wait_for(new.made.wait(), PATIENCE_S)
    return writer


STEPS: Sequence[tuple[str, Sequence[DrainStep[Line]], list[str]]] = [
    ("no step", [], []),
    ("it outlives its step", [DrainStep(Line.warn, 0)], ["warned"]),
    (
        "the next step ends it",
        [DrainStep(Line.warn, 0), DrainStep(Line.end, 9)],
        ["warned", "closed"],
    ),
    (
        "no step after the last is closed",
        [DrainStep(Line.end, 9), DrainStep(Line.warn, 9)],
        ["closed"],
    ),
]


@pytest.mark.parametrize(("steps", "said"), [row[1:] for row in STEPS], ids=[r[0] for r in STEPS])
async def test_a_drain_goes_from_step_to_step_until_none_is_open(
    steps: Sequence[DrainStep[Line]], said: list[str]
) -> None:
    heard: list[str] = []
    async with listening(heard) as (listener, port):
        writer = await connect(listener, port)
        await asyncio.wait_for(listener.drain(steps), PATIENCE_S)
        assert heard == said
        writer.close()


async def test_a_connection_that_comes_in_a_step_is_told_a_moment_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as one that another process has handed over; else the step would wait for it in vain."""
    monkeypatch.setattr(listener_module, "LATE_S", 0.05)
    async with listening(heard := []) as (listener, port):
        writer = await connect(listener, port)
        (first,) = listener.connections
        drain = asyncio.ensure_future(
            listener.drain(
                [DrainStep(Line.warn, 0), DrainStep(Line.end_all_but(first), PATIENCE_S)]
            )
        )
        late, loop = Line(heard), asyncio.get_running_loop()
        late.listener = listener
        ours, theirs = socket.socketpair()

        async def come() -> None:
            await asyncio.sleep(0.01)
            await loop.connect_accepted_socket(lambda: late, ours)

        coming = asyncio.ensure_future(come())
        loop.call_later(0.2, first.end)
        await asyncio.wait_for(drain, PATIENCE_S / 2)
        assert heard == ["warned", "closed", "closed"]
        await coming
        theirs.close()
        writer.close()


async def test_a_drain_without_connections_waits_for_nothing() -> None:
    async with listening(heard := []) as (listener, _):
        await asyncio.wait_for(listener.drain([DrainStep(Line.warn, 60)]), PATIENCE_S)
    assert heard == []


async def test_new_connections_are_refused_from_the_first_step_on() -> None:
    async with listening([]) as (listener, port):
        writer = await connect(listener, port)
        drain = asyncio.ensure_future(listener.drain([DrainStep(Line.warn, PATIENCE_S)]))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await asyncio.wait_for(drain, PATIENCE_S)
        assert listener.connections == ()


@pytest.mark.parametrize("turns", range(4))
def test_a_connection_that_came_before_the_drain_is_part_of_it(turns: int) -> None:
    """Whether the kernel has queued it, uvloop has accepted it, or its protocol knows it."""

    async def story() -> None:
        async with listening(heard := []) as (listener, port):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await listener.drain([DrainStep(Line.warn, 0)])
                assert heard == ["warned"]
                for line in listener.connections:
                    line.end()
                assert await asyncio.to_thread(client.recv, 1) == b""

    uvloop.run(asyncio.wait_for(story(), PATIENCE_S))


async def test_a_handshake_that_is_under_way_is_waited_for(tmp_path: Path) -> None:
    """Its client was accepted; it is drained as the others are."""
    authority = Authority(tmp_path)
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server().paths)
    said: list[str] = []
    limit = ConnectionLimit()

    def make() -> Line:
        line = Line(said)
        line.listener = listener
        return line

    listener = Listener(make, limit, TlsSettings(lambda: context, FailedHandshakes()))
    bound = socket.create_server(("127.0.0.1", 0))
    await listener.listen([bound])
    _, writer = await asyncio.open_connection("localhost", bound.getsockname()[1], family=2)
    while not limit.count:
        await asyncio.sleep(0)
    drain = asyncio.ensure_future(listener.drain([DrainStep(Line.warn, 0), DrainStep(Line.end, 9)]))
    await asyncio.sleep(0)
    await asyncio.get_running_loop().start_tls(
        writer.transport,
        writer.transport.get_protocol(),
        ssl.create_default_context(cafile=authority.path),
        server_hostname="localhost",
    )
    await asyncio.wait_for(drain, PATIENCE_S)
    assert said == ["warned", "closed"]
    writer.close()
