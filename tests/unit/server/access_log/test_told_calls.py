"""Calls over the own HTTP/2, where the access log is on: one line each, however they end."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import BudgetFull
from ie_serving.server.access_log import OptionalWatch
from ie_serving.server.transport.grpc import call as module
from ie_serving.server.transport.http2 import frames
from tests.unit.server.transport.http2.peer import (
    PATIENCE_S,
    Peer,
    Served,
    call,
    call_headers,
    data,
    ended_tasks,
    headers,
    message,
    pattern,
    serving,
    window_update,
)


@asynccontextmanager
async def logging(path: Path) -> AsyncIterator[tuple[Served, Peer]]:
    """Serve, with a client. The log is whole when the block has ended."""
    watch = OptionalWatch(str(path / "log"), "json")
    async with serving(watch=watch) as served:
        yield served, await served.connect()
    await watch.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each)["fields"] for each in (path / "log").read_text().splitlines()]


@pytest.mark.parametrize("size", [10, 200_000], ids=["whole", "in pieces"])
async def test_a_call_that_is_answered_has_its_sizes_and_time(tmp_path: Path, size: int) -> None:
    async with logging(tmp_path) as (_, peer):
        peer.send(call(1, "Size", b"%d" % size, ("x-request-id", "7f-1")))
        peer.send(window_update(0, size), window_update(1, size))
        reply = await peer.reply(1)
        assert reply.fields["x-request-id"] == "7f-1"
    (line,) = lines(tmp_path)
    assert (line["id"], line["code"], line["method"]) == ("7f-1", "OK", "Size")
    assert (line["bytes_in"], line["bytes_out"]) == (len(b"%d" % size), size)
    assert line["total_ms"] > 0


@pytest.mark.parametrize("value", ["7f", "x" * 126, "x" * 127, "x" * 128])
async def test_an_id_of_any_length_is_given_back(tmp_path: Path, value: str) -> None:
    """As hpack has it, by a call that succeeds and by one that fails."""
    async with logging(tmp_path) as (_, peer):
        for number, method in ((1, "Echo"), (3, "Fail")):
            peer.send(call(number, method, b"abc", ("x-request-id", value)))
            assert (await peer.reply(number)).fields["x-request-id"] == value


@pytest.mark.parametrize("size", [3, 100_000])
async def test_a_compressed_one_has_the_sizes_of_what_it_says(tmp_path: Path, size: int) -> None:
    content = pattern(size)
    fields = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip")]
    async with logging(tmp_path) as (_, peer):
        peer.send(headers(1, call_headers("Echo", *fields)))
        peer.send(data(1, message(gzip.compress(content), 1), "END_STREAM"))
        peer.send(window_update(0, size), window_update(1, size))
        await peer.reply(1)
    (line,) = lines(tmp_path)
    assert (line["code"], line["bytes_in"], line["bytes_out"]) == ("OK", size, size)


@pytest.mark.parametrize("method", ["Wait", "Echo"])
async def test_a_call_that_is_late_has_its_code(tmp_path: Path, method: str) -> None:
    """While it is worked on, and while its message comes."""
    whole = call(1, method, b"abc", ("grpc-timeout", "20m"))
    begun = headers(1, call_headers(method, ("grpc-timeout", "20m")))
    async with logging(tmp_path) as (_, peer):
        peer.send(whole if method == "Wait" else begun)
        reply = await peer.reply(1)
        await ended_tasks()
    (line,) = lines(tmp_path)
    assert (line["id"], line["code"]) == (reply.fields["x-request-id"], "DEADLINE_EXCEEDED")
    assert line["bytes_in"] == (3 if method == "Wait" else None)


async def test_a_call_that_answers_too_late_has_the_code_that_was_told(tmp_path: Path) -> None:
    """Its line says what its client was told."""
    async with logging(tmp_path) as (_, peer):
        peer.send(call(1, "Stay", b"abc", ("grpc-timeout", "20m")))
        await peer.reply(1)
        await ended_tasks()
    (line,) = lines(tmp_path)
    assert (line["code"], line["bytes_out"]) == ("DEADLINE_EXCEEDED", 0)


@pytest.mark.parametrize("method", ["Wait", "Stay"], ids=["cancelled", "answers all the same"])
async def test_a_call_whose_client_has_left_has_its_code(tmp_path: Path, method: str) -> None:
    async with logging(tmp_path) as (_, peer):
        peer.send(call(1, method, b"abc"))
        await peer.pong()
        peer.send(frames.rst_stream(1, frames.ErrorCode.CANCEL))
        await peer.pong()
        await ended_tasks()
    (line,) = lines(tmp_path)
    assert (line["code"], line["bytes_out"]) == ("CANCELLED", 0)


GZIP = headers(1, call_headers("Echo", ("grpc-encoding", "gzip")))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(call(1, "Fail", b"abc"), "INVALID_ARGUMENT", id="refused"),
        pytest.param(call(1, "Break", b"abc"), "INTERNAL", id="a defect"),
        pytest.param(call(1, "Cancel", b"abc"), "CANCELLED", id="cancelled from inside"),
        pytest.param(
            GZIP + data(1, message(b"abc", 1), "END_STREAM"), "INVALID_ARGUMENT", id="gzip"
        ),
    ],
)
async def test_a_call_that_fails_has_its_code(tmp_path: Path, sent: bytes, code: str) -> None:
    async with logging(tmp_path) as (_, peer):
        peer.send(sent)
        reply = await peer.reply(1)
    (line,) = lines(tmp_path)
    assert (line["id"], line["code"]) == (reply.fields["x-request-id"], code)


async def test_a_call_whose_reply_has_no_room_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BudgetFull("no room")

    async with logging(tmp_path) as (_, peer):
        monkeypatch.setattr(module.BUDGET, "lease", refuse)
        peer.send(call(1, "Size", b"200000"))
        reply = await peer.reply(1)
        monkeypatch.undo()
    (line,) = lines(tmp_path)
    assert (line["id"], line["code"]) == (reply.fields["x-request-id"], "RESOURCE_EXHAUSTED")


async def test_a_call_that_the_end_of_the_server_breaks_off_has_its_code(tmp_path: Path) -> None:
    """Its line says what its client was told."""
    async with logging(tmp_path) as (served, peer):
        peer.send(call(1, "Wait", b"abc"))
        await asyncio.wait_for(served.services.begun.wait(), PATIENCE_S)
        await served.server.drain(0.05)
    (line,) = lines(tmp_path)
    assert (line["code"], line["bytes_out"]) == ("UNAVAILABLE", 0)


async def test_calls_of_one_connection_have_nothing_of_each_other_in_their_lines(
    tmp_path: Path,
) -> None:
    """Although those that end at once share an entry; one that waits keeps its own."""
    async with logging(tmp_path) as (served, peer):
        peer.send(call(1, "Echo", b"one", ("x-request-id", "a")))
        await peer.reply(1)
        peer.send(call(3, "Wait", b"waits", ("x-request-id", "b")))
        await asyncio.wait_for(served.services.begun.wait(), PATIENCE_S)
        peer.send(call(5, "Fail", b"fails"), call(7, "Echo", b"fourth", ("x-request-id", "c")))
        await peer.reply(7)
        served.services.gate.set()
        await peer.reply(3)
    seen = {
        line["id"]: (line["method"], line["code"], line["bytes_in"]) for line in lines(tmp_path)
    }
    made = next(id for id in seen if len(id) > 1)
    assert seen == {
        "a": ("Echo", "OK", 3),
        made: ("Fail", "INVALID_ARGUMENT", 5),
        "c": ("Echo", "OK", 6),
        "b": ("Wait", "OK", 5),
    }
