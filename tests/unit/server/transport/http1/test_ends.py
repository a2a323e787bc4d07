"""How a connection ends: by a client that closes its sending side, and behind a refusal."""

import asyncio
from typing import Any

import pytest

from ie_serving.server.transport.http1 import outbox
from ie_serving.server.transport.http1.connection import INPUT_END_S
from tests.unit.server.transport.http1.talk import CLOSE, GET, Talk, Wire, echo, reply


class Slow:
    """Answers when the gate is set, and notes who was cancelled."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.gate.wait()
        await reply(send, b"late", 200)


async def test_a_client_that_ends_its_side_at_once_gets_every_reply() -> None:
    slow = Slow()
    talk = Talk(slow)
    await talk.say(GET + GET)
    assert talk.connection.eof_received()
    slow.gate.set()
    await talk.settle()
    assert talk.heard.count(b"late") == 2
    assert talk.heard.count(CLOSE) == 1
    assert talk.heard.endswith(CLOSE + b"\r\nlate")
    assert talk.wire.closed


async def test_a_client_that_ends_its_side_later_is_gone() -> None:
    talk = Talk(Slow())
    await talk.say(GET)
    talk.host.time += 2 * INPUT_END_S
    assert not talk.connection.eof_received()


@pytest.mark.parametrize("said", [b"", GET[:9]], ids=["nothing", "half a request"])
async def test_a_client_that_waits_for_nothing_is_gone(said: bytes) -> None:
    talk = Talk(echo)
    await talk.say(said)
    assert not talk.connection.eof_received()


class Lingering(Wire):
    """A transport whose client does not close by itself."""

    ended = False

    def write_eof(self) -> None:
        self.ended = True


@pytest.fixture
async def refused(monkeypatch: pytest.MonkeyPatch) -> Lingering:
    """The wire of a client that has just been refused."""
    monkeypatch.setattr(outbox, "LINGER_S", 0.0)
    talk = Talk(echo)
    talk.wire = wire = Lingering()
    talk.connection.connection_made(wire)
    talk.connection.data_received(b"nonsense\r\n\r\n")
    assert wire.sent.startswith(b"HTTP/1.1 501 ")
    assert wire.ended
    return wire


def dropping(wire: Wire) -> asyncio.Protocol:
    assert isinstance(wire.protocol, asyncio.Protocol)
    return wire.protocol


async def test_requests_behind_a_refusal_are_dropped_until_the_connection_closes(
    refused: Lingering,
) -> None:
    assert refused.reading
    refusal = refused.sent
    dropping(refused).data_received(GET * 3)
    await Talk(echo).settle()
    assert (refused.sent, refused.closed) == (refusal, True)


async def test_no_more_is_dropped_than_may_be_on_its_way(refused: Lingering) -> None:
    dropping(refused).data_received(b"x" * outbox.MOST_DROPPED)
    assert refused.reading
    dropping(refused).data_received(b"x")
    assert not refused.reading


async def test_a_refused_client_that_leaves_is_known_to_have_left() -> None:
    talk = Talk(echo)
    await talk.say(b"nonsense\r\n\r\n")
    dropping(talk.wire).connection_lost(None)
    assert talk.host.connections == []
