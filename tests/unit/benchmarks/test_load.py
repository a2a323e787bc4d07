"""A load generator must not take an error for an answer."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from benchmarks.calls import Call, WrongReplyError
from benchmarks.load import Sample, asking_rest, load_in_turns, load_rest

CALL = Call("/v1/models/m:predict", b"{}", lambda reply: {})


@contextmanager
def answering(statuses: list[int]) -> Iterator[int]:
    """Serve `statuses` one after the other, the last for ever; give the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("Content-Length", "2")
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(b"ok")

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_good_replies_are_counted() -> None:
    with answering([200]) as port:
        sample = asyncio.run(load_rest(port, CALL, 2, 0.05))
    assert sample.replies > 0
    assert 0 < sample.p50_ms <= sample.p99_ms


def test_an_error_among_good_replies_stops_the_load() -> None:
    with answering([200, 200, 200, 503]) as port, pytest.raises(WrongReplyError, match="503"):
        asyncio.run(load_rest(port, CALL, 1, 5))


async def in_turns(ports: list[int], seconds: float) -> list[Sample]:
    async with AsyncExitStack() as stack:
        asks = [await stack.enter_async_context(asking_rest(port, CALL, 2)) for port in ports]
        return await load_in_turns(asks, 2, seconds)


def test_servers_are_asked_in_turns() -> None:
    with answering([200]) as first, answering([200]) as second:
        samples = asyncio.run(in_turns([first, second], 0.05))
    replies = [sample.replies for sample in samples]
    assert replies[0] == replies[1] > 0
    assert all(0 < sample.p50_ms <= sample.p99_ms for sample in samples)
    assert all(sample.rps > 0 for sample in samples)


def test_an_error_of_one_server_stops_the_turns() -> None:
    with (
        answering([200]) as first,
        answering([200, 200, 200, 503]) as second,
        pytest.raises(WrongReplyError, match="503"),
    ):
        asyncio.run(in_turns([first, second], 5))
