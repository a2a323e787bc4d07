"""What a connection holds of requests that wait or have come in part: little, and counted."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from ie_serving.core.runtime.budget import BUDGET
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.holding import FREE_FIELDS, GATHERED
from ie_serving.server.transport.http1.messages import Fault, HttpEvent, Reply, Request
from ie_serving.server.transport.http1.protocol import Protocol
from tests.unit.server.transport.http1.talk import GET, POST, Gate, Talk, echo

SMALLEST = b"GET / HTTP/1.1\r\nHost:x\r\n\r\n"
READ = 256 * 1024
"""Bytes that one read of a socket brings."""
PIPELINED = SMALLEST * (READ // len(SMALLEST))
MANY_FIELDS = SMALLEST[:-2] + b"".join(b"x%d:\r\n" % number for number in range(1000))
TOO_MANY = SMALLEST[:-2] + b"a:b\r\n" * 2000
CHUNKED = b"POST / HTTP/1.1\r\nHost:x\r\nTransfer-Encoding:chunked\r\n\r\n"
CHUNKED_LINE = "Transfer-Encoding:chunked\r\n\r\n"
TINY_CHUNKS = CHUNKED + b"2\r\nab\r\n" * (60_000 // 2)
LARGE_VALUE = SMALLEST[:-2] + b"x: " + bytes(b"v" * 60_000)
UNFINISHED = {
    "requests": PIPELINED,
    "requests behind chunks": CHUNKED + b"0\r\n\r\n" + PIPELINED,
    "requests of many fields": (SMALLEST[:-2] + b"a:\r\n" * 30 + b"\r\n") * 1000,
    "fields": MANY_FIELDS,
    "a value": LARGE_VALUE,
    "a target": b"GET /" + b"a" * 60_000,
    "chunks": TINY_CHUNKS,
    "a body": b"POST / HTTP/1.1\r\nHost:x\r\nContent-Length:65536\r\n\r\n" + bytes(60_000),
}


def protocol() -> Protocol:
    return Protocol(KnownHeads())


@contextmanager
def room(size: int) -> Iterator[None]:
    """The budget has room for no more."""
    gc.collect()
    others = BUDGET.lease(4 * READ)
    before, BUDGET.limit = BUDGET.limit, BUDGET.held + size
    try:
        yield
    finally:
        BUDGET.limit = before
        others.release()


def paths(events: Sequence[HttpEvent]) -> list[bytes]:
    return [event.head.path for event in events if isinstance(event, Request)]


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_memory_of_unfinished_requests_is_counted_and_given_back(sent: bytes) -> None:
    """250 KB of requests were held as 3.3 MB, 60 KB in chunks of two bytes as 1.8 MB."""
    spoken, held = protocol(), BUDGET.held
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        events = spoken.receive(sent[:READ])
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    taken = after - before
    assert taken < 2 * READ
    assert taken - 20_000 < BUDGET.held - held < 3 * READ
    del events
    spoken.forget()
    gc.collect()
    assert BUDGET.held == held


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_beyond_the_budget_it_is_refused(sent: bytes) -> None:
    spoken, held = protocol(), BUDGET.held
    with room(20_000):
        events = list(spoken.receive(sent))
    fault = events.pop()
    assert isinstance(fault, Fault)
    assert fault.status == 429
    assert "send it again later" in fault.text
    # What came before it is answered.
    assert len(paths(events)) == len(events)
    del events
    spoken.forget()
    gc.collect()
    assert BUDGET.held == held


@pytest.mark.parametrize("sent", [*UNFINISHED.values(), TOO_MANY], ids=[*UNFINISHED, "too many"])
async def test_a_lost_connection_gives_all_back_without_the_collector(sent: bytes) -> None:
    held = BUDGET.held
    gc.disable()  # a quiet server might not collect for hours
    try:
        talk = Talk(Gate())
        talk.connection.data_received(sent[:READ])
        await talk.settle()
        talk.hang_up()
        await talk.settle()
        assert BUDGET.held == held
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("head", "counted"),
    [
        pytest.param(MANY_FIELDS + b"\r\n", 250_000, id="many headers"),
        pytest.param(LARGE_VALUE + b"\r\n\r\n", 60_000, id="a large one"),
    ],
)
def test_a_head_is_counted_until_the_request_is_answered(head: bytes, counted: int) -> None:
    spoken, held = protocol(), BUDGET.held
    (request,) = spoken.receive(head)
    assert isinstance(request, Request)
    assert BUDGET.held - held > counted
    spoken.send(Reply(200, (), b""))
    del request
    assert BUDGET.held == held


@pytest.mark.parametrize("length", ["Content-Length:60000\r\n\r\n", CHUNKED_LINE])
def test_bodies_that_wait_behind_another_request_are_counted(length: str) -> None:
    spoken, held = protocol(), BUDGET.held
    body = bytes(60_000)
    sent = body if length is not CHUNKED_LINE else b"EA60\r\n" + body + b"\r\n0\r\n\r\n"
    events = spoken.receive((b"POST / HTTP/1.1\r\nHost:x\r\n" + length.encode() + sent) * 2)
    assert len(events) == 2
    assert BUDGET.held - held > 120_000
    for _ in events:
        spoken.send(Reply(200, (), b""))
    spoken.forget()
    assert BUDGET.held == held


def small(*pieces: bytes) -> Callable[[], None]:
    def converse() -> None:
        spoken = protocol()
        for piece in pieces:
            for event in spoken.receive(piece):
                assert isinstance(event, Request)
                spoken.send(Reply(200, (), b""))

    return converse


@pytest.mark.parametrize(
    "converse",
    [
        small(POST, POST, GET + GET),
        small(POST[:9], POST[9:-1], POST[-1:]),
        small(b"POST / HTTP/1.1\r\nHost:x\r\nContent-Length:60000\r\n\r\n" + bytes(60_000)),
        small(SMALLEST[:-2] + b"a: b\r\n" * (FREE_FIELDS - 1) + b"\r\n"),
    ],
    ids=["whole", "in pieces", "a body in one read", "headers"],
)
def test_usual_requests_are_not_counted(converse: Callable[[], None]) -> None:
    taken = BUDGET.taken
    converse()
    assert BUDGET.taken == taken


def test_behind_requests_that_wait_nothing_is_parsed() -> None:
    spoken = protocol()
    sent = [b"GET /%d HTTP/1.1\r\nHost:x\r\n\r\n" % number for number in range(9000)]
    events = list(spoken.receive(b"".join(sent)))
    assert len(events) < 100
    found: list[bytes] = []
    while events:
        found += paths(events)
        for _ in events:
            spoken.send(Reply(200, (), b""))
        events = list(spoken.receive(b""))
    assert found == [b"/%d" % number for number in range(9000)]
    spoken.settle()
    assert spoken.rest == b""


async def test_all_are_answered_in_order_and_then_more_is_read() -> None:
    held = BUDGET.held
    talk = Talk(echo)
    sent = [b"GET /%d HTTP/1.1\r\nHost:x\r\n\r\n" % number for number in range(900)]
    large = b"POST /l HTTP/1.1\r\nHost:x\r\nContent-Length:%d\r\n\r\n" % (2 * GATHERED)
    talk.connection.data_received(b"".join(sent) + large + bytes(2 * GATHERED) + sent[0][:-1])
    assert not talk.wire.reading
    assert talk.connection.idle_since() is None
    while not talk.wire.reading:
        await talk.settle()
    heard = await talk.say(b"\n")
    found = [part.split(b" ")[0] for part in heard.split(b"\r\n\r\nGET ")[1:]]
    assert found == [*(b"/%d" % number for number in range(900)), b"/0"]
    assert heard.count(b"POST /l 1.1 " + bytes(2 * GATHERED)) == 1
    assert BUDGET.held == held


async def test_a_client_that_does_not_read_waits_with_its_bytes() -> None:
    talk = Talk(echo)
    talk.connection.pause_writing()
    talk.connection.data_received(PIPELINED)
    await talk.settle()
    assert talk.connection.in_flight < 100
    assert not talk.wire.reading
    assert talk.heard == b""
    talk.connection.resume_writing()
    while not talk.wire.reading:
        await talk.settle()
    assert talk.heard.count(b"HTTP/1.1 200") == len(PIPELINED) // len(SMALLEST)


async def test_a_server_that_stops_ends_with_the_reply_that_is_next() -> None:
    talk = Talk(gate := Gate())
    talk.connection.data_received(PIPELINED)
    talk.connection.end_if_idle()
    assert not talk.wire.closed
    talk.host.draining = True
    gate.open.set()
    await talk.settle()
    assert talk.heard.count(b"HTTP/1.1 200") == 1
    assert talk.wire.closed
