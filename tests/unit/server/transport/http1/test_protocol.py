"""HTTP/1.1 without a socket: which events bytes are, and which bytes replies."""

from collections.abc import Sequence

import pytest

from ie_serving.core.runtime.states import IllegalMove
from ie_serving.server.transport.http1.connection_states import Reader, Writer
from ie_serving.server.transport.http1.heads import KnownHeads
from ie_serving.server.transport.http1.holding import GATHERED
from ie_serving.server.transport.http1.messages import (
    CONTINUE,
    BodyPart,
    Fault,
    HttpEvent,
    Reply,
    Request,
)
from ie_serving.server.transport.http1.protocol import JOINED, Protocol
from ie_serving.server.transport.http1.reply_heads import CLOSE

GET = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /l HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
LARGE = b"POST /g HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (GATHERED + 1)
CHUNKED = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
EXPECTS = b"POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
NONSENSE = b"nonsense\r\n\r\n"
OK = Reply(200, (), b"ok")
Told = str | bytes | int


def protocol() -> Protocol:
    return Protocol(KnownHeads())


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
            "gRPC has a port of its own, server.port",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "encrypt it by server.tls_certificate"),
    ],
)
def test_a_client_that_means_another_port_is_told(sent: bytes, text: str) -> None:
    (fault,) = protocol().receive(sent)
    assert isinstance(fault, Fault)
    assert fault.status == 400
    assert text in fault.text


def test_a_client_that_means_another_port_is_told_where_that_comes_in_pieces() -> None:
    said = protocol()
    assert not said.receive(b"PRI * HT")
    (fault,) = said.receive(b"TP/2.0\r\n\r\nSM\r\n\r\n")
    assert isinstance(fault, Fault)
    assert "gRPC has a port of its own" in fault.text


def test_a_client_that_sends_a_blank_in_a_target_is_told() -> None:
    (fault,) = protocol().receive(b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n")
    assert isinstance(fault, Fault)
    assert "a blank in the target is written %20" in fault.text


def told(events: Sequence[HttpEvent]) -> list[Told]:
    """What the test looks at: paths, sizes of bodies, the end, the status of a fault."""
    words: list[Told] = []
    for event in events:
        if isinstance(event, Request):
            words.append(event.head.path.decode() + (" ..." if event.body is None else ""))
            words += [event.body] if event.body else []
        elif isinstance(event, BodyPart):
            before = words.pop() if words and isinstance(words[-1], int) else 0
            words.append(before + len(event.data))
        elif isinstance(event, Fault):
            words.append(f"fault {event.status}")
        else:
            words.append(type(event).__name__.lower())
    return words


IN = {
    # each row: what comes, in which pieces; what it means; what the reader does then
    "a request": ([GET], ["/a"], Reader.IDLE),
    "a request in two": ([GET[:9], GET[9:]], ["/a"], Reader.IDLE),
    "a part of a head": ([GET[:9]], [], Reader.HEAD),
    "a small body": ([POST], ["/p", b"abc"], Reader.IDLE),
    "a small body that comes later": ([POST[:-3], b"abc"], ["/p", b"abc"], Reader.IDLE),
    "a part of a small body": ([POST[:-1]], [], Reader.GATHERING),
    "a large body": ([LARGE, b"x"], ["/g ...", 1], Reader.STREAMING),
    "all of a large body": (
        [LARGE, bytes(GATHERED), b"x"],
        ["/g ...", GATHERED + 1, "bodyend"],
        Reader.IDLE,
    ),
    "a body of unknown length": ([CHUNKED, b"3\r\nabc\r\n0\r\n\r\n"], ["/c", b"abc"], Reader.IDLE),
    "a body of unknown length that grows": (
        [CHUNKED, b"10001\r\n" + bytes(0x10001) + b"\r\n1\r\nx\r\n"],
        ["/c ...", 0x10002],
        Reader.STREAMING,
    ),
    "a client that waits": ([EXPECTS], ["/e ..."], Reader.STREAMING),
    "several requests": ([GET + POST + GET], ["/a", "/p", b"abc", "/a"], Reader.IDLE),
    "nothing follows the last": ([LAST + GET, GET], ["/l"], Reader.CLOSED),
    "a fault": ([NONSENSE, GET], ["fault 501"], Reader.CLOSED),
    "a fault behind a request": ([GET + NONSENSE], ["/a", "fault 501"], Reader.CLOSED),
    "a fault in a body": ([CHUNKED, b"no\r\n"], ["fault 400"], Reader.CLOSED),
    "a fault in a body in pieces": (
        [EXPECTS.replace(b"Content-Length: 3", b"Transfer-Encoding: chunked"), b"no\r\n"],
        ["/e ...", "fault 400"],
        Reader.CLOSED,
    ),
}


@pytest.mark.parametrize(("pieces", "expected", "reader"), IN.values(), ids=IN)
def test_bytes_become_events_in_any_pieces(
    pieces: list[bytes], expected: list[Told], reader: Reader
) -> None:
    spoken = protocol()
    events = [event for piece in pieces for event in spoken.receive(piece)]
    assert told(events) == expected
    assert spoken.reader is reader


def test_a_fault_in_a_body_whose_request_is_answered_leaves_nothing_to_say() -> None:
    spoken = protocol()
    spoken.receive(EXPECTS.replace(b"Content-Length: 3", b"Transfer-Encoding: chunked"))
    spoken.send(OK)
    assert told(spoken.receive(b"no\r\n")) == ["bodyfault"]


def test_the_refusal_is_the_reply_to_a_request_whose_body_is_wrong() -> None:
    spoken = protocol()
    spoken.receive(GET + EXPECTS.replace(b"Content-Length: 3", b"Transfer-Encoding: chunked"))
    (fault,) = spoken.receive(b"no\r\n")
    spoken.send(OK)
    with pytest.raises(IllegalMove):
        spoken.send(OK)
    assert isinstance(fault, Fault)
    assert b" 400 " in spoken.send(fault)[0]


OUT = {
    # what was asked; the reply; its last line but one, and what the writer does then
    "a reply": (GET, OK, b"content-length: 2\r\n\r\nok", Writer.OPEN),
    "to HEAD": (GET.replace(b"GET", b"HEAD"), OK, b"content-length: 2\r\n\r\n", Writer.OPEN),
    "the last, by the client": (LAST, OK, CLOSE + b"\r\nok", Writer.LAST),
    "the last, by the version": (b"GET / HTTP/1.0\r\n\r\n", OK, CLOSE + b"\r\nok", Writer.LAST),
    "kept in HTTP/1.0": (
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        OK,
        b"connection: keep-alive\r\n\r\nok",
        Writer.OPEN,
    ),
}


@pytest.mark.parametrize(("asked", "reply", "end", "writer"), OUT.values(), ids=OUT)
def test_a_reply_becomes_bytes(asked: bytes, reply: Reply, end: bytes, writer: Writer) -> None:
    spoken = protocol()
    spoken.receive(asked)
    (sent,) = spoken.send(reply)
    assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
    assert sent.endswith(end)
    assert spoken.writer is writer


def test_the_application_may_end_the_connection_and_so_may_the_server() -> None:
    for reply, last in ((OK._replace(headers=((b"connection", b"close"),)), False), (OK, True)):
        spoken = protocol()
        spoken.receive(GET)
        (sent,) = spoken.send(reply, last=last)
        assert sent.count(CLOSE) == 1
        assert spoken.writer is Writer.LAST


def test_a_large_body_is_not_copied() -> None:
    spoken = protocol()
    spoken.receive(GET)
    body = bytes(JOINED + 1)
    assert spoken.send(OK._replace(body=body))[1] is body


@pytest.mark.parametrize("said", [OK, CONTINUE, Fault(400, "no")])
def test_nothing_is_sent_after_the_last(said: Reply) -> None:
    spoken = protocol()
    spoken.receive(LAST)
    spoken.send(OK)
    with pytest.raises(IllegalMove):
        spoken.send(said)
    assert spoken.writer is Writer.LAST


def test_a_reply_without_a_request_is_refused() -> None:
    spoken = protocol()
    with pytest.raises(IllegalMove):
        spoken.send(OK)
    assert spoken.writer is Writer.OPEN


@pytest.mark.parametrize("name", [b"content-length", b"transfer-encoding", b"a b"])
def test_a_reply_that_is_not_to_be_sent_changes_nothing(name: bytes) -> None:
    spoken = protocol()
    spoken.receive(GET)
    with pytest.raises(ValueError):
        spoken.send(OK._replace(headers=((name, b"7"),)))
    assert spoken.send(OK)[0].endswith(b"ok")


def test_after_its_end_it_gives_and_takes_nothing() -> None:
    spoken = protocol()
    spoken.receive(GET)
    spoken.forget()
    assert spoken.receive(GET) == ()
    with pytest.raises(IllegalMove):
        spoken.send(OK)
