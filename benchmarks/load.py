"""Keep a server busy with one request, and time every reply.

Clients in Python, on one event loop: `grpc.aio`, as users have it, and a bare HTTP/1.1 client that
costs far less than the server. `generators.py` has the faster ones, which must be installed.
A reply counts only when it has as many bytes as the one that was checked: a load generator that
looks at status codes alone takes gRPC errors for successes.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import numpy as np

from benchmarks.calls import Call, WrongReplyError

HOST = "127.0.0.1"
Ask = Callable[[], Awaitable[None]]
"""Sends one request and waits for its reply."""
OK = b"HTTP/1.1 200"
LARGEST = ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)


@dataclass(frozen=True)
class Sample:
    """What one stretch of load saw.

    Attributes:
        rps: replies per second.
        p50_ms: median time from request to reply.
        p99_ms: time within which 99 of 100 replies came.
        replies: how many came, those of the warm-up and the first one, which told its length,
            included.
    """

    rps: float
    p50_ms: float
    p99_ms: float
    replies: int

    @classmethod
    def of(cls, seconds: float, latencies_s: list[float], uncounted: int = 0) -> "Sample":
        """Sum up the latencies of all replies that came within `seconds` after the warm-up."""
        p50, p99 = np.percentile(latencies_s, (50, 99)) * 1000
        counted = len(latencies_s)
        return cls(counted / seconds, float(p50), float(p99), counted + uncounted)


async def ask_grpc(port: int, call: Call) -> bytes:
    """Send the call once over gRPC and return the reply message."""
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=LARGEST) as channel:
        method = channel.unary_unary(call.path)
        return await method(call.body, timeout=30, metadata=_metadata(call))


async def ask_rest(port: int, call: Call, tls: ssl.SSLContext | None = None) -> bytes:
    """Send the call once over HTTP/1.1 and return the reply's body.

    Raises:
        WrongReplyError: the status is not 200.
    """
    reply = await _whole_reply(port, call, tls)
    head, _, body = reply.partition(b"\r\n\r\n")
    if not head.startswith(OK):
        raise WrongReplyError(f"{call.path}: {reply[:300]!r}")
    return body


async def load_grpc(port: int, call: Call, concurrency: int, seconds: float) -> Sample:
    """Keep `concurrency` calls in flight on one channel."""
    async with asking_grpc(port, call) as one:
        return await _repeat(one, concurrency, seconds)


async def load_rest(port: int, call: Call, concurrency: int, seconds: float) -> Sample:
    """Keep `concurrency` requests in flight, each on its own connection."""
    async with asking_rest(port, call, concurrency) as one:
        return await _repeat(one, concurrency, seconds)


async def load_in_turns(servers: Sequence[Ask], concurrency: int, seconds: float) -> list[Sample]:
    """Ask one server after the other, a burst of requests at a time, for `seconds` each.

    A burst takes a millisecond or so: whatever else the machine does hits all servers alike, which
    turns of a second do not see to. Requests per second are those of the median burst.
    """
    warm_up = await _in_turns(servers, concurrency, len(servers) * seconds / 4)
    found = await _in_turns(servers, concurrency, len(servers) * seconds)
    return [
        Sample.of(len(bursts) * float(np.median(bursts)), latencies, 1 + len(before))
        for (bursts, latencies), (_, before) in zip(found, warm_up, strict=True)
    ]


async def bursts_in_turns(
    servers: Sequence[Ask], concurrency: int, seconds: float
) -> list[list[float]]:
    """Do the same, and give the seconds of each server's bursts.

    Those at the same place are of one turn. What is compared by such pairs is free of the spells in
    which everything takes twice as long.
    """
    await _in_turns(servers, concurrency, len(servers) * seconds / 4)
    return [bursts for bursts, _ in await _in_turns(servers, concurrency, len(servers) * seconds)]


async def _in_turns(
    servers: Sequence[Ask], concurrency: int, seconds: float
) -> list[tuple[list[float], list[float]]]:
    """Give for each server the seconds of its bursts, and of its requests."""
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in servers]
    end = time.perf_counter() + seconds
    order = list(range(len(servers)))
    while time.perf_counter() < end:
        for place in order:
            bursts, latencies = found[place]
            began = time.perf_counter()
            await asyncio.gather(*(_timed(servers[place], latencies) for _ in range(concurrency)))
            bursts.append(time.perf_counter() - began)
        # To and fro would ask the outer ones twice in a row, while their server still polls.
        random.shuffle(order)
    return found


async def _timed(one: Ask, latencies: list[float]) -> None:
    began = time.perf_counter()
    await one()
    latencies.append(time.perf_counter() - began)


@asynccontextmanager
async def asking_grpc(port: int, call: Call) -> AsyncIterator[Ask]:
    """Give what sends the call on one channel, and waits for the reply."""
    expected = len(await ask_grpc(port, call))
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=LARGEST) as channel:
        method = channel.unary_unary(call.path)

        metadata = _metadata(call)

        async def one() -> None:
            reply = await method(call.body, metadata=metadata)
            if len(reply) != expected:
                raise WrongReplyError(f"{call.path}: {len(reply)} bytes instead of {expected}")

        yield one


@asynccontextmanager
async def asking_rest(port: int, call: Call, concurrency: int) -> AsyncIterator[Ask]:
    """Give what sends the call on one of `concurrency` connections, and waits for the reply."""
    expected = len(await _whole_reply(port, call))
    request = _http(call, port)
    loop = asyncio.get_running_loop()
    free: asyncio.LifoQueue[_Connection] = asyncio.LifoQueue()
    opened = []
    for _ in range(concurrency):
        transport, connection = await loop.create_connection(
            lambda: _Connection(expected), HOST, port
        )
        free.put_nowait(connection)
        opened.append(transport)

    async def one() -> None:
        connection = free.get_nowait()
        await connection.exchange(request)
        free.put_nowait(connection)

    try:
        yield one
    finally:
        for transport in opened:
            transport.close()


def _metadata(call: Call) -> tuple[tuple[str, str], ...]:
    return (("x-api-key", call.key),) if call.key else ()


class _Connection(asyncio.Protocol):
    """One HTTP/1.1 connection whose replies all have the same length."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._received = bytearray()
        self._reply: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def exchange(self, request: bytes) -> None:
        """Send `request` and wait for the whole reply."""
        self._reply = asyncio.get_running_loop().create_future()
        self._received.clear()
        self._transport.write(request)  # type: ignore[attr-defined]
        await self._reply

    def data_received(self, data: bytes) -> None:
        self._received += data
        good = OK.startswith(self._received[: len(OK)]) and len(self._received) <= self._expected
        if not good:
            self.connection_lost(None)
        elif self._reply and len(self._received) == self._expected and not self._reply.done():
            self._reply.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply and not self._reply.done():
            self._reply.set_exception(WrongReplyError(f"{bytes(self._received[:300])!r} {error}"))


async def _repeat(one: Callable[[], Awaitable[None]], concurrency: int, seconds: float) -> Sample:
    """Run `one` in `concurrency` loops, first for a while without counting."""
    warm_up = 1 + len(await _during(one, concurrency, seconds / 4))
    started = time.perf_counter()
    latencies = await _during(one, concurrency, seconds)
    return Sample.of(time.perf_counter() - started, latencies, warm_up)


async def _during(
    one: Callable[[], Awaitable[None]], concurrency: int, seconds: float
) -> list[float]:
    end = time.perf_counter() + seconds
    latencies: list[float] = []

    async def repeat() -> None:
        now = time.perf_counter()
        while now < end:
            await one()
            before, now = now, time.perf_counter()
            latencies.append(now - before)

    await asyncio.gather(*(repeat() for _ in range(concurrency)))
    return latencies


def _http(call: Call, port: int) -> bytes:
    key = (("X-Api-Key", call.key),) if call.key else ()
    headers = "".join(f"{name}: {value}\r\n" for name, value in (*key, *call.headers))
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n{headers}"
        f"Content-Length: {len(call.body)}\r\n\r\n"
    )
    return head.encode() + call.body


async def _whole_reply(port: int, call: Call, tls: ssl.SSLContext | None = None) -> bytes:
    """Send the call once and return head and body of the reply."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        writer.write(_http(call, port))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        lengths = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        return head + await asyncio.wait_for(reader.readexactly(lengths[0]), 60)
    finally:
        writer.close()
