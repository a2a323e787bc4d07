"""Calls: what clients send and get, their deadlines, and how they end."""

import asyncio
import gc
import gzip
import logging
import zlib

import pytest
from hyperframe.frame import DataFrame

from ie_serving.server.http2 import call as call_module
from ie_serving.server.http2 import frames
from tests.unit.server.http2.peer import (
    LIMIT,
    Served,
    call,
    call_headers,
    data,
    headers,
    message,
    pattern,
    window_update,
)

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 1, 3, 4
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13


async def ended_tasks() -> None:
    """Wait until no task but the test's is left."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=20)


# Requests and replies.


@pytest.mark.parametrize("size", [0, 1, 100, 16_379, 16_380, 32_768, 60_000])
async def test_a_reply_is_what_was_answered(served: Served, size: int) -> None:
    peer = await served.connect()
    peer.send(call(1, "Echo", pattern(size)))
    reply = await peer.reply(1)
    assert (reply.status, reply.messages) == (OK, [pattern(size)])
    assert reply.fields[":status"] == "200"
    assert reply.fields["content-type"] == "application/grpc"


async def test_a_reply_larger_than_every_window(served: Served) -> None:
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
    peer = await served.connect()
    peer.send(call(1, "Echo", b"", ("x-id", "7"), ("x-bin", "AAEC")))
    await peer.reply(1)
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
    peer = await served.connect()
    peer.send(call(1, method, content))
    reply = await peer.reply(1)
    assert reply.status == status
    assert text in reply.text


async def test_a_defect_does_not_show_its_text(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it."""
    caplog.set_level(logging.ERROR)
    peer = await served.connect()
    peer.send(call(1, "Break"))
    reply = await peer.reply(1)
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
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo"), "END_STREAM"))
    assert (await peer.reply(1)).status == UNIMPLEMENTED


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


# Compression.


@pytest.mark.parametrize(
    ("name", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
@pytest.mark.parametrize("size", [0, 100, 500_000], ids=["empty", "small", "in a thread"])
async def test_compressed_messages(
    served: Served, name: str, compress: type[bytes], size: int
) -> None:
    content = pattern(size)
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo", ("grpc-encoding", name))))
    peer.send(data(1, message(compress(content), 1), "END_STREAM"), window_update(0, LIMIT))
    peer.send(window_update(1, LIMIT))
    assert (await peer.reply(1)).messages == [content]


async def test_with_an_encoding_messages_may_be_as_they_are(served: Served) -> None:
    peer = await served.connect()
    peer.send(call(1, "Echo", b"plain", ("grpc-encoding", "gzip")))
    assert (await peer.reply(1)).messages == [b"plain"]


@pytest.mark.parametrize(
    ("content", "encoding", "status"),
    [
        pytest.param(gzip.compress(bytes(LIMIT + 1)), "gzip", RESOURCE_EXHAUSTED, id="a bomb"),
        pytest.param(gzip.compress(b"abc")[:-1], "gzip", INVALID_ARGUMENT, id="truncated"),
        pytest.param(gzip.compress(b"abc") + b"x", "gzip", INVALID_ARGUMENT, id="something behind"),
        pytest.param(b"abc", "gzip", INVALID_ARGUMENT, id="not compressed"),
        pytest.param(gzip.compress(b"abc"), "deflate", INVALID_ARGUMENT, id="another encoding"),
        pytest.param(b"abc", "identity", INTERNAL, id="marked, but identity"),
        pytest.param(b"abc", "br", UNIMPLEMENTED, id="an encoding that is not known"),
    ],
)
@pytest.mark.parametrize("method", ["Echo", "Chat"])
async def test_messages_that_cannot_be_inflated(
    served: Served, method: str, content: bytes, encoding: str, status: int
) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers(method, ("grpc-encoding", encoding))))
    peer.send(data(1, message(content, 1), "END_STREAM"))
    assert (await peer.reply(1)).status == status


# Time.


async def test_a_call_ends_at_its_deadline(served: Served) -> None:
    peer = await served.connect()
    peer.send(call(1, "Wait", b"", ("grpc-timeout", "20m")))
    reply = await peer.reply(1)
    assert reply.status == DEADLINE_EXCEEDED
    assert "Deadline Exceeded" in reply.text
    assert served.services.log == ["cancelled"]


async def test_a_deadline_holds_while_the_request_comes(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo", ("grpc-timeout", "10m"))))
    assert (await peer.reply(1)).status == DEADLINE_EXCEEDED


async def test_a_deadline_holds_while_the_client_takes_no_reply(served: Served) -> None:
    """The status needs no window."""
    peer = await served.connect()
    peer.send(call(1, "Size", b"100000", ("grpc-timeout", "50m")))
    reply = await peer.reply(1)
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
    peer = await served.connect()
    peer.send(call(1, "Echo", b"x", ("grpc-timeout", timeout)))
    assert (await peer.reply(1)).status == OK
    left = served.services.contexts[0].time_remaining()
    assert left is not None
    assert 0 <= left <= (1 if timeout == "1S" else 99999999 * 3600)


async def test_no_time_at_all(served: Served) -> None:
    """It ends at once, not never."""
    peer = await served.connect()
    peer.send(call(1, "Wait", b"", ("grpc-timeout", "0n")))
    assert (await peer.reply(1)).status == DEADLINE_EXCEEDED


# Conversations.


async def test_messages_are_answered_as_they_come(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Chat")))
    for content in (b"one", b"", b"three"):
        peer.send(data(1, message(content)))
        await peer.pong()
    peer.send(data(1, b"", "END_STREAM"))
    reply = await peer.reply(1)
    assert (reply.status, reply.messages) == (OK, [b"one", b"", b"three"])


async def test_a_conversation_may_begin_with_a_reply(served: Served) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    assert len((await peer.until(DataFrame)).data) == 10_005


async def test_replies_wait_for_a_client_that_takes_none(served: Served) -> None:
    """The service is asked for the next only when the last has gone out."""
    peer = await served.connect()
    peer.send(headers(1, call_headers("Push")))
    for _ in range(20):
        await peer.pong()
    assert len(served.services.log) == 65_535 // 10_005 + 1


@pytest.mark.parametrize(
    ("content", "count"),
    [
        pytest.param(b"", call_module.MOST_UNREAD + 2, id="many"),
        pytest.param(bytes(LIMIT // 2), 9, id="large"),
    ],
)
async def test_messages_that_nobody_reads_are_not_gathered_without_end(
    served: Served, content: bytes, count: int
) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers("Mute")))
    for _ in range(count):
        peer.send(data(1, message(content)))
    assert (await peer.reply(1)).status == RESOURCE_EXHAUSTED
    await peer.close()
    await ended_tasks()
    assert served.services.log == ["ended"]


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
    assert not [o for o in gc.get_objects() if isinstance(o, call_module.Call)]


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
    assert not [o for o in gc.get_objects() if isinstance(o, call_module.Call)]


@pytest.mark.parametrize("method", ["Wait", "Mute"])
async def test_a_reset_cancels_the_call(served: Served, method: str) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers(method)), data(1, message(b""), "END_STREAM"))
    await served.services.begun.wait()
    peer.send(frames.rst_stream(1, frames.ErrorCode.CANCEL))
    while not served.services.log:
        await peer.pong()
    assert served.services.log in (["cancelled"], ["ended"])
