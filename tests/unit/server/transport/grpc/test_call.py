"""Calls: what clients send and get, their deadlines, and how they end."""

import asyncio
import gc
import logging

import pytest

from ie_serving.core.values.codes import Code
from ie_serving.core.values.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotSupported,
    RequestTooLarge,
)
from ie_serving.server.transport.grpc.call import REPLY, Call, ReplyEvent, ReplyStage
from ie_serving.server.transport.http2 import frames
from tests.unit.moves import check_moves
from tests.unit.server.transport.http2.peer import (
    LIMIT,
    PATIENCE_S,
    Served,
    call,
    call_headers,
    data,
    ended_tasks,
    headers,
    message,
    pattern,
    raw_frame,
    window_update,
    works,
)

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 1, 3, 4
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13
RESET = raw_frame(frames.RST_STREAM, 0, 1, bytes(4))
MOVES = """
         BEGIN    END
NOTHING  HEADERS  ALL
HEADERS  .        ALL
ALL      .        ALL
"""


def test_every_event_in_every_stage_of_an_answer() -> None:
    check_moves(REPLY, ReplyStage, ReplyEvent, MOVES)


# Requests and replies.


@pytest.mark.parametrize("size", [0, 1, 100, 16_379, 16_380, 32_768, 60_000])
async def test_a_reply_is_what_was_answered(served: Served, size: int) -> None:
    reply = await served.reply(call(1, "Echo", pattern(size)))
    assert (reply.status, reply.messages) == (OK, [pattern(size)])
    assert reply.fields[":status"] == "200"
    assert reply.fields["content-type"] == "application/grpc"


async def test_a_reply_larger_than_every_window_is_sent_as_they_are_widened(served: Served) -> None:
    """It goes on as the windows are widened, of the stream and of the connection."""
    peer = await served.connect()
    peer.send(call(1, "Size", b"1000000"))
    read = 0
    while read < 1_000_005:
        frame = await peer.frame()
        assert frame
        read += len(getattr(frame, "data", b"")) if frame.type == 0 else 0
        if frame.type == 0:
            peer.send(window_update(0, len(frame.data)), window_update(1, len(frame.data)))
    assert (await peer.reply(1)).messages == [pattern(1_000_000)]


async def test_metadata_reaches_the_service(served: Served) -> None:
    """Binary values as they came."""
    await served.reply(call(1, "Echo", b"", ("x-id", "7"), ("x-bin", "AAEC")))
    metadata = served.services.contexts[0].invocation_metadata()
    assert metadata[-2:] == ((b"x-id", b"7"), (b"x-bin", b"AAEC"))


@pytest.mark.parametrize(
    ("method", "content", "status", "text"),
    [
        pytest.param("Fail", b"wrong\n100% \xc3\xa9", 3, "wrong\n100% é", id="an error of ours"),
        pytest.param("Cancel", b"", CANCELLED, "ask again", id="cancelled from inside"),
        pytest.param("None", b"", UNIMPLEMENTED, "Method not found!", id="no such method"),
    ],
)
async def test_failures_have_a_status_and_a_text(
    served: Served, method: str, content: bytes, status: int, text: str
) -> None:
    reply = await served.reply(call(1, method, content))
    assert reply.status == status
    assert text in reply.text


async def test_a_defect_does_not_show_its_text(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it."""
    caplog.set_level(logging.ERROR)
    reply = await served.reply(call(1, "Break"))
    assert reply.status == INTERNAL
    assert "secret" not in reply.text
    assert caplog.records[0].exc_info


@pytest.mark.parametrize("contents", [[], [b"1", b"2"]], ids=["none", "two"])
async def test_a_unary_method_takes_exactly_one_message(
    served: Served, contents: list[bytes]
) -> None:
    peer = await served.connect()
    body = b"".join(map(message, contents))
    peer.send(headers(1, call_headers("Echo")), data(1, body, "END_STREAM"))
    reply = await peer.reply(1)
    assert reply.status == UNIMPLEMENTED
    await peer.pong()
    assert reply.reset is None  # there is nothing to stop


async def test_headers_alone_are_a_request_without_a_message(served: Served) -> None:
    reply = await served.reply(headers(1, call_headers("Echo"), "END_STREAM"))
    assert reply.status == UNIMPLEMENTED


async def test_trailers_end_a_request(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo")), data(1, message(b"x")))
    peer.send(headers(1, [("x", "y")], "END_STREAM"))
    assert (await peer.reply(1)).messages == [b"x"]


@pytest.mark.parametrize("method", ["Echo", "Chat", "Mute"])
async def test_a_request_that_ends_within_a_message_is_invalid(served: Served, method: str) -> None:
    """And nothing of the call is left."""
    peer = await served.connect()
    peer.send(headers(1, call_headers(method)), data(1, message(b"abc")[:-1], "END_STREAM"))
    assert (await peer.reply(1)).status == INVALID_ARGUMENT
    await peer.close()
    await ended_tasks()


async def test_an_early_failure_stops_the_request(served: Served) -> None:
    """The client is told to send no more: its next gigabyte is for nothing."""
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo")), data(1, message(bytes(LIMIT + 1))[:100]))
    reply = await peer.reply(1)
    assert reply.status == RESOURCE_EXHAUSTED
    assert f"larger than max ({LIMIT + 1} vs. {LIMIT})" in reply.text
    await peer.pong()
    assert (await peer.reply(1)).reset == 0
    peer.send(data(1, bytes(100)), data(1, b"", "END_STREAM"), call(3, "Echo", b"next"))
    assert (await peer.reply(3)).messages == [b"next"]


# Time.


async def test_a_call_ends_at_its_deadline(served: Served) -> None:
    reply = await served.reply(call(1, "Wait", b"", ("grpc-timeout", "20m")))
    assert reply.status == DEADLINE_EXCEEDED
    assert "Deadline Exceeded" in reply.text
    assert served.services.log == ["cancelled"]
    assert served.services.causes == [Code.DEADLINE_EXCEEDED]
    assert served.refused == [], "the cancelled handler counts it"


@pytest.mark.parametrize(
    ("timeout", "cause"),
    [
        pytest.param(None, Code.CANCELLED, id="without a deadline"),
        pytest.param(("grpc-timeout", "1H"), Code.CANCELLED, id="long before it"),
        pytest.param(("grpc-timeout", "1n"), Code.DEADLINE_EXCEEDED, id="at it"),
    ],
)
async def test_a_cancelled_call_is_told_its_cause(
    served: Served, timeout: tuple[str, str] | None, cause: Code
) -> None:
    """Clients reset calls at the deadline, mostly before the server's clock has come to it."""
    peer = await served.connect()
    peer.send(call(1, "Wait", b"", *([timeout] if timeout else [])) + RESET)
    await asyncio.wait_for(served.services.begun.wait(), PATIENCE_S)
    await ended_tasks()
    assert served.services.causes == [cause]


async def test_a_deadline_holds_while_the_request_comes(served: Served) -> None:
    reply = await served.reply(headers(1, call_headers("Echo", ("grpc-timeout", "10m"))))
    assert reply.status == DEADLINE_EXCEEDED


async def test_a_deadline_holds_while_the_client_takes_no_reply(served: Served) -> None:
    """The status needs no window."""
    reply = await served.reply(call(1, "Size", b"100000", ("grpc-timeout", "50m")))
    assert reply.status == DEADLINE_EXCEEDED
    assert len(reply.body) == 65_535


@pytest.mark.parametrize("method", ["Mute", "Push"])
async def test_a_deadline_ends_a_conversation(served: Served, method: str) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers(method, ("grpc-timeout", "20m"))))
    assert (await peer.reply(1)).status == DEADLINE_EXCEEDED
    await peer.close()
    await ended_tasks()


@pytest.mark.parametrize("timeout", ["99999999H", "1S"])
async def test_a_call_within_its_time_knows_what_is_left(served: Served, timeout: str) -> None:
    assert (await served.reply(call(1, "Echo", b"x", ("grpc-timeout", timeout)))).status == OK
    left = served.services.contexts[0].time_remaining()
    assert left is not None
    assert 0 <= left <= (1 if timeout == "1S" else 99999999 * 3600)


async def test_no_time_at_all(served: Served) -> None:
    """It ends at once, not never."""
    reply = await served.reply(call(1, "Wait", b"", ("grpc-timeout", "0n")))
    assert reply.status == DEADLINE_EXCEEDED


# Nothing is left.


@pytest.mark.parametrize("method", ["Echo", "Size", "Fail"])
async def test_an_answered_call_is_freed(served: Served, method: str) -> None:
    peer = await served.connect()
    peer.send(call(1, "Echo", b"", ("grpc-timeout", "1H")))
    await peer.reply(1)
    served.services.contexts.clear()
    peer.send(call(3, method, b"1"))
    await peer.reply(3)
    served.services.contexts.clear()
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Call)]


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(headers(1, call_headers("Echo", ("grpc-timeout", "1H"))), id="headers"),
        pytest.param(
            headers(1, call_headers("Echo")) + data(1, message(bytes(9))[:7]), id="half a message"
        ),
        pytest.param(call(1, "Wait", b"x", ("grpc-timeout", "1H")), id="at work"),
        pytest.param(call(1, "Size", b"1000000"), id="reply waits for the window"),
        pytest.param(headers(1, call_headers("Chat")), id="conversation"),
        pytest.param(headers(1, call_headers("Mute")), id="conversation that does not read"),
        pytest.param(headers(1, call_headers("Push")), id="replies wait for the window"),
        pytest.param(headers(1, call_headers("Echo"))[:-3], id="half the headers"),
        pytest.param(data(1, bytes(9))[:4], id="half a head"),
    ],
)
async def test_a_lost_connection_leaves_nothing(served: Served, phase: bytes) -> None:
    """No task, no call: whenever it is lost."""
    peer = await served.connect()
    await peer.pong()
    peer.send(phase)
    if b"Wait" in phase or b"Mute" in phase:
        await served.services.begun.wait()
    peer.writer.transport.abort()
    await served.server.drain(20)  # returns when the last connection has ended
    await ended_tasks()
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Call)]


@pytest.mark.parametrize("method", ["Wait", "Mute"])
async def test_a_reset_cancels_the_call(served: Served, method: str) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers(method)), data(1, message(b""), "END_STREAM"))
    await served.services.begun.wait()
    peer.send(frames.rst_stream(1, frames.ErrorCode.CANCEL))
    while not served.services.log:
        await peer.pong()
    assert served.services.log == ["cancelled" if method == "Wait" else "ended"]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        pytest.param(
            headers(1, call_headers("Wait", ("grpc-timeout", "20m"))),
            DeadlineExceeded,
            id="too late",
        ),
        pytest.param(
            headers(1, call_headers("Echo")) + data(1, b"\0" + (1 << 30).to_bytes(4, "big")),
            RequestTooLarge,
            id="too large",
        ),
        pytest.param(
            headers(1, call_headers("Echo", ("grpc-encoding", "gzip")))
            + data(1, message(b"junk", compressed=1), "END_STREAM"),
            InvalidRequest,
            id="no gzip",
        ),
        pytest.param(
            headers(1, call_headers("Echo")) + data(1, b"", "END_STREAM"),
            NotSupported,
            id="no message",
        ),
    ],
)
async def test_an_error_that_a_unary_method_never_sees_is_told(
    served: Served, request_: bytes, kind: type[Exception]
) -> None:
    """So that the metrics count it, as they count what REST refuses."""
    await served.reply(request_)
    assert [type(error) for error in served.refused] == [kind]


async def test_a_call_that_is_answered_or_left_is_not_told(served: Served) -> None:
    peer = await served.connect()
    peer.send(call(1, "Echo", b"x"), call(3, "Fail", b""), call(5, "Wait", b""))
    await peer.reply(1)
    await peer.reply(3)
    peer.send(raw_frame(frames.RST_STREAM, 0, 5, (8).to_bytes(4, "big")))
    await works(peer)
    assert served.refused == []
