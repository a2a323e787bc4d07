"""Listening, draining and time-outs, over real sockets on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ie_serving.server.transport.http1.server import HttpServer
from tests.unit.server.transport.http1.talk import Asgi

PATIENCE_S = 10
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Slow:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        await self.open.wait()
        await quick(scope, receive, send)


async def quick(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[tuple[HttpServer, int]]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.setblocking(False)
    server = HttpServer(Asgi(app), **options)
    await server.listen([bound])
    port = bound.getsockname()[1]
    try:
        yield server, port
    finally:
        await asyncio.wait_for(server.drain(0), PATIENCE_S)


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), PATIENCE_S)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), PATIENCE_S)


async def reply_of(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"ok"), PATIENCE_S)


async def test_draining_refuses_connections_and_waits_for_what_runs() -> None:
    async with serving(app := Slow()) as (server, port):
        reader, writer = await connect(port)
        writer.write(GET)
        await asyncio.wait_for(app.began.wait(), PATIENCE_S)
        draining = asyncio.create_task(server.drain(PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            await connect(port)
        app.open.set()
        reply = await rest_of(reader)
        assert reply.startswith(b"HTTP/1.1 200") and b"connection: close" in reply
        await asyncio.wait_for(draining, PATIENCE_S)
        writer.close()


async def test_draining_closes_idle_connections() -> None:
    async with serving(quick) as (server, port):
        reader, writer = await connect(port)
        writer.write(GET)
        assert b"connection: close" not in await reply_of(reader)
        await asyncio.wait_for(server.drain(PATIENCE_S), PATIENCE_S)
        assert await rest_of(reader) == b""
        writer.close()


async def test_a_request_on_its_way_when_the_drain_begins_is_answered() -> None:
    async with serving(quick) as (server, port):
        reader, writer = await connect(port)
        draining = asyncio.create_task(server.drain(PATIENCE_S))
        await asyncio.sleep(0)
        writer.write(GET)
        assert b"connection: close" in await rest_of(reader)
        await asyncio.wait_for(draining, PATIENCE_S)
        writer.close()


async def test_a_request_that_outlasts_patience_is_cancelled_and_told_so() -> None:
    async with serving(app := Slow()) as (server, port):
        reader, writer = await connect(port)
        writer.write(GET)
        await asyncio.wait_for(app.began.wait(), PATIENCE_S)
        await asyncio.wait_for(server.drain(0), PATIENCE_S)
        reply = await rest_of(reader)
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert b"ask again elsewhere" in reply
        writer.close()


async def test_a_request_that_swallows_the_cancellation_is_cut_off() -> None:
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    began, over = asyncio.Event(), asyncio.Event()
    async with serving(stubborn) as (server, port):
        reader, writer = await connect(port)
        writer.write(GET)
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        await asyncio.wait_for(server.drain(0), PATIENCE_S)
        with suppress(ConnectionResetError):
            assert await rest_of(reader) == b""
        over.set()
        writer.close()


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with serving(quick, keep_alive_s=0.05) as (_, port):
        reader, writer = await connect(port)
        writer.write(GET)
        await reply_of(reader)
        assert await rest_of(reader) == b""
        writer.close()
