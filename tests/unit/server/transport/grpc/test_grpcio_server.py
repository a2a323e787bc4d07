"""What calls over grpcio hold is counted while they are worked on."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.transport.grpc.grpcio_server import CALL, GrpcioServer
from ie_serving.server.transport.grpc.services import Buffer, CallContext

WAIT_S = 30.0
MEGABYTE = 1 << 20


class Waiting:
    """A method that answers when it may."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.go = asyncio.Event()

    async def answer(self, content: Buffer, context: CallContext) -> bytes:
        """Answer with nothing."""
        self.begun.put_nowait(len(content))
        await self.go.wait()
        return b""


@asynccontextmanager
async def serving(method: Waiting, **limits: int) -> AsyncIterator[grpc.aio.Channel]:
    server = GrpcioServer(
        {"test": {"Wait": method.answer}}, max_message_bytes=64 * MEGABYTE, **limits
    )
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", 0))
        await server.listen([bound])
        options = [("grpc.max_send_message_length", -1)]
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        async with grpc.aio.insecure_channel(address, options) as channel:
            channel.target = bound.getsockname()  # type: ignore[attr-defined]
            yield channel
        await server.drain(WAIT_S)


async def test_calls_beyond_the_budget_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held = BUDGET.held
    monkeypatch.setattr(BUDGET, "limit", held + 2 * MEGABYTE)
    method = Waiting()
    async with serving(method) as channel:
        call = channel.unary_unary("/test/Wait")
        first = call(bytes(MEGABYTE), timeout=WAIT_S)
        assert await asyncio.wait_for(method.begun.get(), WAIT_S) == MEGABYTE
        assert BUDGET.held == held + MEGABYTE + CALL
        with pytest.raises(grpc.aio.AioRpcError, match="send it again later") as refusal:
            await call(bytes(MEGABYTE), timeout=WAIT_S)
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        method.go.set()
        assert await first == b""
    assert BUDGET.held == held


async def test_one_connection_more_than_there_may_be_is_closed() -> None:
    async with serving(Waiting(), max_connections=2) as channel:
        target = channel.target  # type: ignore[attr-defined]
        opened = []
        for expected in (True, True, False):
            reader, writer = await asyncio.open_connection(*target)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            opened.append(writer)
            assert bool(await asyncio.wait_for(reader.read(1), WAIT_S)) is expected
        for each in opened:
            each.close()
