"""Large replies over REST are counted until their clients have read them."""

import asyncio
import gc
import json
import socket
import ssl
from pathlib import Path

import pytest
import uvloop

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.transport.handshake import FailedHandshakes, ServerContext, TlsSettings
from ie_serving.server.transport.http1.connection import SEALED, ConnectionServer, Http1Connection
from ie_serving.server.transport.http1.messages import Reply, Request, RequestHead
from ie_serving.server.transport.http1.server import HttpServer
from tests.certificates import Authority
from tests.unit.inference.stand_ins import Heart
from tests.unit.server.fronts.tfs.interfaces import Rest

PATIENCE_S = 20.0
ROWS = 6000
LARGE = 32 << 20


async def answered(body: bytes) -> Reply:
    """Ask for `y = x + 1`."""
    api = Rest(await Heart().plane(), limit_s=PATIENCE_S).api
    head = RequestHead("POST", b"/v1/models/m:predict", b"", "1.1", (), {}, len(body), True, False)
    return await api.answer(Request(head, body))


@pytest.mark.parametrize(("left", "status"), [(1 << 20, 200), (50_000, 429)])
async def test_a_reply_beyond_the_budget_is_refused(
    left: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"instances": [[0.123456]] * ROWS}).encode()
    gc.collect()
    others = BUDGET.lease(1 << 20)
    monkeypatch.setattr(BUDGET, "limit", BUDGET.held + left)
    held = BUDGET.held
    reply = await answered(body)
    assert reply.status == status
    assert BUDGET.held - held == (len(reply.body) if status == 200 else 0)
    del reply
    assert BUDGET.held == held
    others.release()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_a_reply_that_is_not_read_is_held_until_its_client_leaves(
    secured: bool, tmp_path: Path
) -> None:
    """On uvloop, as it is served: it keeps the memory itself until the socket has taken it.

    TLS would seal all of it, and keep a copy that is not counted: a little of it is bounded.
    """
    uvloop.run(unread(Authority(tmp_path) if secured else None))


class Full(Http1Connection):
    """A connection that notes how much waits when its reply has to wait for the client."""

    def __init__(self, server: ConnectionServer) -> None:
        super().__init__(server)
        self.waits = asyncio.get_running_loop().create_future()

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self.waits.done():
            self.waits.set_result(self._transport.get_write_buffer_size())


async def unread(authority: Authority | None) -> None:
    connections: list[Full] = []

    def carrier(server: ConnectionServer) -> Full:
        connections.append(Full(server))
        return connections[-1]

    async def app(_: Request) -> Reply:
        return Reply(200, (), BUDGET.held_with(bytes(LARGE)))

    held = BUDGET.held
    server = HttpServer(app, carrier, secure=sealing(authority) if authority else None)
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    await server.listen([bound])
    trusting = ssl.create_default_context(cafile=authority.path) if authority else None
    gc.disable()
    try:
        reader, writer = await asyncio.open_connection(
            "localhost", bound.getsockname()[1], limit=1000, ssl=trusting, family=socket.AF_INET
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(reader.readexactly(1000), PATIENCE_S)
        waits = await asyncio.wait_for(connections[0].waits, PATIENCE_S)
        assert not authority or waits <= 2 * SEALED
        assert BUDGET.held - held == LARGE
        writer.transport.abort()
        await server.drain(0.0)
        assert BUDGET.held == held
    finally:
        gc.enable()


def sealing(authority: Authority) -> TlsSettings:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server().paths)
    return TlsSettings(lambda: context, FailedHandshakes())
