"""HTTP/1.1 as bytes in and bytes out: what clients and strangers send, and what they get."""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.server.transport.busy_poll import BusyPoll
from ie_serving.server.transport.http1.asgi import Asgi
from ie_serving.server.transport.http1.body import MOST_UNREAD
from ie_serving.server.transport.http1.connection import Connection
from ie_serving.server.transport.http1.faults import LARGEST_HEAD
from ie_serving.server.transport.http1.known_heads import KnownHeads
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.server.transport.http1.protocol import GATHERED
from ie_serving.server.transport.outbox import Outbox

PATIENCE_S = 10
App = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]
DATE = re.compile(rb"date: [^\r]*\r\n")


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and of which the test says when it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False
        self.aborted = False
        self.reading = True
        self.unsent = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 5), "sockname": ("192.0.2.2", 8000)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written after the end"
        self.sent += data

    def writelines(self, lines: Any) -> None:
        self.write(b"".join(lines))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The client reads the end and closes."""
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Host:
    """Stands for the server, in front of an ASGI application. Its time stands still."""

    def __init__(self, app: App) -> None:
        self.app = Asgi(app)
        self.draining = False
        self.outbox = Outbox()
        self.time = 1000.0
        self.busy_poll = BusyPoll(0.0, lambda: self.time)
        self.known_heads = KnownHeads()
        self.connections: list[Connection] = []

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)

    def closed(self, connection: Connection) -> None:
        self.connections.remove(connection)


class Talk:
    """One connection, and a client that says what the test wants."""

    def __init__(self, app: App) -> None:
        self.host = Host(app)
        self.wire = Wire()
        self.connection = Connection(self.host)
        self.connection.connection_made(self.wire)

    async def say(self, *parts: bytes) -> bytes:
        """Send `parts` and give what was answered by all up to now, dates left out."""
        for part in parts:
            if not self.wire.closed:
                self.connection.data_received(part)
        await self.settle()
        return self.heard

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def heard(self) -> bytes:
        return DATE.sub(b"", self.wire.sent)

    def hang_up(self) -> None:
        self.wire.closed = True
        self.connection.connection_lost(None)


async def reply(send: Any, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body})


async def read(receive: Any) -> bytes | None:
    """Read a body as ASGI has it; None when the client has gone."""
    body = b""
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event["body"]
        if not event["more_body"]:
            return body


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Tell what was asked."""
    body = await read(receive)
    assert body is not None
    text = f"{scope['method']} {scope['path']} {scope['http_version']} ".encode() + body
    await reply(send, text)


def answered(text: bytes, extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%b\r\n%b" % (len(text), extra, text)


CLOSE = b"connection: close\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
GET = b"GET /b?c=1 HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;note=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
)
UPGRADE = (
    b"POST /u HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAA\r\nContent-Length: 3\r\n\r\nabc"
)
REQUESTS = {
    POST: answered(b"POST /a 1.1 abc"),
    GET: answered(b"GET /b 1.1 "),
    CHUNKED: answered(b"POST /c 1.1 abcde"),
    UPGRADE: answered(b"POST /u 1.1 abc"),
    b"\r\nGET /%41%2f HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"GET /A/ 1.1 "),
    b"GET http://host/p?q#f HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"GET /p 1.1 "),
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n": answered(
        b"GET / 1.0 ", b"connection: keep-alive\r\n"
    ),
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"OPTIONS * 1.1 "),
    b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"TRACE / 1.1 "),
    b"HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n": answered(b"HEAD /h 1.1 ")[: -len(b"HEAD /h 1.1 ")],
    b"POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"z" * 100000: answered(
        b"POST /big 1.1 " + b"z" * 100000
    ),
}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: repr(request[:40]))
async def test_a_request_and_its_reply(request_: bytes) -> None:
    talk = Talk(echo)
    assert await talk.say(request_) == REQUESTS[request_]
    assert not talk.wire.closed


@given(st.data())
def test_it_does_not_matter_where_the_stream_is_cut(data: st.DataObject) -> None:
    """Any requests in a row, in pieces of any size: one reply each, in order."""
    requests = data.draw(st.lists(st.sampled_from(list(REQUESTS)), min_size=1, max_size=5))
    stream = b"".join(requests)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))

    async def talk() -> bytes:
        talk = Talk(echo)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if data.draw(st.booleans()):
                await asyncio.sleep(0)
            if start < end:
                talk.connection.data_received(stream[start:end])
        for _ in range(20):
            await talk.settle()
        return talk.heard

    assert asyncio.run(talk()) == b"".join(REQUESTS[request] for request in requests)


@pytest.mark.parametrize("request_", [UPGRADE, CHUNKED + POST, GET + UPGRADE + GET])
async def test_byte_by_byte(request_: bytes) -> None:
    whole, pieces = Talk(echo), Talk(echo)
    expected = await whole.say(request_)
    assert expected.count(b"HTTP/1.1 200") >= 1
    assert await pieces.say(*(request_[i : i + 1] for i in range(len(request_)))) == expected


BAD = {
    "both lengths": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        400,
    ),
    "both lengths, the other way": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        400,
    ),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        400,
    ),
    "a list of lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", 400),
    "a length without end": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % (b"9" * 30),
        400,
    ),
    "chunked is not the last coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        400,
    ),
    "an unknown coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\nabc",
        400,
    ),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400),
    "a zero byte": (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", 400),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "a bad chunk size": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        400,
    ),
    "not ASCII": (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", 501),
    "HTTP/1.0 in chunks": (
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/2": (b"GET / HTTP/2.0\r\n\r\n", 505),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    "a host that is none": (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "another coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "an unknown method": (b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "a head that is too long": (
        b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"a" * LARGEST_HEAD),
        431,
    ),
    "a head without end": (b"GET / HTTP/1.1\r\nHost: x\r\nX: %b" % (b"a" * 2 * LARGEST_HEAD), 431),
}


@pytest.mark.parametrize("pieces", [1, 50])
@pytest.mark.parametrize(("request_", "status"), BAD.values(), ids=BAD)
async def test_what_two_servers_might_read_differently_is_refused(
    request_: bytes, status: int, pieces: int
) -> None:
    """The requests before it are answered, it is refused, nothing after it is heard."""
    talk = Talk(echo)
    size = -(-len(request_) // pieces)
    parts = [request_[start : start + size] for start in range(0, len(request_), size)]
    heard = await talk.say(GET, *parts, GET)
    assert heard.startswith(answered(b"GET /b 1.1 ") + b"HTTP/1.1 %d " % status)
    assert heard.count(b"HTTP/1.1 ") == 2
    assert CLOSE in heard
    assert talk.wire.closed


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"3;note="], ids=["trailer", "extension"])
async def test_what_belongs_to_a_chunked_body_and_has_no_end_is_refused(start: bytes) -> None:
    talk = Talk(echo)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", start)
    for _ in range(9):
        await talk.say(b"a" * (LARGEST_HEAD // 8))
    assert talk.heard.startswith(b"HTTP/1.1 431 ")
    assert talk.wire.closed


async def test_a_fault_behind_a_request_that_waits_comes_after_its_reply() -> None:
    talk = Talk(waiting := Gate())
    assert await talk.say(GET + b"nonsense\r\n\r\n") == b""
    waiting.open.set()
    await talk.settle()
    assert talk.heard.startswith(answered(b"GET /b") + b"HTTP/1.1 501 ")
    assert talk.wire.closed


class Gate:
    """An application that answers when the test lets it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.began: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        self.began.append(scope["path"])
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(scope["path"])
            raise
        await reply(send, f"{scope['method']} {scope['path']}".encode())


async def test_requests_in_a_row_wait_for_each_other_and_the_client_with_them() -> None:
    talk = Talk(gate := Gate())
    assert await talk.say(POST + GET) == b""
    assert gate.began == ["/a"]
    assert not talk.wire.reading
    gate.open.set()
    await talk.settle()
    assert talk.heard == answered(b"POST /a") + answered(b"GET /b")
    assert talk.wire.reading


async def test_a_large_body_behind_another_request_is_read_in_its_turn() -> None:
    """The client had to wait with it, but not for ever."""
    talk = Talk(gate := Gate())
    await talk.say(GET, b"POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    assert not talk.wire.reading
    gate.open.set()
    await talk.settle()
    assert talk.wire.reading
    assert await talk.say(b"x" * 900000) == answered(b"GET /b") + answered(b"POST /c")


async def test_a_client_that_leaves_is_noticed_while_its_second_request_is_answered() -> None:
    talk = Talk(gate := Gate())
    await talk.say(GET + POST)
    gate.open.set()
    gate.open.clear()  # the first goes on, the second waits
    await talk.settle()
    assert gate.began == ["/b", "/a"]
    assert talk.wire.reading
    talk.hang_up()
    await talk.settle()
    assert gate.cancelled == ["/a"]


async def test_one_client_does_not_hold_the_loop_with_requests_in_a_row() -> None:
    """Others get their turn between any two of them."""
    talk = Talk(echo)
    talk.connection.data_received(GET * 3)
    turns = []
    for _ in range(8):
        talk.host.outbox.flush()
        turns.append(talk.wire.sent.count(b"HTTP/1.1"))
        await asyncio.sleep(0)
    assert turns[0] == 1
    assert turns[-1] == 3
    assert max(later - sooner for sooner, later in pairwise(turns)) == 1


async def test_a_client_that_does_not_read_gets_no_more() -> None:
    talk = Talk(echo)
    talk.connection.pause_writing()
    assert await talk.say(GET) == b""
    talk.connection.resume_writing()
    await talk.settle()
    assert talk.heard == answered(b"GET /b 1.1 ")


async def test_a_client_that_leaves_cancels_its_request() -> None:
    talk = Talk(gate := Gate())
    await talk.say(GET)
    talk.hang_up()
    await talk.settle()
    assert gate.cancelled == ["/b"]
    assert talk.host.connections == []


@pytest.mark.parametrize("cut", range(1, len(POST), 7))
async def test_a_client_that_leaves_in_mid_request_leaves_nothing(cut: int) -> None:
    talk = Talk(gate := Gate())
    await talk.say(POST[:cut])
    talk.hang_up()
    await talk.settle()
    assert gate.began == []
    assert talk.host.connections == []


async def test_a_client_that_leaves_in_mid_body_is_told_to_who_reads() -> None:
    """Also where a large body is being read already."""
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            got.append(await read(receive))
        except asyncio.CancelledError:
            got.append("cancelled")
            raise

    talk = Talk(app)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n", b"x" * GATHERED)
    assert got == []
    talk.hang_up()
    await talk.settle()
    assert got == ["cancelled"]


async def test_what_is_answered_reaches_a_client_that_ends_its_stream() -> None:
    """As `printf ... | nc` does."""
    talk = Talk(echo)
    talk.connection.data_received(GET)
    talk.connection.eof_received()
    assert talk.heard == answered(b"GET /b 1.1 ")


async def test_a_small_body_is_there_before_the_application_is_called() -> None:
    seen = []

    async def app(request: Request) -> Reply:
        seen.append(request.body)
        return Reply(200, (), b"")

    talk = Talk(echo)
    talk.host.app = app  # type: ignore[assignment]
    await talk.say(POST[:-1])
    assert seen == []
    await talk.say(POST[-1:])
    assert seen == [b"abc"]


async def test_a_large_body_can_be_refused_unread() -> None:
    """By its head: the client reads the reply, and the rest is thrown away."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b""
        await reply(send, b"no", 413)

    talk = Talk(app)
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    assert talk.heard.startswith(b"HTTP/1.1 413 ")
    await talk.say(b"x" * GATHERED)
    await talk.say(b"x" * (900000 - GATHERED), GET)
    assert talk.heard.count(b"HTTP/1.1 413 ") == 2
    assert not talk.wire.closed and talk.wire.reading


async def test_a_fault_in_a_body_that_was_refused_already_is_not_answered_again() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await reply(send, b"no", 413)

    talk = Talk(app)
    await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    await talk.say(b"nonsense\r\n")
    assert talk.heard.count(b"HTTP/1.1 ") == 1
    assert talk.wire.closed


async def test_a_fault_in_a_body_that_is_being_read_ends_the_request() -> None:
    talk = Talk(echo)
    await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    heard = await talk.say(b"nonsense\r\n")
    assert heard.count(b"HTTP/1.1 400 ") == 1
    assert talk.wire.closed


async def test_a_large_body_waits_for_its_reader() -> None:
    talk = Talk(gate_reader := Reader())
    await talk.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
    for _ in range(10):
        await talk.say(b"x" * (MOST_UNREAD // 4))
        if not talk.wire.reading:
            break
    assert not talk.wire.reading
    gate_reader.open.set()
    await talk.settle()
    assert talk.wire.reading


class Reader(Gate):
    """Reads only when the test lets it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.open.wait()
        await reply(send, b"%d" % len(await read(receive) or b""))


async def test_a_client_that_expects_it_is_told_to_continue() -> None:
    head = b"POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    talk = Talk(echo)
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert await talk.say(head) == go_on
    assert await talk.say(b"abc") == go_on + answered(b"POST /e 1.1 abc")


async def test_an_http_1_0_client_is_not_told_to_continue() -> None:
    """It would take that for the reply."""
    head = b"POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    talk = Talk(echo)
    assert await talk.say(head) == b""
    assert await talk.say(b"abc") == answered(b"POST /e 1.0 abc", CLOSE)


async def test_a_client_that_expects_it_is_refused_before_its_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await reply(send, b"no", 413)

    talk = Talk(app)
    heard = await talk.say(
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    )
    assert heard.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
)
async def test_the_connection_ends_where_the_client_wants_it(request_: bytes) -> None:
    talk = Talk(echo)
    heard = await talk.say(request_ + GET)
    assert heard.count(b"HTTP/1.1 200") == 1
    assert CLOSE in heard
    assert talk.wire.closed


@pytest.mark.parametrize("by", ["application", "server"])
async def test_the_connection_ends_where_we_want_it(by: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"connection", b"close")] if by == "application" else []
        await reply(send, b"bye", 200, *headers)

    talk = Talk(app)
    talk.host.draining = by == "server"
    await talk.say(GET + GET)
    assert talk.heard.count(b"HTTP/1.1 200") == 1
    assert talk.heard.count(b"connection: close") == 1
    assert talk.wire.closed


def failing(send_first: bool) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if send_first:
            await reply(send, b"done")
        raise ZeroDivisionError("a defect")

    return app


@pytest.mark.parametrize("waits", [False, True])
async def test_a_defect_is_logged_and_answered_without_its_text(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ZeroDivisionError("a defect")

    talk = Talk(app)
    heard = await talk.say(GET)
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"defect" not in heard
    assert talk.wire.closed
    assert "a defect" in caplog.text


async def test_a_defect_after_the_reply_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(failing(send_first=True))
    assert await talk.say(GET) == answered(b"done")
    assert "a defect" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x", b"a\r\nset-cookie: b")],
        [(b"x: y\r\nz", b"a")],
        [(b"content-length", b"7")],
        [(b"transfer-encoding", b"chunked")],
    ],
)
async def test_no_header_breaks_out_of_its_line_or_lies_about_the_body(
    headers: Sequence[tuple[bytes, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reply(send, b"body", 200, *headers)

    caplog.set_level(logging.CRITICAL)
    heard = await Talk(app).say(GET)
    assert heard.startswith(b"HTTP/1.1 500 ")
    assert b"cookie" not in heard


async def test_a_reply_in_pieces_is_sent_whole() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body", "body": b"c"})

    assert await Talk(app).say(GET) == answered(b"abc")


async def test_the_scope_is_what_asgi_asks_for() -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await reply(send, b"")

    await Talk(app).say(b"GET /a%20b?q=1 HTTP/1.1\r\nHost: h\r\nX-Y:  Z \r\nx-y: 2\r\n\r\n")
    assert scopes[0] == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"q=1",
        "root_path": "",
        "headers": [(b"host", b"h"), (b"x-y", b"Z"), (b"x-y", b"2")],
        "client": ("192.0.2.1", 5),
        "server": ("192.0.2.2", 8000),
    }


PATIENCE = 75.0


@pytest.mark.parametrize(
    "said", [b"", GET, GET[:9], POST[:-1]], ids=["nothing", "a request", "a head", "a body"]
)
async def test_a_client_that_keeps_us_waiting_is_left(said: bytes) -> None:
    talk = Talk(echo)
    await talk.say(said)
    now = talk.host.time
    talk.connection.end_if_late(now + PATIENCE - 1, PATIENCE)
    assert not talk.wire.closed
    talk.connection.end_if_late(now + PATIENCE + 1, PATIENCE)
    assert talk.wire.closed


async def test_a_head_that_drips_is_left() -> None:
    talk = Talk(echo)
    await talk.say(b"GET / HTTP/1.1\r\nHost: x\r\n")
    talk.host.time += PATIENCE + 1
    await talk.say(b"X: ")
    talk.connection.end_if_late(talk.host.time, PATIENCE)
    assert talk.wire.closed


async def test_a_client_that_waits_for_us_is_not_left() -> None:
    talk = Talk(Gate())
    await talk.say(GET)
    talk.connection.end_if_late(talk.host.time + 9 * PATIENCE, PATIENCE)
    assert not talk.wire.closed
    talk.hang_up()


async def test_a_client_that_takes_nothing_of_its_reply_is_left() -> None:
    talk = Talk(echo)
    await talk.say(GET)
    now = talk.host.time
    for unsent, later in [(100, 0), (90, PATIENCE * 2), (90, PATIENCE * 2.9)]:
        talk.wire.unsent = unsent
        talk.connection.end_if_late(now + later, PATIENCE)
        assert not talk.wire.aborted
    talk.connection.end_if_late(now + PATIENCE * 3.1, PATIENCE)
    assert talk.wire.aborted
