"""Compressed messages: what is inflated, and what is refused."""

import gzip
import random
import zlib

import pytest

from tests.unit.server.transport.http2.peer import (
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

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 3, 8, 12, 13


@pytest.mark.parametrize(
    ("name", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
@pytest.mark.parametrize("size", [0, 100, 500_000], ids=["empty", "small", "in a thread"])
async def test_compressed_messages_are_inflated(
    served: Served, name: str, compress: type[bytes], size: int
) -> None:
    content = pattern(size)
    peer = await served.connect()
    peer.send(headers(1, call_headers("Echo", ("grpc-encoding", name))))
    peer.send(data(1, message(compress(content), 1), "END_STREAM"), window_update(0, LIMIT))
    peer.send(window_update(1, LIMIT))
    assert (await peer.reply(1)).messages == [content]


@pytest.mark.parametrize(
    ("size", "accepted", "encoding"),
    [
        pytest.param(500_000, "identity, deflate, gzip", "gzip", id="in a thread"),
        pytest.param(10_000, "gzip", "gzip", id="small"),
        pytest.param(1000, "gzip", None, id="one packet in either form"),
        pytest.param(10_000, "identity,deflate", None, id="not accepted"),
        pytest.param(-10_000, "gzip", None, id="it does not shrink"),
    ],
)
async def test_replies_are_compressed_as_the_request_was_where_it_pays(
    served: Served, size: int, accepted: str, encoding: str | None
) -> None:
    content = bytes(size) if size > 0 else random.Random(1).randbytes(-size)
    peer = await served.connect()
    fields = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", accepted)]
    peer.send(headers(1, call_headers("Echo", *fields)))
    peer.send(data(1, message(gzip.compress(content), 1), "END_STREAM"))
    reply = await peer.reply(1)
    assert reply.fields.get("grpc-encoding") == encoding
    marked, written = reply.body[0], reply.body[5:]
    assert marked == (encoding is not None)
    assert (gzip.decompress(written) if marked else written) == content


async def test_with_an_encoding_messages_may_be_as_they_are(served: Served) -> None:
    reply = await served.reply(call(1, "Echo", b"plain", ("grpc-encoding", "gzip")))
    assert reply.messages == [b"plain"]


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
async def test_messages_that_cannot_be_inflated_are_refused(
    served: Served, method: str, content: bytes, encoding: str, status: int
) -> None:
    peer = await served.connect()
    peer.send(headers(1, call_headers(method, ("grpc-encoding", encoding))))
    peer.send(data(1, message(content, 1), "END_STREAM"))
    assert (await peer.reply(1)).status == status
